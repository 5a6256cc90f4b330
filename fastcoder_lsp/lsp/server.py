"""The language server: wires the connection, the session and the handlers, and owns its life from start to exit.

The event loop handles messages in their order; a thread reads them; the service's worker computes. Nothing here or
below waits for the model. The server ends with its client: at `exit`, at the end of input, or when the client's
process is gone.
"""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import psutil
from lsprotocol import converters, types

from fastcoder_lsp import __version__
from fastcoder_lsp.lsp.capabilities import server_capabilities
from fastcoder_lsp.lsp.client import initialization_options, read_client, read_folders
from fastcoder_lsp.lsp.configuration import Configuration
from fastcoder_lsp.lsp.endpoint import (
    INVALID_REQUEST,
    NOT_INITIALIZED,
    Endpoint,
    Message,
    RpcError,
)
from fastcoder_lsp.lsp.lifeline import GRACE_S, exit_after, process_of, wait_until_gone
from fastcoder_lsp.lsp.methods import DEBUG_REQUESTS, NOTIFICATIONS, REQUESTS
from fastcoder_lsp.lsp.requests.commands import command_names
from fastcoder_lsp.lsp.session import Load, Session
from fastcoder_lsp.lsp.wire import frame, read_bodies
from fastcoder_lsp.workspace.folders import Folders

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says. `settings`: values by name, stronger than all others.

    `process_id`: the client's, where it is not told in `initialize`.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    debug: bool = False
    process_id: int | None = None


def serve(stdin: BinaryIO, stdout: BinaryIO, load: Load, options: Options) -> int:
    """Serve one client until it goes; returns the exit code of the protocol: 0 after `shutdown`, else 1."""

    async def run() -> int:
        return await _Server(stdout, load, options).run(stdin)

    return asyncio.run(run())


class _Server:
    """One connection from its first byte to its last; made on the running event loop."""

    def __init__(self, stdout: BinaryIO, load: Load, options: Options) -> None:
        self._stdout = stdout
        self._load = load
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._endpoint = Endpoint(self._send, converters.get_converter(), self._admit)
        self._endpoint.on_request("initialize", self._initialize)
        self._endpoint.on_request("shutdown", self._shutdown)
        self._endpoint.on_notification("exit", self._exit)
        self._session: Session | None = None
        self._following: asyncio.Task[None] | None = None
        self._shut_down = False
        self._code = 1

    async def run(self, stdin: BinaryIO) -> int:
        """Until the client goes."""
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has none of it
                self._loop.add_signal_handler(getattr(signal, name), self._stop, name)
        threading.Thread(target=self._read, args=(stdin,), name="fastcoder-reader", daemon=True).start()
        await self._stopped
        self._endpoint.cancel_all()
        await asyncio.sleep(0)
        if self._session is not None:
            self._session.close()
        return self._code

    def _read(self, stdin: BinaryIO) -> None:
        """The reader's thread: hands over each message, and the end."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            try:
                for body in read_bodies(stdin):
                    self._loop.call_soon_threadsafe(self._endpoint.receive, body)
            except (OSError, ValueError) as error:
                logger.info("reading ended: %s", type(error).__name__)
            self._loop.call_soon_threadsafe(self._stop, "the client closed the connection")
            exit_after(GRACE_S)

    def _send(self, message: Message) -> None:
        try:
            self._stdout.write(frame(message))
            self._stdout.flush()
        except (OSError, ValueError):
            self._stop("the client takes no messages any longer")

    def _stop(self, why: str) -> None:
        if not self._stopped.done():
            logger.info("ending: %s", why)
            self._code = 0 if self._shut_down else 1
            self._stopped.set_result(None)

    def _admit(self, method: str) -> RpcError | None:
        """What the protocol's life cycle does not allow now."""
        if method == "exit":
            return None
        if self._shut_down:
            return RpcError(INVALID_REQUEST, "the server is shutting down")
        if method == "initialize":
            return RpcError(INVALID_REQUEST, "the server is initialized already") if self._session else None
        return None if self._session else RpcError(NOT_INITIALIZED, "the first request must be initialize")

    # The life cycle -----------------------------------------------------------------------------------------------

    def _initialize(self, params: object) -> types.InitializeResult:
        client = read_client(params)
        configuration = Configuration(self._options.settings)
        configuration.set_initial(initialization_options(params))
        session = Session(self._endpoint, client, configuration, Folders(read_folders(params)), self._load)
        self._session = session
        for method, handle, params_type in (*REQUESTS, *(DEBUG_REQUESTS if self._options.debug else ())):
            self._endpoint.on_request(method, partial(handle, session), params_type)
        for method, handle, params_type in NOTIFICATIONS:
            self._endpoint.on_notification(method, partial(handle, session), params_type)
        process_id = client.process_id if client.process_id is not None else self._options.process_id
        process = None if process_id is None else process_of(process_id)
        if process is not None:
            self._following = asyncio.create_task(self._follow(process))
        return types.InitializeResult(
            server_capabilities(client, popup=session.wants_popup(), commands=command_names(client.command_suffix)),
            types.ServerInfo("fastcoder-lsp", __version__),
        )

    async def _follow(self, process: psutil.Process) -> None:
        await wait_until_gone(process)
        self._stop("the client's process is gone")

    def _shutdown(self, _: object) -> None:
        self._shut_down = True
        self._endpoint.cancel_all()

    def _exit(self, _: object) -> None:
        self._stop("exit")
