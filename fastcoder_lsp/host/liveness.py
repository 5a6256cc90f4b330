"""Liveness checks: a client watches its host, and the host watches its worker.

Both count only time in which this process itself was running, not time in which it was stopped, or the machine slept.
Without a waiting request, watching costs nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """How long a host may be silent, in checks every `tick_s` seconds.

    After `asked` silent checks the host gets a ping, and is resumed if it was stopped; after `silent` ones waiting
    requests are answered without it; after `hung` ones it is replaced. `loading` multiplies these while a model is
    loaded, when the GIL may be held for seconds.
    """

    tick_s: float = 1.0
    asked: int = 2
    silent: int = 10
    hung: int = 30
    loading: int = 4


class Heartbeat:
    """Watches one connection."""

    def __init__(
        self,
        awaited: Callable[[], bool],
        loading: Callable[[], bool],
        ask: Callable[[], object],
        resume: Callable[[], object],
        silent: Callable[[], object],
        hung: Callable[[], object],
        patience: SilenceLimits,
    ) -> None:
        self._awaited, self._loading = awaited, loading
        self._ask, self._resume = ask, resume
        self._silent, self._hung, self._patience = silent, hung, patience
        self._news = threading.Condition()
        self._closed = False
        self._quiet = 0
        self._thread = threading.Thread(target=self._run, name="fastcoder-heartbeat", daemon=True)
        self._thread.start()

    def awaiting(self) -> None:
        """Start to watch, because a request waits for the host."""
        with self._news:
            self._news.notify()

    def heard(self) -> None:
        """Record a message of the host."""
        self._quiet = 0

    def close(self) -> None:
        """Stop watching."""
        with self._news:
            self._closed = True
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._awaited())
                self._news.wait_for(lambda: self._closed, self._patience.tick_s)
                if self._closed:
                    return
            self._look()

    def _look(self) -> None:
        if not self._awaited():
            self._quiet = 0
            return
        self._quiet += 1
        patience = self._patience
        times = patience.loading if self._loading() else 1
        if self._quiet == patience.asked:
            self._ask()
        if self._quiet >= patience.asked:
            self._resume()
        if self._quiet == patience.silent * times:
            logger.warning("the host has said nothing for %d looks", self._quiet)
            self._silent()
        if self._quiet == patience.hung * times:
            logger.error("the host is taken for hung")
            self._hung()


class WorkerWatch:
    """Checks a worker periodically.

    `probe` lets the worker call a function between two pieces of work, and returns at once. `clock` returns seconds; on
    some systems it goes on while the machine sleeps.
    """

    def __init__(
        self, probe: Callable[[Callable[[], None]], None], look_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe, self._look_s, self._clock = probe, look_s, clock
        self._looked_s = clock()
        self._waited_s: float | None = None
        self._question = 0

    def stuck_s(self, *, asking: bool, loading: bool) -> float:
        """Check the worker; returns for how long it has not reached its next piece, as far as that is known.

        `asking`: a client waits. `loading`: a model is being loaded, which may take any time.
        """
        now = self._clock()
        passed_s, self._looked_s = min(now - self._looked_s, 2 * self._look_s), now
        if loading:
            self._waited_s = None
        elif self._waited_s is not None:
            self._waited_s += passed_s
        elif asking:
            self._waited_s, self._question = 0.0, self._question + 1
            question = self._question
            self._probe(lambda: self._came(question))
        return self._waited_s or 0.0

    def _came(self, question: int) -> None:
        if question == self._question:
            self._waited_s = None


def resume(process_id: int) -> bool:
    """Resume a stopped process; returns whether it was stopped."""
    try:
        process = psutil.Process(process_id)
        if process.status() != psutil.STATUS_STOPPED:
            return False
        process.resume()
    except (psutil.Error, ValueError):  # ended, or in another container
        return False
    logger.warning("process %d was stopped, and goes on", process_id)
    return True
