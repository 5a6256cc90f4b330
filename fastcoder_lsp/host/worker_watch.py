"""Whether the worker of a host comes to its next piece while somebody waits for it, and nothing is being loaded.

Owns the count of how long it has not. Time in which nobody looked counts for as much as one look at most: a laptop that
slept, or a process that was stopped, has not waited, and the worker slept as well.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Asked(Protocol):
    """What fronts ask for."""

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

    def stuck_s(self, asked: Asked) -> float:
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
