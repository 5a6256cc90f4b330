"""What went wrong with a request, in the form that llama.cpp's and OpenAI's clients read."""

from typing import Any

from starlette.responses import Response

from fastcoder_lsp.http.encoding import json_response

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
