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
    """What is handled from here on, and by the tasks that are made, came in at that moment."""
    _ARRIVED.set(moment_ms)


def waited_ms() -> float:
    """For how long the message has waited; 0 where nobody said when it came in."""
    moment = _ARRIVED.get()
    return 0.0 if moment is None else max(0.0, now_ms() - moment)
