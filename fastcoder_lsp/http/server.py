"""A server on a socket, until it is told to end."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.http.connection import Connection

_END_S = 5
"""How long open requests have when the server is to end."""


def listen(host: str, port: int) -> socket.socket:
    """The socket: taken before a model is loaded for it.

    Raises:
        UsageError: the port is in use, or the address is none of this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        raise _refused(host, port, error) from None


@contextmanager
def reserved(host: str, port: int) -> Iterator[None]:
    """Keep a port free for another process of this user, which takes it with SO_REUSEPORT.

    Without that, the system gives the port to any connection that begins before the process listens.

    Raises:
        UsageError: as of `listen`.
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
    """Why this address cannot be used, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return UsageError(f"port {port} is in use", "Stop the program that uses it, or choose another one: --port 8013")
    if number == errno.EACCES:
        return UsageError(f"port {port} needs an administrator's rights", "Choose one above 1023: --port 8013")
    if isinstance(error, OverflowError):
        return UsageError(f"there is no port {port}", "Choose one from 1 to 65535: --port 8013")
    return UsageError(f"this machine cannot listen at {host}: {error}", "Choose one of its addresses: --host 127.0.0.1")


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM."""
    uvicorn.Server(configuration(lambda: app)).run(sockets=[listening])


def configuration(make_app: Callable[[], ASGIApp], port: int = 0) -> uvicorn.Config:
    """How uvicorn is run. Nothing of requests is logged: their bodies are somebody's code.

    Args:
        make_app: called in the server's thread.
        port: to listen at, unless there is a socket.
    """
    return uvicorn.Config(
        make_app,
        factory=True,
        port=port,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_S,
    )
