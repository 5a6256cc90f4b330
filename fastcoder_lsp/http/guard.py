"""Checks before a request runs: host, origin and key, open requests, length and time of the body.

The connection limits the head (`server`). A web page in the user's browser can send requests to this machine, so
requests that name another host (DNS rebinding) or come from a page of another origin (`Origin`, `Sec-Fetch-Site`) are
rejected, unless the user allows that origin.
"""

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastcoder_lsp.http.pages import HEALTH
from fastcoder_lsp.http.responses import RequestError, error_response

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WEB_PAGE = 403, "requests from web pages of other origins are refused (Origin header)"
FOREIGN_HOST = 403, "the Host header does not name this server"
NO_KEY = 401, "a key is required: Authorization: Bearer KEY"
WRONG_KEY = 401, "the key is wrong: this server does not know it"
MAX_OPEN = 64  # requests at a time, including those that wait


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The requests that a server accepts, at most `max_open` at a time."""

    key: str = ""  # required from every request; "": none
    hosts: frozenset[str] = LOOPBACK  # names of this server that a request may use; empty: any, which requires a key
    origins: frozenset[str] = frozenset()  # origins of web pages that may ask, beside the server's own
    max_open: int = MAX_OPEN


class Guard:
    """ASGI middleware that rejects other requests with an error in JSON."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        assert rules.key or rules.hosts, "a server for other machines needs a key"
        self._app, self._rules, self._open = app, rules, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 ASGI's
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()
        if origin in self._rules.origins:
            send = _sharing(send, origin, headers.get("access-control-request-headers", ""))
        response = self._refused(scope["path"], headers)
        if response is None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            response = Response(status_code=204)  # a page asks before its request, and without the key
        response = response or self._without_key(scope["path"], headers)
        if response is not None:
            await response(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1

    def _refused(self, path: str, headers: Headers) -> Response | None:
        rules = self._rules
        if rules.hosts and host_name(headers.get("host", "")) not in rules.hosts:
            return error_response(*FOREIGN_HOST, path)
        if is_foreign_page(headers, rules.origins, named=bool(rules.hosts)):
            code, message = WEB_PAGE
            return error_response(code, f"{message}; start the server with --allow-origin ORIGIN to allow one", path)
        return None

    def _without_key(self, path: str, headers: Headers) -> Response | None:
        rules = self._rules
        if rules.key and path not in HEALTH:
            presented = presented_key(headers)
            if not hmac.compare_digest(presented.encode(), rules.key.encode()):
                return error_response(*(WRONG_KEY if presented else NO_KEY), path)
        if self._open >= rules.max_open:
            return error_response(503, f"too many requests: {self._open} are open", path)
        return None


_ALLOWED = {
    b"access-control-allow-methods": b"GET, POST",
    b"access-control-allow-private-network": b"true",
    b"vary": b"origin",
}


def _sharing(send: Send, origin: str, asked: str) -> Send:
    """`send` with the headers by which a browser lets a page of `origin` read the answer.

    `asked`: the names of the headers that the page wants to send. OpenAI's package has a dozen of its own.
    """
    shared = [(b"access-control-allow-origin", origin.encode("latin-1")), *_ALLOWED.items()]
    if asked:
        shared.append((b"access-control-allow-headers", asked.encode("latin-1")))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *shared]}
        await send(message)

    return sending


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]{0,5})?", re.ASCII | re.IGNORECASE)


def host_name(host: str) -> str:
    """The name in a `Host` header, without brackets and port; "" if it is no such header."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


def is_foreign_page(headers: Headers, origins: Collection[str] = (), *, named: bool) -> bool:
    """Whether a page in a browser sends the request, and is of no allowed origin.

    Allowed are `origins` and the server's own: that of the Host header if the header is `named`, one of the server's
    names; any other name may be an attacker's.
    """
    origin, own = headers.get("origin"), f"http://{headers.get('host', '')}".lower()
    if origin is not None:
        return origin.lower() not in origins and not (named and origin.lower() == own)
    return headers.get("sec-fetch-site", "none") not in (("none", "same-origin") if named else ("none",))


def presented_key(headers: Headers) -> str:
    """The request's key, "" for none."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    return (value.strip() if kind.lower() == "bearer" else "") or headers.get("x-api-key", "")


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
