"""The language server: connects the endpoint, the session and the handlers, from start to exit.

A pygls server with its own input: a thread reads messages, and the event loop handles them in order. Nothing waits for
the model. The server ends with its client: at `exit`, at the end of input, or when the client's process ends.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final, NoReturn

import psutil
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.lsp.server import LanguageServer

from fastcoder_lsp import __version__
from fastcoder_lsp.completion.protocol import OpenHost
from fastcoder_lsp.lsp.capabilities import read_client, read_folders, server_capabilities
from fastcoder_lsp.lsp.configuration import Configuration
from fastcoder_lsp.lsp.endpoint import Endpoint, make_converter
from fastcoder_lsp.lsp.known_clients import at
from fastcoder_lsp.lsp.logs import quiet_pygls
from fastcoder_lsp.lsp.methods import DEBUG_METHODS, METHODS
from fastcoder_lsp.lsp.requests.workspace import command_names
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.lsp.wire import LongMessage, Writer, now_ms, read_bodies, set_arrival
from fastcoder_lsp.workspace.folders import Folders

logger = logging.getLogger(__name__)

GRACE_S: Final = 5.0  # how long the event loop has to end the process after its input has ended
_INTERVAL_S: Final = 1.0
_NO_CLIENT: Final = """\
fastcoder-lsp: the input ended before a client connected
Editors start this command and speak the Language Server Protocol (LSP) to it.
To see ghost text, run: fastcoder-lsp play
"""


def process_of(process_id: int) -> psutil.Process | None:
    """The client's process; None if it is not visible (in another container)."""
    try:
        return psutil.Process(process_id)
    except (psutil.Error, ValueError, OverflowError):
        return None


async def wait_until_gone(process: psutil.Process) -> None:
    """Return once the process has ended: Linux reports it, elsewhere it is looked at every second."""
    descriptor = _descriptor_of(process)
    if descriptor is None:
        while _is_alive(process):  # noqa: ASYNC110 - no event reports the end of another process
            await asyncio.sleep(_INTERVAL_S)
        return
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        if _is_alive(process):  # its id may have been another's before there was a descriptor
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _descriptor_of(process: psutil.Process) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(process.pid)
    return None


def exit_after(grace_s: float) -> NoReturn:
    """End the process after the grace: the event loop may be blocked in a write to a pipe that is not read."""
    time.sleep(grace_s)
    os._exit(1)


def _is_alive(process: psutil.Process) -> bool:
    """Whether it is the same process (ids are reused), and not a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of the command line; `settings` override all others, `process_id` is for an `initialize` without."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    debug: bool = False
    process_id: int | None = None


def serve(stdin: BinaryIO, stdout: BinaryIO, open_host: OpenHost, options: ServeOptions) -> int:
    """Serve one client; returns the protocol's exit code: 0 after `shutdown`, else 1."""

    async def run() -> int:
        return await _LanguageServer(stdout, open_host, options).run(stdin)

    quiet_pygls()
    return asyncio.run(run())


class _LanguageServer(LanguageServer):
    """One connection from first byte to last; made on the running event loop."""

    protocol: Endpoint

    def __init__(self, stdout: BinaryIO, open_host: OpenHost, options: ServeOptions) -> None:
        super().__init__("fastcoder-lsp", __version__, protocol_cls=Endpoint, converter_factory=make_converter)
        self._open_host = open_host
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._bodies: asyncio.Queue[tuple[bytes | LongMessage, float] | None] = asyncio.Queue()
        self._session: Session | None = None
        self._parent_watch: asyncio.Task[None] | None = None
        self._exit_code = 1
        on_gone = partial(self._stop, "the client takes no messages any longer")
        self.protocol.set_writer(Writer(stdout, on_gone), include_headers=False)
        # Partials, because pygls would pass itself as a parameter annotated with `object`.
        self.feature(types.INITIALIZE)(partial(self._initialize))
        self.feature(types.EXIT)(partial(self._exit))

    async def run(self, stdin: BinaryIO) -> int:
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            with contextlib.suppress(NotImplementedError, AttributeError):  # not on Windows
                self._loop.add_signal_handler(getattr(signal, name), self._stop, name)
        threading.Thread(target=self._read, args=(stdin,), name="fastcoder-reader", daemon=True).start()
        receiving = asyncio.create_task(self._receive())
        await self._stopped
        receiving.cancel()
        self.protocol.cancel_all()
        await asyncio.sleep(0)
        if self._session is not None:
            self._session.close()
        return self._exit_code

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Log a handler's error; pygls would show each in a popup."""
        if isinstance(error, JsonRpcInternalError):
            logger.error("%s\n%s", error, "".join((error.data or {}).get("traceback", ())))
        elif not isinstance(error, JsonRpcException):  # others are error responses
            logger.error("%s", source.__name__, exc_info=error)

    def _read(self, stdin: BinaryIO) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            try:
                for body in read_bodies(stdin):
                    self._loop.call_soon_threadsafe(self._bodies.put_nowait, (body, now_ms()))
            except (OSError, ValueError) as error:
                logger.info("reading ended: %s", type(error).__name__)
            self._loop.call_soon_threadsafe(self._bodies.put_nowait, None)
            exit_after(GRACE_S)

    async def _receive(self) -> None:
        """Handle messages in order; each handler runs up to its first `await` before the next message."""
        while (received := await self._bodies.get()) is not None:
            body, arrived_ms = received
            set_arrival(arrived_ms)
            if self._session is not None:
                self._session.active()
            try:
                self.protocol.receive(body)
            except Exception:  # a bug must cost one message, not the session
                logger.exception("a message was not handled")
            await asyncio.sleep(0)
        self._stop("the client closed the connection")
        if self._session is None:
            with contextlib.suppress(OSError):
                sys.stderr.write(_NO_CLIENT)

    def _stop(self, why: str) -> None:
        if not self._stopped.done():
            logger.info("ending: %s", why)
            self._exit_code = 0 if self.protocol.shut_down else 1
            self._stopped.set_result(None)

    # The life cycle -----------------------------------------------------------------------------------------------

    def _initialize(self, params: object) -> types.InitializeResult:
        client = read_client(params)
        configuration = Configuration(self._options.settings)
        configuration.set_initial(at(params, "initializationOptions"))
        session = Session(self.protocol, client, configuration, Folders(read_folders(params)), self._open_host)
        self._session = session
        self.protocol.repairs.documents = session.documents
        self.protocol.initialized = True
        for method, handle in (*METHODS, *(DEBUG_METHODS if self._options.debug else ())):
            self.feature(method)(partial(handle, session))
        edits = session.wants_edits()
        process_id = client.process_id if client.process_id is not None else self._options.process_id
        process = None if process_id is None else process_of(process_id)
        if process is not None:
            self._parent_watch = asyncio.create_task(self._watch_parent(process))
        return types.InitializeResult(
            server_capabilities(
                client,
                popup=session.wants_popup(),
                definitions=session.uses_context(),
                edits=edits,
                commands=command_names(client.command_suffix, edits=edits),
            ),
            self.protocol.server_info,
        )

    async def _watch_parent(self, process: psutil.Process) -> None:
        await wait_until_gone(process)
        self._stop("the client's process is gone")

    def _exit(self, _: object) -> None:
        self._stop("exit")
