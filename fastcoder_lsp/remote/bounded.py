"""Connections that bound the bytes of a response as they arrive.

A bound on the decoded body would miss endless `100 Continue` responses, chunk extensions and trailers.
"""

import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore2
from typing_extensions import override

HEAD_BYTES: Final = 65_536
"""From the request to the end of the response's head."""
BODY_BYTES: Final = 8_000_000
"""From the end of the head on."""


class BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that fails where the server sends too much."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._remaining = HEAD_BYTES

    def head_received(self) -> None:
        """Count the body from now on."""
        self._remaining = BODY_BYTES

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read within the bound.

        Raises:
            httpcore2.RemoteProtocolError: the response is too long.
        """
        if self._remaining <= 0:
            raise httpcore2.RemoteProtocolError("the answer is too long")
        data = await self._stream.read(max_bytes, timeout)
        self._remaining -= len(data)
        return data

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._remaining = HEAD_BYTES  # a new request, or the rest of one
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
    """Opens bounded connections."""

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
