"""Connections to a server that say no more than an answer holds, however it is wrapped.

Owns the bound on bytes as they come over the wire: what precedes a response, such as `100 Continue` without end, and
what HTTP puts around its body (extensions of chunks, trailers) never reach who counts the body.
"""

import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore2

HEAD_BYTES: Final = 65_536
"""From a question to the end of its response's head."""
BODY_BYTES: Final = 8_000_000
"""Of a response from its head on."""


class BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that breaks where the other side says too much."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._room = HEAD_BYTES

    def begun(self) -> None:
        """The head of the response is there."""
        self._room = BODY_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 the interface
        """See the interface.

        Raises:
            httpcore2.RemoteProtocolError: that was too much.
        """
        if self._room <= 0:
            raise httpcore2.RemoteProtocolError("the answer is too long")
        data = await self._stream.read(max_bytes, timeout)
        self._room -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """See the interface: a question begins, or goes on."""
        self._room = HEAD_BYTES
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """See the interface."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        """See the interface."""
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """See the interface."""
        return self._stream.get_extra_info(info)


class BoundedBackend(httpcore2.AsyncNetworkBackend):
    """Opens them."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """See the interface."""
        return BoundedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        """See the interface."""
        await self._backend.sleep(seconds)
