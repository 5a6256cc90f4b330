"""What a client sends with a request, and that it hangs up: for every server of ours that speaks HTTP.

Owns the limits of a body. A head's are the connection's (`connection`).
"""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.types import Message

from fastcoder_lsp.http.errors import RequestError

BODY_BYTES = 8_000_000
BODY_S = 10.0
"""How long a body may take to arrive."""


async def read_body(request: Request) -> bytes:
    """The whole body.

    Raises:
        RequestError: it is too long, which its head may say already, or does not arrive in time.
        ClientDisconnect: the client has hung up (Starlette's).
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > BODY_BYTES:
        raise _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > BODY_BYTES:
                    raise _too_long()
    except TimeoutError:
        raise RequestError(408, f"the request body did not arrive within {BODY_S:.0f} s") from None
    return bytes(body)


async def hung_up(receive: Callable[[], Awaitable[Message]]) -> None:
    """Wait until the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_long() -> RequestError:
    return RequestError(413, f"the request body is longer than {BODY_BYTES} bytes")
