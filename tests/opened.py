"""Fixtures that open things, as many as a test wants, and close them at its end; servers; waiting for a condition."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import uvicorn

Opened = TypeVar("Opened")
WAIT_S = 240.0


def opening(make: Callable[..., Opened], close: Callable[[Opened], object]) -> Iterator[Callable[..., Opened]]:
    """What a fixture yields: `make`, with `close` called at the end for all that it has made, the latest first."""
    with ExitStack() as ends:

        def new(*arguments: Any, **named: Any) -> Opened:
            made = make(*arguments, **named)
            ends.callback(close, made)
            return made

        yield new


def until(holds: Callable[[], object], most_s: float = WAIT_S, pause_s: float = 0.002) -> None:
    """Wait for a condition; the time says that it never comes."""
    end = time.monotonic() + most_s
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(pause_s)


class Served:
    """A server of HTTP on a real port of loopback, in a thread of this process."""

    def serve(self, config: uvicorn.Config) -> None:
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]

    def exchange(
        self, path: str, body: Any = None, *, method: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """The status, the body, as a value where it is JSON, and the headers; what is sent may be bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
            response = connection.getresponse()
            text = response.read().decode()
            is_json = (response.getheader("content-type") or "").startswith("application/json")
            return response.status, json.loads(text) if is_json else text, response.headers
        finally:
            connection.close()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
