"""Whether the other side still works: a client watches its host, the host watches its worker.

Both count only moments at which this process itself was running: who was stopped with the other one, or slept with the
machine, has not waited. Watching costs nothing while nobody waits.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import psutil

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """How long a silence is borne, in seconds of which `tick_s` is one look.

    Attributes:
        tick_s: between two looks.
        asked: looks without a word, after which it is asked whether it is there, and goes on where it was stopped.
        silent: the same, after which whoever waits for an answer is told.
        hung: the same, after which it is replaced.
        loading: so many times longer while a model is loaded, when Python may be held for seconds.
    """

    tick_s: float = 1.0
    asked: int = 2
    silent: int = 10
    hung: int = 30
    loading: int = 4


class Heartbeat:
    """Looks after one connection.

    Args:
        awaited: whether somebody waits for the host now.
        loading: whether it loads a model.
        ask: asks whether it is there.
        resume: has it go on, where it was stopped.
        silent: told that it has said nothing for long.
        hung: told that it is to be replaced.
        patience: how long that is.
    """

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
        """A request waits for the host from now on."""
        with self._news:
            self._news.notify()

    def heard(self) -> None:
        """The host has said something."""
        self._quiet = 0

    def close(self) -> None:
        """The connection has ended."""
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
        """One more moment without a word."""
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


class ModelActivity(Protocol):
    """The requests of all fronts."""

    def asking(self) -> bool:
        """Whether a front waits."""
        ...

    def loading(self) -> bool:
        """Whether a model is being loaded, which takes what it takes."""
        ...


class WorkerWatch:
    """Looks at a worker now and then.

    Args:
        probe: has the worker call what it is given between two pieces of work; returns at once.
        look_s: seconds between two looks.
        clock: seconds; some systems' goes on while the machine sleeps.
    """

    def __init__(
        self, probe: Callable[[Callable[[], object]], None], look_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe, self._look_s, self._clock = probe, look_s, clock
        self._looked_s = clock()
        self._waited_s: float | None = None
        self._question = 0

    def stuck_s(self, asked: ModelActivity) -> float:
        """A look: for how long it has not come to its next piece, as far as that is known."""
        now = self._clock()
        passed_s, self._looked_s = min(now - self._looked_s, 2 * self._look_s), now
        if asked.loading():
            self._waited_s = None
        elif self._waited_s is not None:
            self._waited_s += passed_s
        elif asked.asking():
            self._waited_s, self._question = 0.0, self._question + 1
            question = self._question
            self._probe(lambda: self._came(question))
        return self._waited_s or 0.0

    def _came(self, question: int) -> None:
        if question == self._question:
            self._waited_s = None


def resume(process_id: int) -> bool:
    """Have a stopped process go on; whether it was stopped."""
    try:
        process = psutil.Process(process_id)
        if process.status() != psutil.STATUS_STOPPED:
            return False
        process.resume()
    except (psutil.Error, ValueError):  # it has ended, or is in another container
        return False
    logger.warning("process %d was stopped, and goes on", process_id)
    return True
