"""The host's process: it starts with the lock and ends a minute after its last client left, or when it hangs.

A lock makes it the only host at its address. If the lock's file or the socket's name is deleted, it makes them again.
The model server is created for the first client; the greeting does not need it.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from fastcoder_lsp.completion.protocol import HostListener, ModelHost
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.address import build, keep_known, lock_path, named_address, private_folder
from fastcoder_lsp.host.host_log import rotate
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.liveness import WorkerWatch
from fastcoder_lsp.host.server import ConnectionAcceptor
from fastcoder_lsp.workspace.document import OpenTexts

if TYPE_CHECKING:
    from fastcoder_lsp.host.local import ModelServer

logger = logging.getLogger(__name__)


class AddressLock:
    """The lock that makes a host the only one at its address, and its socket."""

    def __init__(self, folder: Path, key: str) -> None:
        self.address = named_address(folder, key)
        self._path = lock_path(self.address, "host")
        self._lock = FileLock(self._path, mode=0o600, thread_local=False)
        self._locked: tuple[int, int] | None = None

    def take(self, wait_s: float) -> bool:
        """Take the lock; False if another host keeps it for `wait_s`."""
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout:
            return False
        self._locked = _file(self._path)
        return True

    def keep(self, server: ConnectionAcceptor) -> bool:
        """Make deleted files of the address again; False if another host has taken the address meanwhile.

        If the system refuses, the next call tries again.
        """
        keep_known(self.address)
        with suppress(OSError, UsageError):
            if _file(self._path) != self._locked:
                private_folder([self.address.folder])
                self._lock.release()
                if not self.take(0):
                    return False
            if not server.found():
                server.listen_at(self.address.listen())
        return True

    def leave(self) -> None:
        """Release the address for another host."""
        self._lock.release()


def _file(path: Path) -> tuple[int, int] | None:
    """The device and inode of a file; None if there is no file."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


class LazyModelServer:
    """A `ModelServer` that is imported and created for the first front."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: ModelServer | None = None

    def open(
        self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ModelHost:
        """Open a host for a front (`completion.protocol.OpenHost`)."""
        with self._lock:
            if self._models is None:
                # These imports take seconds; fronts are greeted before.
                from fastcoder_lsp.host.local import ModelServer  # noqa: PLC0415
                from fastcoder_lsp.runtime.load import make_runtime  # noqa: PLC0415
                from fastcoder_lsp.runtime.succession import load_first  # noqa: PLC0415

                self._models = ModelServer(load_first, make_runtime, settings, cache_folder())
            models = self._models
        return models.open(listener, settings, folders, texts)

    def probe(self, reply: Callable[[], None]) -> None:
        """Let the worker call `reply` between two pieces of work; returns at once."""
        if self._models is None:
            reply()
        else:
            self._models.probe(reply)

    def close(self, wait_s: float) -> None:
        """End in order; waits at most `wait_s`."""
        if self._models is not None:
            self._models.close(wait_s)


MOST_FILES: Final = 8192
"""Most file descriptors: sockets, mapped files, and folder watches."""
_LIMITS: Final = (
    *("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_RSS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NPROC"),
    "RLIMIT_MEMLOCK",
)
HUNG: Final = 70
"""Exit code of a process that ends itself because its worker hangs."""
_SWITCH_INTERVAL_S: Final = 0.0005
"""As in `cli/serve`: a message must not wait until the worker has run Python for 5 ms."""


@dataclass(frozen=True, slots=True)
class ProcessTimeouts:
    """Times in seconds.

    Attributes:
        stuck_s: longest piece of the model's work, unless a model is being loaded; pieces are sized to take tenths.
        look_s: time between two checks of the worker, the address and the log's length.
        ending_s: how long another host may take to end after it has stopped listening.
        look_again_s: time between two checks whether it has ended.
    """

    stuck_s: float = 60.0
    look_s: float = 10.0
    ending_s: float = 30.0
    look_again_s: float = 0.1


class _AskedToEndError(Exception):
    """A signal asked the process to end."""


def run_host(
    folder: Path,
    key: str,
    linger_s: float,
    shared: LazyModelServer,
    version: str | None = None,
    limits: ProcessTimeouts = ProcessTimeouts(),
) -> int:
    """Run the host at an address, unless there is one; returns the exit code.

    Args:
        folder: the address's private folder.
        key: the address's name.
        linger_s: how long it stays without fronts.
        shared: the model that fronts share.
        version: this process's version; None: the installed one.
        limits: the timeouts.

    Raises:
        OSError: it cannot listen at the address.
    """
    _lift_limits()
    _reset_priority()
    place = AddressLock(folder, key)
    until = time.monotonic() + limits.ending_s
    # A host there may be ending: it stops listening before it frees its memory.
    while not place.take(limits.look_again_s):
        if _answers(place.address) or time.monotonic() > until:
            logger.info("another process has the model already")
            return 0
    try:
        return _serve(place, linger_s, shared, build() if version is None else version, limits)
    finally:
        place.leave()


def _lift_limits() -> None:
    """Raise the limits, which come from the first editor's shell, as far as the system allows."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 not on Windows

    for name in _LIMITS:
        if (number := getattr(resource, name, None)) is None:
            continue
        soft, hard = resource.getrlimit(number)
        wanted = hard
        if name == "RLIMIT_NOFILE":
            wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        if soft != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or soft < wanted):
            with suppress(OSError, ValueError):
                resource.setrlimit(number, (wanted, hard))


def _reset_priority() -> None:
    """Reset the priority: a low one of the first editor would delay all others' answers. Some systems forbid it.

    Called while there is one thread, because later threads inherit it.
    """
    if sys.platform != "win32" and os.getpriority(os.PRIO_PROCESS, 0) > 0:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)


def _answers(address: Address) -> bool:
    """Whether a process listens at the address."""
    try:
        address.connect().close()
    except OSError:
        return False
    return True


def _serve(place: AddressLock, linger_s: float, shared: LazyModelServer, version: str, limits: ProcessTimeouts) -> int:
    stopped = threading.Event()
    server = ConnectionAcceptor(place.address.listen(), shared.open, version, stopped.set)
    logger.info("waiting for editors: process %d", os.getpid())
    _on_signals()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    threading.Thread(target=server.serve, name="fastcoder-host-accept", daemon=True).start()
    try:
        why = _watch(server, shared, linger_s, stopped, limits, place)
    except _AskedToEndError:
        why = "a signal"
    logger.info("ending: %s", why)
    server.close()
    shared.close(2.0)
    return 0


def _watch(
    server: ConnectionAcceptor,
    shared: LazyModelServer,
    linger_s: float,
    stopped: threading.Event,
    limits: ProcessTimeouts,
    place: AddressLock,
) -> str:
    """Watch the host until it has had no fronts for long, or is asked to end; returns the reason."""
    worker = WorkerWatch(shared.probe, limits.look_s)
    while not stopped.is_set():
        alone_s = server.alone_s()
        if not server.fronts() and alone_s >= linger_s:
            return f"no editor for {alone_s:.0f} s"
        server.wait(limits.look_s if server.fronts() else min(limits.look_s, max(linger_s - alone_s, 0.01)))
        if server.exhausted():
            return "no memory is left; editors start another process"
        rotate()
        if not place.keep(server):
            return "another process has taken its place"
        if (stuck_s := worker.stuck_s(asking=server.asking(), loading=server.loading())) > limits.stuck_s:
            _give_up(stuck_s)
    return "asked by the command line"


def _give_up(stuck_s: float) -> None:
    """End at once because the worker hangs; fronts notice, and start another process."""
    logger.critical("a piece of work has taken %.0f s: this process hangs, and ends", stuck_s)
    faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr)
    os._exit(HUNG)


def _on_signals() -> None:
    def end(_number: int, _frame: object) -> None:
        raise _AskedToEndError

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
        for name in ("SIGHUP", "SIGINT"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
