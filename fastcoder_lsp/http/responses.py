"""Responses in JSON, and errors."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response


def json_response(value: Any, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as a JSON body."""
    return Response(msgspec.json.encode(value), code, dict(headers or {}), "application/json")


OLLAMA = "/api/"  # the beginning of the paths of Ollama's API
_ERROR_TYPES = {
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
    """A request fails with an HTTP status and a message for the user."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def error_body(code: int, message: str) -> dict[str, Any]:
    """The JSON body of an error."""
    return {"error": {"code": code, "message": message, "type": _ERROR_TYPES.get(code, "server_error")}}


def error_response(code: int, message: str, path: str) -> Response:
    """The response to an error, in the form of the API that `path` belongs to; 503 says when to try again."""
    headers = {"retry-after": "1"} if code == 503 else {"www-authenticate": "Bearer"} if code == 401 else {}
    body = {"error": message} if path.startswith(OLLAMA) else error_body(code, message)
    return json_response(body, code, headers)
