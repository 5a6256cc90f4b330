"""An HTTP server on a socket, with limits for slow clients.

uvicorn closes only connections that are silent after an answer, and reads on while requests wait. This connection also
ends when a head or the rest of a rejected body takes too long, when no request begins, or when the client does not read
its answers; and it stops reading while too many requests wait.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from fastcoder_lsp.errors import UsageError

HEAD_S = 10.0  # how long a request's head may take to arrive, from the connection or the last answer on
READ_S = 30.0  # how long an answer may wait for the client to read it
MAX_CONNECTIONS = 256  # at a time, with or without a request
MAX_AHEAD = 65_536  # bytes of further requests that are buffered during a request; reading pauses above

logger = logging.getLogger(__name__)


class _Flow(FlowControl):
    """uvicorn's flow control, which does not resume reading while `full` is true."""

    def __init__(self, transport: asyncio.Transport, full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._full = full

    @override
    def resume_reading(self) -> None:
        if not self._full():
            super().resume_reading()


class HttpConnection(H11Protocol):
    """A connection that ends when no request begins in time, or no answer is read."""

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(0)  # so that `pause_writing` is called for every byte that has to wait
        super().connection_made(transport)
        # The bytes behind the current request; its body's bytes are taken out at once.
        self.flow = _Flow(transport, lambda: len(self.conn.trailing_data[0]) > MAX_AHEAD)
        if len(self.connections) > MAX_CONNECTIONS:
            logger.warning("more than %d connections", MAX_CONNECTIONS)
            transport.close()
            return
        self._start_head_timer()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._start_head_timer()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timer = self.loop.call_later(READ_S, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        self._stop_read_timer()
        super().resume_writing()

    def _start_head_timer(self) -> None:
        """Run the timer while no request runs; received bytes do not reset it."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type denies None
        if cycle is not None and not cycle.response_complete:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None


_END_S = 5  # how long open requests may run on at shutdown


def listen(host: str, port: int) -> socket.socket:
    """Bind the socket, before a model is loaded for it; UsageError if the address or port cannot be used."""
    family = family_of(host, port)
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _refused(host, port, error) from None


def family_of(host: str, port: int) -> int:
    """The family of a host's first address; raises UsageError if it has none."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except (OSError, OverflowError, UnicodeError) as error:
        raise _refused(host, port, error) from None


@contextmanager
def reserved(host: str, port: int) -> Iterator[None]:
    """Keep a port free for another process of this user, which takes it with SO_REUSEPORT. Raises as `listen`.

    Otherwise the system may give the port to any connection that begins before the process listens.
    """
    listening = listen(host, port)
    family, address = listening.family, listening.getsockname()
    listening.close()
    with socket.socket(family, socket.SOCK_STREAM) as held:
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(address)
        except OSError as error:
            raise _refused(host, port, error) from None
        yield


def _refused(host: str, port: int, error: Exception) -> UsageError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return UsageError(f"port {port} is in use", "Stop the program that uses it, or choose another one: --port 8013")
    if number == errno.EACCES:
        return UsageError(f"port {port} needs an administrator's rights", "Choose one above 1023: --port 8013")
    if isinstance(error, OverflowError):
        return UsageError(f"there is no port {port}", "Choose one from 1 to 65535: --port 8013")
    if isinstance(error, socket.gaierror):
        return UsageError(
            f"{host} has no address ({error.strerror})", "Choose an address of this machine: --host 127.0.0.1"
        )
    return UsageError(f"this machine cannot listen at {host}: {error}", "Choose one of its addresses: --host 127.0.0.1")


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    uvicorn.Server(configuration(lambda: app)).run(sockets=[listening])


def configuration(make_app: Callable[[], ASGIApp]) -> uvicorn.Config:
    """uvicorn's configuration. Nothing of requests is logged: their bodies are the user's code."""
    return uvicorn.Config(
        make_app,
        factory=True,
        port=0,  # any free one if no socket is given
        loop="asyncio",
        http=HttpConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_S,
    )
