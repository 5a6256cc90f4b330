"""Messages as bytes: `Content-Length` frames.

After malformed bytes, reading continues at the next good header, even one that follows the bytes of an unread body on
the same line. pygls' own reader accepts only one spelling of the header, and reads on its pool of handlers.

A client's wait begins when its message arrives, not when its handler starts, so each task of the event loop has the
arrival time of its message.
"""

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

logger = logging.getLogger(__name__)

MAX_BODY: Final = 256_000_000
"""A longer message is skipped: no editor sends one, and its length would be allocated."""
MAX_SKIPPED: Final = 8_000_000_000
"""A longer one counts as a broken header: no client can hold it, so its bytes never come."""
_MAX_HEADER_LINE: Final = 4096
_LENGTH: Final = re.compile(rb"(?:\A|[}\]])[ \t]*content-length[ \t]*:[ \t]*(\d{1,20})\s*\Z", re.IGNORECASE)
_LONGEST_HEADER: Final = 64
_EDGE: Final = 4096  # bytes of each end of a long message in which its id is looked for
_CHUNK: Final = 1 << 20
_MEMBER: Final = rb'"%s"\s*:\s*(-?\d{1,15}(?![\d.eE])|"(?:[^"\\]|\\.){0,256}")'
_ID, _METHOD = (re.compile(_MEMBER % name) for name in (b"id", b"method"))
_CHANGE: Final = re.compile(
    rb'"method"\s*:\s*"(?:textDocument|notebookDocument)(?:/|\\/|\\u002f)did(?:Open|Change)"', re.IGNORECASE
)
_URI: Final = re.compile(rb'"uri"\s*:\s*("(?:[^"\\]|\\.){1,4096}")')
_ARRIVED: Final[ContextVar[float | None]] = ContextVar("arrived", default=None)


class BrokenMessageError(Exception):
    """A body that is not JSON; its text says why, without the body."""


@dataclass(frozen=True, slots=True)
class LongMessage:
    """A message that was too long to be read.

    Attributes:
        length: its bytes.
        request_id: None if it is no request, or its id is out of sight.
        changed: as of `changed_document`.
    """

    length: int
    request_id: int | str | None
    changed: str | None = None


def read_bodies(stream: BinaryIO) -> Iterator[bytes | LongMessage]:
    """The bodies of all frames until the stream ends; bytes that are no headers are skipped, and the log says so."""
    length: int | None = None
    skipping, garbage, before = False, False, b""
    while line := stream.readline(_MAX_HEADER_LINE):
        if line.strip():
            announced = _content_length(before + line)
            length = length if announced is None else announced
            garbage = True
            before = b"" if line.endswith(b"\n") else line[-_LONGEST_HEADER:]
            continue
        before = b""
        if length is None or length > MAX_SKIPPED:
            if garbage and not skipping:
                logger.error("a message without a usable Content-Length is skipped, up to the next header")
            skipping, length = garbage, None
            continue
        body = stream.read(length) if length <= MAX_BODY else _skipped(stream, length)
        if isinstance(body, bytes) and len(body) < length:
            return
        yield body
        skipping, garbage, length = False, False, None


def _skipped(stream: BinaryIO, length: int) -> LongMessage:
    first = stream.read(_EDGE)
    left, last = length - len(first), b""
    while left and (chunk := stream.read(min(left, _CHUNK))):
        left -= len(chunk)
        last = (last + chunk)[-_EDGE:]
    return LongMessage(length, _request_id(first, last), changed_document(first + b"\n" + last))


def _request_id(first: bytes, last: bytes) -> int | str | None:
    """The id of a request, as its outermost object shows it before its first value in brackets, or after its last."""
    head = re.split(rb"[{\[]", first.partition(b"{")[2])[0]
    tail = re.split(rb"[}\]]", last.rpartition(b"}")[0])[-1]
    found = _ID.search(head) or _ID.search(tail)
    if found is None or not (_METHOD.search(head) or _METHOD.search(tail)):
        return None
    try:
        request_id = json.loads(found[1])
    except ValueError:
        return None
    return request_id if isinstance(request_id, int | str) else None


def changed_document(lost: bytes) -> str | None:
    """The URI of the document that a lost message opened or changed; "" if it may be any, None if it is none."""
    if _CHANGE.search(lost) is None:
        return None
    found = {one[1] for one in _URI.finditer(lost)}
    try:
        return str(json.loads(found.pop())) if len(found) == 1 else ""
    except ValueError:
        return ""


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
    found = _LENGTH.search(line)
    return None if found is None else int(found[1])


def _repair(value: dict[str, Any]) -> dict[str, Any]:
    """Repair small mistakes of clients, because rejecting an edit would corrupt the copy of the text.

    A position outside the protocol's limits becomes the nearest one inside; an edit's null range becomes none, and its
    length, which is deprecated and may be wrong, is dropped.
    """
    if len(value) == 2 and "line" in value and "character" in value:
        for key in ("line", "character"):
            number = value[key]
            if isinstance(number, int | float) and not isinstance(number, bool) and not math.isnan(number):
                value[key] = int(min(max(number, 0), 2**31 - 1))
    elif "text" in value and "range" in value:
        value.pop("rangeLength", None)
        if value["range"] is None:
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
