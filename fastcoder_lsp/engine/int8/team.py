"""Threads that run one compiled function together; `sync` shares the work."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from fastcoder_lsp.kernels.processor import is_arm, sysctl

MOST = 8
"""More threads would only wait for memory."""
CAPACITIES = Path("/sys/devices/system/cpu")
"""Linux reports the capacity of each core of an ARM CPU here (Documentation/ABI/testing/sysfs-devices-system-cpu)."""


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
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = fast_cores() or psutil.cpu_count(logical=False) or usable
    return max(1, min(usable, cores, MOST))


def fast_cores(capacities: Path = CAPACITIES) -> int | None:
    """Performance cores of an ARM CPU with two kinds of cores; None if it has one kind, or the system does not say."""
    if not is_arm():
        return None
    if sys.platform == "darwin":
        levels, first = sysctl(b"hw.nperflevels"), sysctl(b"hw.perflevel0.physicalcpu")
        return first if levels > 1 and first > 0 else None
    return fast_by_capacity(_capacities(capacities))


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
