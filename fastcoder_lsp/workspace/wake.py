"""Whether the machine slept, or this process was stopped, while somebody waited for a moment.

Owns the two clocks by which that is known: one of them stands still in a machine that sleeps on Linux and macOS, and
goes on on Windows; the wall's goes on everywhere, and may be set.
"""

import time
from collections.abc import Callable
from typing import Final

LONG_S: Final = 60.0
"""What is waited for takes a second: so much more than that is no busy machine."""


class Wake:
    """Looked at before and after each wait.

    Args:
        wall: the wall's clock, in seconds.
        steady: one that nobody sets.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self.begin()

    def begin(self) -> None:
        """A wait begins."""
        self._began = self._wall(), self._steady()

    def slept(self) -> bool:
        """It is over; whether by one of both clocks it took far longer than a wait. A clock set back tells nothing."""
        wall_s, steady_s = self._began
        return max(self._wall() - wall_s, self._steady() - steady_s) > LONG_S
