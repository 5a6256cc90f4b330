"""Threads that run one compiled function together, and share the jobs of its phases.

Each phase has two atomic counters: one hands out its jobs, the other counts those done. A phase ends when its jobs are
done, not when its threads arrive, so a thread that the system suspends delays the others only if it holds a job.
Results do not depend on the thread that does a job.
"""

import sys
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba.core.types as nt
import psutil
from llvmlite import ir

from fastcoder_lsp.config.environment import usable_cores, usable_cpus
from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.engine.int8.simd import I32, I64, call_named, intrinsic, pointer
from fastcoder_lsp.kernels import inlined
from fastcoder_lsp.kernels.processor import is_arm, sysctl

MOST = 8  # more threads would only wait for memory
CAPACITIES = Path("/sys/devices/system/cpu")
"""Linux reports capacity and topology of each core here (Documentation/ABI/testing/sysfs-devices-system-cpu)."""
PERFORMANCE = Path("/sys/devices/cpu_core/cpus")
"""Linux lists the virtual cores of an Intel CPU's performance cores here, if it has two kinds."""


class Team:
    """The calling thread and `threads` − 1 others."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._others = ThreadPoolExecutor(threads - 1, "engine") if threads > 1 else None

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call `function(*arguments, thread, threads)` on every thread; returns when all are done."""
        if self._others is None:
            function(*arguments, 0, 1)
            return
        running = [self._others.submit(function, *arguments, i, self.threads) for i in range(1, self.threads)]
        function(*arguments, 0, self.threads)
        for future in running:
            future.result()

    def close(self) -> None:
        """End the threads."""
        if self._others is not None:
            self._others.shutdown()


def default_threads() -> int:
    """One for each physical core that this process may use, at most `MOST`; on CPUs with two kinds, only fast cores.

    All threads wait for a slow core that holds a job. Threads are not pinned: the system places them.
    """
    usable = usable_cores()
    cores = fast_cores() or psutil.cpu_count(logical=False) or usable
    return max(1, min(usable, cores, MOST))


def fast_cores(capacities: Path = CAPACITIES, performance: Path = PERFORMANCE) -> int | None:
    """Performance cores of a CPU with two kinds of cores; None if it has one kind, or the system does not say."""
    if sys.platform == "darwin":
        levels, first = (sysctl(b"hw.nperflevels"), sysctl(b"hw.perflevel0.physicalcpu")) if is_arm() else (0, 0)
        return first if levels > 1 and first > 0 else None
    with suppress(OSError, ValueError):
        listed = performance.read_text(encoding="ascii")
        return fast_by_list(listed, usable_cpus(), lambda cpu: _siblings(capacities, cpu))
    return fast_by_capacity(_capacities(capacities))


def fast_by_list(listed: str, usable: Container[int], siblings: Callable[[int], str]) -> int | None:
    """The physical cores of a kernel's list of virtual ones, such as "0-3,8", that are `usable`; None without any.

    `siblings` names a virtual core's physical one. Raises ValueError for a list of another form.
    """
    ranges = [part.partition("-") for part in listed.strip().split(",") if part]
    cpus = [cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1) if cpu in usable]
    return len({siblings(cpu) for cpu in cpus}) or None


def fast_by_capacity(capacities: list[int]) -> int | None:
    """The cores above half the largest of these capacities, on the kernel's scale."""
    fast = sum(2 * capacity > max(capacities) for capacity in capacities)
    return fast if fast < len(capacities) else None


def _capacities(folder: Path) -> list[int]:
    found = []
    for path in folder.glob("cpu[0-9]*/cpu_capacity"):
        with suppress(OSError, ValueError):
            found.append(int(path.read_text(encoding="ascii")))
    return found


def _siblings(folder: Path, cpu: int) -> str:
    with suppress(OSError):
        return (folder / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text(encoding="ascii").strip()
    return str(cpu)


Counters = Int64s
STRIDE = 16  # int64 places between two counters: two cache lines, so that prefetching them in pairs does no harm
SPINS = 4096  # polls of a counter before the thread yields its core

_give_way = nt.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", nt.int32())


@intrinsic
def fetch_add(_typing: Any, _address: Any, _step: Any) -> Any:
    """Atomically add to the int64 at an address; returns the old value."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return builder.atomic_rmw("add", pointer(builder, arguments[0], I64), arguments[1], "seq_cst")

    return nt.int64(nt.intp, nt.int64), generate


@intrinsic
def load_shared(_typing: Any, _address: Any) -> Any:
    """The int64 at an address, with acquire semantics."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return builder.load_atomic(pointer(builder, arguments[0], I64), "acquire", 8)

    return nt.int64(nt.intp), generate


@intrinsic
def rest(_typing: Any) -> Any:
    """Pause an ARM core by an instruction barrier for tens of cycles; `yield` does nothing on most of them."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> ir.Value:
        if is_arm(builder.module.triple.partition("-")[0]):
            call_named(builder, "llvm.aarch64.isb", ir.VoidType(), ir.Constant(I32, 15))
        return context.get_dummy_value()

    return nt.void(), generate


@inlined
def take_job(counters: Counters, phase: int) -> int:
    """The next job of a phase; counts on beyond the last one."""
    job: int = fetch_add(counters.ctypes.data + phase * 2 * STRIDE * 8, 1)
    return job


@inlined
def finish_job(counters: Counters, phase: int) -> None:
    """Record that a job of a phase is done."""
    fetch_add(counters.ctypes.data + (phase * 2 + 1) * STRIDE * 8, 1)


@inlined
def await_jobs(counters: Counters, phase: int, count: int) -> None:
    """Wait until all `count` jobs of a phase are done."""
    address = counters.ctypes.data + (phase * 2 + 1) * STRIDE * 8
    spins = 0
    while load_shared(address) < count:
        rest()
        spins += 1
        if spins > SPINS:
            _give_way()
