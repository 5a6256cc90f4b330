"""Snoozing: no suggestions by themselves for some minutes, with a countdown in the status."""

import asyncio
import math
from collections.abc import Callable

MOST_MINUTES = 24 * 60


class Snooze:
    """Counts the minutes down; `changed` is called at the start, after every minute, and at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._loop, self._changed = loop, changed
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def minutes(self) -> int:
        """The minutes that are left, a begun one included; 0: not snoozing."""
        return math.ceil(max(0.0, round(self._until_s - self._loop.time(), 3)) / 60)  # timers ring a little early

    def start(self, minutes: int) -> None:
        """Snooze for so many minutes from now; 0 ends it."""
        self.stop()
        self._until_s = self._loop.time() + 60 * min(max(minutes, 0), MOST_MINUTES)
        self._tell()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._changed()
        if (left := self.minutes) > 0:
            self._timer = self._loop.call_at(self._until_s - 60 * (left - 1), self._tell)
