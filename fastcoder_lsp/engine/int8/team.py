"""Threads that run one compiled function together. Owns their lives; the sharing of work is `sync`'s."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

MOST = 8
"""Memory, not arithmetic, is what more threads would wait for."""


class Team:
    """The calling thread and `threads` − 1 others."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._others = ThreadPoolExecutor(threads - 1, "engine") if threads > 1 else None

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call `function(*arguments, thread, threads)` on every thread; back when all are done."""
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
    """One for each physical core that this process may use, at most `MOST`."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or usable
    return max(1, min(usable, cores, MOST))
