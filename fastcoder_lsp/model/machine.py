"""The machine's resources for a model: available memory, the GPU's memory, and the speed of reading weights.

The available memory is the least of the machine's, its container's and this process's own limit: inside a container the
system reports the machine's free memory, which the container may not use.

The GPU's memory comes from the NVIDIA driver's own program. It is never waited for beyond its time, not even after it
was killed, for a program that hangs in the kernel cannot be killed.

The expected speed is estimated before a model is downloaded: the bytes of the weights that a step reads, over the rate
at which all threads together read memory. That is the cost of a step of one row (docs/benchmarks.md); a prompt, which
is computed once, is not in it. Of the embedding only the used rows count.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from fastcoder_lsp.config.processes import find_program
from fastcoder_lsp.errors import ResourceError

_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60


def available_bytes() -> int:
    """Bytes that can be taken now."""
    return max(0, min((psutil.virtual_memory().available, *_own_limit(), *_container())))


def require_memory(needed: int) -> None:
    """Check that a model of `needed` bytes fits.

    Raises:
        ResourceError: memory does not suffice.
    """
    available = available_bytes()
    if needed > available:
        raise ResourceError(
            f"the model needs {needed / 1e9:.1f} GB of memory; {available / 1e9:.1f} GB are free",
            "Close other programs, or use a smaller model or context.",
        )


def _own_limit() -> Iterator[int]:
    """Bytes left by the limit on this process's address space (`ulimit -v`)."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 not there on Windows

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        yield limit - psutil.Process().memory_info().vms


def _container(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Bytes left by each control group above this process, in both versions of cgroups."""
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _left(root, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _left(root / "memory", path, *names)


def _left(root: Path, path: str, limit: str, used: str, cached: str) -> Iterator[int]:
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(root) or folder == root:
            with suppress(OSError, ValueError):
                most = int((folder / limit).read_text())
                if most < _UNLIMITED:
                    rows = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
                    yield most - int((folder / used).read_text()) + int(rows.get(cached, 0))


TIMEOUT_S = 10.0
"""A driver that nothing keeps loaded takes some seconds to start."""
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """`memory_bytes` of the first GPU, 0 for none; `problem`: why the driver's program failed, if it is here."""

    memory_bytes: int = 0
    problem: str = ""


def gpu_memory_bytes() -> int:
    """Memory of the first NVIDIA GPU by its driver; 0 where there is none."""
    return ask_driver().memory_bytes


def ask_driver(timeout_s: float = TIMEOUT_S) -> DriverAnswer:
    """Ask nvidia-smi."""
    tool = find_program("nvidia-smi")
    if tool is None:
        return DriverAnswer()
    query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    try:
        said = _output(query, timeout_s)
    except OSError as error:
        return DriverAnswer(problem=f"{tool} cannot be run: {error.strerror}")
    if said is None:
        return DriverAnswer(problem=f"{tool} did not answer in {timeout_s:.0f} s")
    try:
        return DriverAnswer(int(said.split()[0]) << 20)
    except (ValueError, IndexError, OverflowError):
        line = said.decode(errors="replace").strip().partition("\n")[0][:100]
        return DriverAnswer(problem=f"{tool} reported no memory size: {line or 'no output'}")


def _output(command: list[str], timeout_s: float) -> bytes | None:
    """The beginning of a program's output; None where it does not end in time."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=os.name == "posix",
    )
    said: list[bytes] = []

    def read() -> None:
        assert process.stdout is not None
        with suppress(OSError, ValueError):
            said.append(process.stdout.read(_MOST_BYTES))

    reader = threading.Thread(target=read, name="nvidia-smi", daemon=True)
    reader.start()
    reader.join(timeout_s)
    ended = not reader.is_alive()
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)  # and whatever it started
        else:
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)
    if ended and process.stdout is not None:
        process.stdout.close()
    return said[0] if ended and said else None


WEIGHTS: Mapping[str, int] = {
    "Qwen2.5-Coder-0.5B": 494_000_000,
    "Qwen2.5-Coder-1.5B": 1_544_000_000,
    "Qwen2.5-Coder-3B": 3_086_000_000,
    "Qwen2.5-Coder-7B": 7_070_000_000,
}
"""Numbers that a step reads: all but the embedding, where the head is another matrix."""
ATTENTION = 0.1
"""Of the weights, attention's matrices, which stay in eight bits: 0.09 of the smallest model's, 0.12 of the largest."""
BYTES: Mapping[str, float] = {"eight bits": 1.0, "four bits": ATTENTION + (1 - ATTENTION) * 4.25 / 8}
ABOVE_LIMIT = 1.2
"""A step takes so much longer than its reading: 1.06 to 1.3 were measured."""
BESIDE_BYTES = 270_000_000
"""Of a server's memory, beside the weights: its two processes with the default model (docs/benchmarks.md)."""
_READ_BYTES, _TIMES, _MOST_THREADS = 1 << 26, 8, 8
_SHARE, _LEAST_BYTES = 4, 1 << 20
"""Only a part of the free memory is read: the system could end the download in a small container."""


def expected_ms(weights: int, bytes_a_second: float) -> dict[str, float]:
    """Milliseconds a token, by the precision of the weights."""
    return {name: weights * size / bytes_a_second * ABOVE_LIMIT * 1e3 for name, size in BYTES.items()}


def expected_bytes(weights: int) -> dict[str, float]:
    """Memory of a server, by the precision of the weights."""
    return {name: weights * size + BESIDE_BYTES for name, size in BYTES.items()}


def expectation(bytes_a_second: float, free_bytes: int) -> str:
    """A table of every size of the default family, with the memory that is free for a server."""
    lines = [f"Expected on this CPU, without drafting ({free_bytes / 1e9:.1f} GB of memory are free):"]
    lines.append(f"  {'model':20}  {'ms a token':>10}  {'memory':>7}  {'in four bits':>12}  {'memory':>7}")
    for name, weights in WEIGHTS.items():
        eight, four = expected_ms(weights, bytes_a_second).values()
        memory, less = (f"{size / 1e9:.1f} GB" for size in expected_bytes(weights).values())
        lines.append(f"  {name:20}  {eight:10.0f}  {memory:>7}  {four:12.0f}  {less:>7}")
    return "\n".join(lines)


def read_speed() -> float:
    """Bytes a second that all threads together read: the best of a few measurements in a fraction of a second."""
    threads = max(1, min(os.cpu_count() or 1, _MOST_THREADS))
    size = max(_LEAST_BYTES, min(_READ_BYTES, available_bytes() // _SHARE // threads))
    parts = [np.ones(size // 8, np.int64) for _ in range(threads)]
    best = 0.0
    with ThreadPoolExecutor(threads) as team:
        for _ in range(_TIMES):
            start = time.perf_counter()
            list(team.map(_read, parts))
            best = max(best, threads * size / max(time.perf_counter() - start, 1e-9))
    return best


def _read(numbers: npt.NDArray[np.int64]) -> int:
    return int(numbers.sum())
