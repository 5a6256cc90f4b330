"""When the message that is being handled came in: a client's wait begins there, not where its handler begins.

Owns the moment, one for each task of the event loop: who handles a message later still knows its own.
"""

import time
from contextvars import ContextVar
from typing import Final

_ARRIVED: Final[ContextVar[float | None]] = ContextVar("arrived", default=None)


def now_ms() -> float:
    """The present by the clock of arrivals."""
    return time.monotonic() * 1e3


def arrived(moment_ms: float) -> None:
    """Set the arrival time of the message that is handled now, and of the tasks that it starts."""
    _ARRIVED.set(moment_ms)


def waited_ms() -> float:
    """Milliseconds since the message arrived; 0 if its arrival is unknown."""
    moment = _ARRIVED.get()
    return 0.0 if moment is None else max(0.0, now_ms() - moment)
