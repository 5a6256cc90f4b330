"""An HTTP client for one server: requests out, events in; closing the iterator disconnects.

It verifies certificates, follows no redirect, and ends answers that are too long or not JSON. The bytes of a response
are counted as they arrive: a bound on the decoded body would miss endless `100 Continue` responses, chunk extensions
and trailers. It keeps no cookies and nothing on disk, and ignores the environment.
"""

import json
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpcore2
import httpx2
from typing_extensions import override

from fastcoder_lsp import __version__
from fastcoder_lsp.core import Reason
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.remote import failures
from fastcoder_lsp.remote.target import Target

HEAD_BYTES: Final = 65_536  # from the request to the end of the response's head
BODY_BYTES: Final = 8_000_000  # from the end of the head on


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
        """Read within the bound; raises httpcore2.RemoteProtocolError if the response is too long."""
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
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
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


_MAX_BYTES: Final = 4_000_000  # of one answer
_MAX_EVENT_BYTES: Final = 1_000_000
_MAX_CHUNKS: Final = 20_000
_MAX_ERROR_BYTES: Final = 16_000  # of the body of an error response
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to connect, and until the next chunk of an answer; `first_s`: for the first, as a model may load."""

    connect_s: float = 3.0
    read_s: float = 15.0
    first_s: float = 120.0


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """How this machine reaches servers; `key` reads the key ("": none), and may raise UsageError."""

    key: Callable[[], str]
    proxy: str | None = None  # None: a direct connection
    tls: ssl.SSLContext | None = None  # trusted certificates; None: the system's


class RemoteClient:
    """Connections to one server, on one event loop; `answered`: it has answered, so its model is loaded."""

    def __init__(self, target: Target, network: NetworkOptions, timeouts: Timeouts) -> None:
        self.target, self._network, self._timeouts = target, network, timeouts
        self.answered = False
        transport = httpx2.AsyncHTTPTransport(
            verify=network.tls or True,
            proxy=network.proxy,
            trust_env=False,
            limits=httpx2.Limits(max_connections=8, max_keepalive_connections=4, keepalive_expiry=60),
        )
        pool = transport._pool  # noqa: SLF001 httpx2 has no other way to what httpcore2 takes as an argument
        pool._network_backend = BoundedBackend(pool._network_backend)  # noqa: SLF001
        self._client = httpx2.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={"user-agent": f"fastcoder-lsp/{__version__}", "accept-encoding": "identity"},
        )

    async def get(self, path: str) -> tuple[int, Any]:
        """The status and JSON (or None) of a page about the server; RemoteError for no response or a general error."""
        async with self._response("GET", path, None) as (response, body):
            code = response.status_code
            if code in {401, 403, 407, 429} or 300 <= code < 400 or code >= 500:
                raise self._error_of(response, await _read_start(body))
            return code, _parse(await _read_all(body))

    async def events(self, path: str, question: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of an answer, only one if it does not stream; RemoteError if none came, or it broke off."""
        async with self._response("POST", path, question) as (response, body):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code != 200:
                raise self._error_of(response, await _read_start(body))
            if kind == _JSON:
                value = _parse(await _read_all(body))
                if not isinstance(value, dict):
                    raise failures.not_a_server(self.target.host, "the answer is not JSON")
                self.answered = True
                yield value
                return
            if kind != _EVENTS:
                raise failures.not_a_server(self.target.host, f"the answer is {kind[:40] or 'of no content type'}")
            async for event in _events(body):
                value = _parse(event)
                if not isinstance(value, dict):
                    raise failures.not_a_server(self.target.host, "an event is not JSON")
                self.answered = True
                yield value

    async def ask(self, path: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """The first event of an answer, which is all of an unstreamed one; empty for none. Raises as `events`."""
        async with aclosing(self.events(path, question)) as events:
            async for event in events:
                return event
        return {}

    async def close(self) -> None:
        """Disconnect."""
        await self._client.aclose()

    @asynccontextmanager
    async def _response(
        self, method: str, path: str, question: Mapping[str, Any] | None
    ) -> AsyncIterator[tuple[httpx2.Response, AsyncIterator[bytes]]]:
        """A response and its body; exceptions of the transport become failures of the server."""
        key, begun = self._key(), False
        headers = {"authorization": f"Bearer {key}"} if key else {}
        read_s = self._timeouts.read_s
        if question is not None:
            headers["accept"] = f"{_EVENTS}, {_JSON}"
            read_s = read_s if self.answered else self._timeouts.first_s
        timeout = httpx2.Timeout(read_s, connect=self._timeouts.connect_s)
        url = self.target.base + path
        try:
            async with self._client.stream(method, url, json=question, headers=headers, timeout=timeout) as response:
                begun = True
                stream = response.extensions["network_stream"]
                if isinstance(stream, BoundedStream):
                    stream.head_received()
                yield response, _chunks(response.aiter_raw())
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise failures.from_exception(self.target.host, error, begun=begun) from error

    def _key(self) -> str:
        try:
            return self._network.key()
        except FastcoderError as error:
            raise failures.RemoteError(Reason("remote-key", f"{error.message}.", error.hint)) from None

    def _error_of(self, response: httpx2.Response, head: bytes) -> failures.RemoteError:
        return failures.from_status(self.target.host, response.status_code, response.headers, head, time.time())


async def _chunks(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks of a body, at most `_MAX_CHUNKS`: each costs time, even a single byte."""
    count = 0
    async for chunk in body:
        yield chunk
        if (count := count + 1) >= _MAX_CHUNKS:
            return


async def _events(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of server-sent events, up to OpenAI's `[DONE]`."""
    rest, all_of_it = bytearray(), 0
    async for chunk in body:
        all_of_it += len(chunk)
        rest += chunk
        if len(rest) > _MAX_EVENT_BYTES or all_of_it > _MAX_BYTES:
            return
        if b"\n" not in chunk:
            continue  # parse an event once, even if it arrives byte by byte
        *lines, rest = rest.split(b"\n")
        for line in lines:
            name, _, data = bytes(line).rstrip(b"\r").partition(b":")
            if name == b"error":  # llama.cpp's error event
                data = b'{"error":' + data + b"}"
            elif name != b"data":
                continue
            if data.strip() == b"[DONE]":
                return
            if data.strip():
                yield data


async def _read_start(body: AsyncIterator[bytes]) -> bytes:
    head = b""
    async for chunk in body:
        head += chunk
        if len(head) >= _MAX_ERROR_BYTES:
            break
    return head[:_MAX_ERROR_BYTES]


async def _read_all(body: AsyncIterator[bytes]) -> bytes:
    whole = bytearray()
    async for chunk in body:
        whole += chunk
        if len(whole) > _MAX_BYTES:
            return b""
    return bytes(whole)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
