"""Connections to a server that say no more than an answer holds, however it is wrapped.

Owns the bound on bytes as they come over the wire: what precedes a response, such as `100 Continue` without end, and
what HTTP puts around its body (extensions of chunks, trailers) never reach who counts the body.
"""

import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore2
from typing_extensions import override

HEAD_BYTES: Final = 65_536
"""From a question to the end of its response's head."""
BODY_BYTES: Final = 8_000_000
"""Of a response from its head on."""


class BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that breaks where the other side says too much."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._remaining = HEAD_BYTES

    def head_received(self) -> None:
        """The head of the response is there."""
        self._remaining = BODY_BYTES

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read within the bound.

        Raises:
            httpcore2.RemoteProtocolError: that was too much.
        """
        if self._remaining <= 0:
            raise httpcore2.RemoteProtocolError("the answer is too long")
        data = await self._stream.read(max_bytes, timeout)
        self._remaining -= len(data)
        return data

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._remaining = HEAD_BYTES  # a request begins, or goes on
        await self._stream.write(buffer, timeout)

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()

    @override
    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class BoundedBackend(httpcore2.AsyncNetworkBackend):
    """Opens them."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return BoundedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    @override
    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
