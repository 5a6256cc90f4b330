"""Checks before a request runs: host, origin and key, open requests, length and time of the body.

The connection limits the head (`server`). A web page in the user's browser can send requests to this machine, so
requests that name another host (DNS rebinding) or come from a page (`Origin`, `Sec-Fetch-Site`) are rejected.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastcoder_lsp.http.responses import RequestError, error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WEB_PAGE = 403, "requests from web pages are refused (Origin header)"
FOREIGN_HOST = 403, "the Host header does not name this server"
NO_KEY = 401, "a key is required: Authorization: Bearer KEY"
MAX_OPEN = 64  # requests at a time, including those that wait


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The requests that a server accepts, at most `max_open` at a time."""

    key: str = ""  # required from every request; "": none
    hosts: frozenset[str] = LOOPBACK  # names of this server that a request may use; empty: any, which requires a key
    max_open: int = MAX_OPEN


class Guard:
    """ASGI middleware that rejects other requests with an error in JSON."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        assert rules.key or rules.hosts, "a server for other machines needs a key"
        self._app, self._rules, self._open = app, rules, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 ASGI's
        if scope["type"] != "http":
            return
        refused = self._refused(scope["path"], Headers(scope=scope))
        if refused is not None:
            await error_response(*refused)(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1

    def _refused(self, path: str, headers: Headers) -> tuple[int, str] | None:
        rules = self._rules
        if rules.hosts and host_name(headers.get("host", "")) not in rules.hosts:
            return FOREIGN_HOST
        if is_from_web_page(headers):
            return WEB_PAGE
        if (
            rules.key
            and path != "/health"
            and not hmac.compare_digest(presented_key(headers).encode(), rules.key.encode())
        ):
            return NO_KEY
        if self._open >= rules.max_open:
            return 503, f"too many requests: {self._open} are open"
        return None


def host_name(host: str) -> str:
    """The name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_from_web_page(headers: Headers) -> bool:
    """Whether a page in a browser sends the request."""
    return headers.get("origin") is not None or headers.get("sec-fetch-site", "none") != "none"


def presented_key(headers: Headers) -> str:
    """The request's key, "" for none."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")


BODY_BYTES = 8_000_000
BODY_S = 10.0  # how long a body may take to arrive


async def read_body(request: Request) -> bytes:
    """The whole body; RequestError if it is too long or too slow, Starlette's ClientDisconnect."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > BODY_BYTES:
        raise _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES:
                    raise _too_long()
    except TimeoutError:
        raise RequestError(408, f"the request body did not arrive within {BODY_S:.0f} s") from None
    return bytes(body)


async def wait_for_disconnect(receive: Callable[[], Awaitable[Message]]) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_long() -> RequestError:
    return RequestError(413, f"the request body is longer than {BODY_BYTES} bytes")
