"""Values as JSON, and as events of a stream."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response


def json_response(value: Any, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as the body of a response."""
    return Response(msgspec.json.encode(value), code, dict(headers or {}), "application/json")


def event_response(values: Iterable[Any], *, done: bool) -> Response:
    """Values as server-sent events; `done`: OpenAI's last word after them."""
    events = [b"data: " + msgspec.json.encode(value) + b"\n\n" for value in values]
    if done:
        events.append(b"data: [DONE]\n\n")
    return Response(b"".join(events), 200, {"cache-control": "no-cache"}, "text/event-stream")
