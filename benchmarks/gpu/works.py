"""Part 1: what works here, in plain words: what a first run wants to know before any number.

Owns the questions; each answer is "works", or why it does not. Nothing here may end the run.
"""

import importlib
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.gpu.machine import Bench, say
from fastcoder_lsp.engine.static.ways import FUSED

NEEDED = (
    "numba",
    "numpy",
    "psutil",
    "transformers",
    "safetensors",
    "triton",
    "platformdirs",
    "pathspec",
    "pydivsufsort",
    "gguf",
)
WORKS = "works"


def measure(bench: Bench) -> dict[str, str]:
    """Measure what works here: the answer to each question."""
    questions: dict[str, Callable[[Bench], str]] = {
        "packages": _packages,
        "a compiler for Triton's launchers": _compiler,
        "a capture and its replays": _capture,
        "a capture that fails": _failed_capture,
        "a good capture after it": _capture,
        "memory given back after it": _give_back,
        "random numbers after it": _random,
        "copies to and from pinned memory": _copies,
        "kernels of ours": _kernels,
    }
    found = {}
    for question, ask in questions.items():
        try:
            found[question] = ask(bench)
        except Exception as why:  # noqa: BLE001 the answer is whatever went wrong
            found[question] = f"{type(why).__name__}: {why}"[:300]
        say(f"{question}: {found[question]}")
    return found


def _packages(_bench: Bench) -> str:
    """What is absent; each costs its own part of the run."""
    absent = []
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            absent.append(name)
    return WORKS if not absent else "absent: " + ", ".join(absent)


def _compiler(_bench: Bench) -> str:
    """Triton compiles a piece of C for every kernel, against Python's headers."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    absent = [] if header.exists() else [str(header)]
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        absent.append("a C compiler")
    return WORKS if not absent else "absent: " + ", ".join(absent)


def _capture(bench: Bench) -> str:
    """Replays compute anew from what their inputs hold."""
    source = torch.zeros(1000, device=bench.device.place)
    target = torch.zeros_like(source)

    def work() -> None:
        target.copy_(source * 2 + 1)

    replay = bench.device.capture(work)
    for value in (3.0, 5.0):
        source.fill_(value)
        replay()
        bench.synchronize()
        if not bool((target == 2 * value + 1).all()):
            return f"a replay gives {float(target[0])}, not {2 * value + 1}"
    return WORKS


def _failed_capture(bench: Bench) -> str:
    """What waits for the host must be refused, and leave everything usable."""
    source = torch.ones(10, device=bench.device.place)

    def work() -> None:
        source.fill_(float(source.sum()))

    try:
        bench.device.capture(work)
    except RuntimeError as why:
        return f"{WORKS}: refused, {type(why).__name__}"
    return WORKS if not torch.cuda.is_available() else "a wait for the host was captured"


def _give_back(bench: Bench) -> str:
    """This asserts where the pool of a failed capture is still recording."""
    bench.device.release()
    return WORKS


def _random(bench: Bench) -> str:
    """The default generator is not left capturing."""
    torch.randn(10, device=bench.device.place)
    return WORKS


def _copies(bench: Bench) -> str:
    """A copy to the device, one back, and the wait between."""
    device = bench.device
    there, back = device.staging(1000, torch.int64), device.staging(1000, torch.int64)
    middle = torch.zeros(1000, dtype=torch.int64, device=device.place)
    there.copy_(torch.arange(1000))
    device.send(there, middle)
    device.fetch(middle + 1, back)
    bench.synchronize()
    return WORKS if bool((back == torch.arange(1, 1001)).all()) else "what comes back is not what was sent"


def _kernels(bench: Bench) -> str:
    """Whether an engine with our kernels passes its own check, in the words of its notes."""
    if not bench.device.captures:
        return "not on this device"
    engine = bench.engine(bench.models[0], FUSED)
    told = next(note for note in engine.info.notes if note.startswith("kernels: "))
    engine.close()
    return WORKS if told.startswith(f"kernels: {FUSED}") else told
