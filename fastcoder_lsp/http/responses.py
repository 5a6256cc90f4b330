"""Responses: values as JSON and as events of a stream, and errors in the form of llama.cpp's and OpenAI's clients."""

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


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    501: "not_supported_error",
    503: "unavailable_error",
    504: "unavailable_error",
}


class RequestError(Exception):
    """A request that gets no answer.

    Args:
        code: HTTP's status.
        message: what is wrong, for a person.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def error_body(code: int, message: str) -> dict[str, Any]:
    """The body."""
    return {"error": {"code": code, "message": message, "type": _KINDS.get(code, "server_error")}}


def error_response(code: int, message: str) -> Response:
    """The whole response; a client that is told to wait is told for how long."""
    headers = {"retry-after": "1"} if code == 503 else {"www-authenticate": "Bearer"} if code == 401 else {}
    return json_response(error_body(code, message), code, headers)
