"""A client of HTTP for many people at once: a connection each, closed where nobody waits any more.

Owns the connection; knows nothing of what is asked. As a person's editor it has one request open at a time.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import h11

from fastcoder_lsp.errors import NetworkError

_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Reply:
    """A response.

    Attributes:
        code: HTTP's status; 0 where the connection broke before it.
        body: its JSON, or nothing.
        headers: by lower-case names.
        ms: milliseconds from the first byte sent to the last one read.
    """

    code: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    ms: float


class Client:
    """One person's connection.

    Args:
        url: of the server, as in "http://127.0.0.1:8020".
        headers: of every request.

    Raises:
        NetworkError: that is no address.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise NetworkError(f"{url} is no address", "Write: http://127.0.0.1:8020")
        self._host, self._port = parts.hostname, parts.port or 80
        self._headers = [("Host", parts.netloc), *headers.items()]
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._connection = h11.Connection(h11.CLIENT)

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Ask. Whoever cancels it hangs up, as editors do."""
        data, begun = json.dumps(body).encode(), time.perf_counter()
        named = [*self._headers, *headers.items(), ("Content-Length", str(len(data)))]
        try:
            reader, writer = await self._open()
            head = h11.Request(method="POST", target=path, headers=named)
            for event in (head, h11.Data(data=data), h11.EndOfMessage()):
                writer.write(self._connection.send(event) or b"")
            response, text = await self._read(reader)
        except (OSError, h11.RemoteProtocolError, asyncio.IncompleteReadError):
            self.close()
            return Reply(0, {}, {}, 1e3 * (time.perf_counter() - begun))
        except asyncio.CancelledError:
            self.close()
            raise
        ms = 1e3 * (time.perf_counter() - begun)
        answered = {name.decode(): value.decode() for name, value in response.headers}
        self._rest()
        is_json = answered.get("content-type", "").startswith("application/json")
        return Reply(response.status_code, json.loads(text) if is_json else {}, answered, ms)

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection(self._host, self._port)
            self._connection = h11.Connection(h11.CLIENT)
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> tuple[h11.Response, bytes]:
        response, text = None, bytearray()
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(await reader.read(_PIECE))
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                text += event.data
            elif isinstance(event, h11.EndOfMessage) and response is not None:
                return response, bytes(text)
            elif isinstance(event, h11.ConnectionClosed):
                raise asyncio.IncompleteReadError(bytes(text), None)

    def _rest(self) -> None:
        if self._connection.our_state is h11.DONE and self._connection.their_state is h11.DONE:
            self._connection.start_next_cycle()
        else:
            self.close()
