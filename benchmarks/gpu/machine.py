"""The machine of a run: its device, how time is told on it, what it is called, and how much time is left.

Owns all of this for the parts of the benchmark, so that they read the same on a GPU and in a smoke run on the CPU.
"""

import gc
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.shapes import Named, random_weights
from fastcoder_lsp.bench.versions import versions
from fastcoder_lsp.engine.static.build import Recipe, build
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.engine import StaticEngine

PACKAGES = ("torch", "triton", "transformers", "numpy", "numba", "torchao", "tokenizers", "safetensors")
CONTEXT = 4096


@dataclass(slots=True)
class Bench:
    """What all parts share. `repeats`: runs of a timed piece; `smoke`: small, on the CPU; `cache`: of the real model.

    `lengths`: tokens cached where steps are timed; `decoded`: of the prompt that whole decodes follow.
    """

    device: Device
    dtype: torch.dtype
    models: list[Named]
    widths: tuple[int, ...]
    lengths: tuple[int, ...]
    deadline: float
    cache: Path
    smoke: bool
    repeats: int = 20
    decoded: int = 600
    context: int = CONTEXT
    skipped: list[str] = field(default_factory=list)

    def left(self) -> float:
        """Seconds until the run must end."""
        return self.deadline - time.monotonic()

    def skip(self, what: str, why: str) -> None:
        """Something was left out: told at once, and in the report."""
        self.skipped.append(f"{what}: {why}")
        say(f"skipped {what}: {why}")

    def engine(
        self, model: Named, kernels: str = "torch", precision: str = "plain", *, strict: bool = False
    ) -> StaticEngine:
        """The graph engine with random weights; its programs are captured when they are first run."""
        recipe = Recipe(
            name=f"{self.device.name} {precision}",
            model=model.name,
            source="random weights",
            shape=model.shape,
            open_source=lambda: random_weights(model, self.device.place, self.dtype),
            context=self.context,
            dtype=self.dtype,
            progress=lambda _share, _what: None,
            precision=precision,
            kernels=kernels,
            strict=strict,
            warm_up=False,
        )
        return build(recipe, self.device)

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        self.device.mark()
        self.device.wait()

    def ms(self, work: Callable[[], object], repeats: int | None = None) -> float:
        """Milliseconds of one run of `work` among many back to back, the median of three rows, after a first run."""
        count = repeats or self.repeats
        work()
        rows = []
        for _ in range(3):
            self.synchronize()
            started = time.perf_counter()
            for _ in range(count):
                work()
            self.synchronize()
            rows.append((time.perf_counter() - started) * 1e3 / count)
        return sorted(rows)[1]

    def tidy(self) -> None:
        """Give back what the last model held."""
        gc.collect()
        try:
            self.device.release()
        except RuntimeError as why:
            self.skip("giving memory back", str(why)[:200])


def facts(device: Device) -> dict[str, Any]:
    """Date, machine and versions, for the report."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device.name,
        "memory_bytes": device.memory().total,
        "system": platform.platform(),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "versions": versions(PACKAGES),
    }
    return found


def say(text: str) -> None:
    """A line of progress, with the time, at once."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)  # noqa: T201 a script's own words
