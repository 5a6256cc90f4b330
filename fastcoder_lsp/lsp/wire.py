"""Messages as bytes: `Content-Length` frames.

After malformed bytes, reading continues at the next good header; pygls' own reader accepts only one spelling of the
header, and reads on its pool of handlers.

A client's wait begins when its message arrives, not when its handler starts, so each task of the event loop has the
arrival time of its message.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, BinaryIO, Final

MAX_BODY: Final = 256 * 1024 * 1024
"""A longer message counts as a broken header: no editor sends one, and its length would be allocated."""
_MAX_HEADER_LINE: Final = 4096
_ARRIVED: Final[ContextVar[float | None]] = ContextVar("arrived", default=None)


class BrokenMessageError(Exception):
    """A body that is not JSON; its text says why, without the body."""


def read_bodies(stream: BinaryIO) -> Iterator[bytes]:
    """The bodies of all frames until the stream ends; lines that are not headers are skipped."""
    length: int | None = None
    while line := stream.readline(_MAX_HEADER_LINE):
        if line.strip():
            announced = _content_length(line)
            length = length if announced is None else announced
        elif length is not None:
            body = stream.read(length)
            if len(body) < length:
                return
            yield body
            length = None


def parse(body: bytes) -> Any:
    """The JSON value of a body; raises BrokenMessageError if it is not JSON."""
    try:
        return json.loads(body.decode("utf-8", "surrogatepass"), object_hook=_repair)
    except (ValueError, RecursionError) as error:
        raise BrokenMessageError(type(error).__name__) from error


class Writer:
    """Adds headers to pygls' messages, and writes them; `on_gone` is called when the client has closed the stream."""

    def __init__(self, stream: BinaryIO, on_gone: Callable[[], None]) -> None:
        self._stream = stream
        self._on_gone = on_gone

    def write(self, data: bytes) -> None:
        """Send one message."""
        try:
            self._stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            self._stream.flush()
        except (OSError, ValueError):
            self._on_gone()

    def close(self) -> None:
        """The stream belongs to its owner."""


def _content_length(line: bytes) -> int | None:
    name, colon, value = line.partition(b":")
    digits = value.strip()
    if not colon or name.strip().lower() != b"content-length" or not digits.isdigit() or len(digits) > 12:
        return None
    length = int(digits)
    return length if length <= MAX_BODY else None


def _repair(value: dict[str, Any]) -> dict[str, Any]:
    """Repair small mistakes of clients, because rejecting an edit would corrupt the copy of the text.

    A position outside the protocol's limits becomes the nearest one inside; an edit's null range becomes none.
    """
    if len(value) == 2 and "line" in value and "character" in value:
        for key in ("line", "character"):
            number = value[key]
            if isinstance(number, int | float) and not isinstance(number, bool) and not math.isnan(number):
                value[key] = int(min(max(number, 0), 2**31 - 1))
    elif "text" in value and "range" in value and value["range"] is None:
        del value["range"]
    return value


def now_ms() -> float:
    """The present on the clock of arrivals."""
    return time.monotonic() * 1e3


def set_arrival(arrived_ms: float) -> None:
    """Set the arrival time of the current message, and of the tasks that it starts."""
    _ARRIVED.set(arrived_ms)


def waited_ms() -> float:
    """Milliseconds since the message arrived; 0 if its arrival is unknown."""
    moment = _ARRIVED.get()
    return 0.0 if moment is None else max(0.0, now_ms() - moment)
