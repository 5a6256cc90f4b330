"""Whether the host still answers while somebody waits for it; costs nothing while nobody does.

Owns the counting. Only moments at which this process itself was running count: who was stopped with it, or slept with
the machine, has not been silent.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
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
        patience: Patience,
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
        """Somebody waits for the host from now on."""
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
