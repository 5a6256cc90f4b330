"""The host's process, from the moment it has the lock to its end: a minute after its last client, or when it hangs.

It holds a lock, which makes it the only one at its address, and the name that it listens at; it makes both again where
somebody has deleted them. The model is made when the first client comes: the greeting needs none.
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
from typing import TYPE_CHECKING, Final, Protocol

from filelock import FileLock, Timeout

from fastcoder_lsp.completion.protocol import HostListener, ModelHost, OpenHost
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.address import build, keep_known, lock_path, named_address, private_folder
from fastcoder_lsp.host.host_log import turn_over
from fastcoder_lsp.host.listening import Address, Listening
from fastcoder_lsp.host.liveness import WorkerWatch
from fastcoder_lsp.host.server import HostServer
from fastcoder_lsp.workspace.open_texts import OpenTexts

if TYPE_CHECKING:
    from fastcoder_lsp.host.local import ModelServer

logger = logging.getLogger(__name__)


class AddressLock:
    """A host's place at an address.

    Attributes:
        address: where.

    Args:
        folder: of the address, private.
        key: its name.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.address = named_address(folder, key)
        self._path = lock_path(self.address, "host")
        self._lock = FileLock(self._path, mode=0o600, thread_local=False)
        self._locked: tuple[int, int] | None = None

    def take(self, wait_s: float) -> bool:
        """Become the only host there; False where another one has the place for so long."""
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout:
            return False
        self._locked = _file(self._path)
        return True

    def listen(self) -> Listening:
        """Be found there.

        Raises:
            OSError: the system does not allow it.
        """
        return self.address.listen()

    def keep(self, server: HostServer) -> bool:
        """Take back what was deleted of the place; False where another host has taken it meanwhile.

        Where the system refuses it, the next call tries again.
        """
        keep_known(self.address)
        with suppress(OSError, UsageError):
            if _file(self._path) != self._locked:
                private_folder([self.address.folder])
                self._lock.release()
                if not self.take(0):
                    return False
            if not server.found():
                server.listen_at(self.listen())
        return True

    def leave(self) -> None:
        """Release the place for another host."""
        self._lock.release()


def _file(path: Path) -> tuple[int, int] | None:
    """Which file goes by a name; None where there is none."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


class LazyModelServer:
    """One model, as `host.local` has it, imported at the first front (`HostedModel`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._core: ModelServer | None = None

    def open(
        self, listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
    ) -> ModelHost:
        """A front's place (`completion.protocol.OpenHost`)."""
        with self._lock:
            if self._core is None:
                # Takes seconds of importing; fronts are greeted before.
                from fastcoder_lsp.host.local import ModelServer  # noqa: PLC0415
                from fastcoder_lsp.runtime.load import load_model, make_runtime  # noqa: PLC0415

                self._core = ModelServer(load_model, make_runtime, settings, cache_folder())
            core = self._core
        return core.open(listener, settings, folders, texts)

    def probe(self, reply: Callable[[], object]) -> None:
        """Have the worker call `reply` between two pieces of work; returns at once."""
        if self._core is None:
            reply()
        else:
            self._core.probe(reply)

    def close(self, wait_s: float) -> None:
        """End in order; waits at most so long."""
        if self._core is not None:
            self._core.close(wait_s)


MOST_FILES: Final = 8192
"""Open at once: sockets, mapped files, and watches of folders."""
HUNG: Final = 70
"""Exit code of a process that ends itself because its worker hangs."""
_SWITCH_INTERVAL_S: Final = 0.0005
"""As of a server alone (`cli/serve`): a message is not to wait for the worker's next 5 ms of Python."""


@dataclass(frozen=True, slots=True)
class ProcessTimeouts:
    """How long things may take, in seconds.

    Attributes:
        stuck_s: a piece of the model's work, unless a model is being loaded; pieces are made to take tenths.
        look_s: between two looks at the worker, at its place, and at the log's length.
        ending_s: another host may take to its end, once its door is closed.
        look_again_s: between two looks whether it has ended.
    """

    stuck_s: float = 60.0
    look_s: float = 10.0
    ending_s: float = 30.0
    look_again_s: float = 0.1


class HostedModel(Protocol):
    """The model that fronts share."""

    @property
    def open(self) -> OpenHost:
        """Makes a front's place."""
        ...

    def probe(self, reply: Callable[[], object]) -> None:
        """Have the worker call `reply` between two pieces of work; returns at once."""
        ...

    def close(self, wait_s: float) -> None:
        """End in order; waits at most so long."""
        ...


class _AskedToEndError(Exception):
    """By a signal."""


def run_host(
    folder: Path,
    key: str,
    linger_s: float,
    shared: HostedModel,
    version: str | None = None,
    limits: ProcessTimeouts = ProcessTimeouts(),
) -> int:
    """Be the host at an address, unless there is one; returns the exit code.

    Args:
        folder: of the address, private.
        key: its name.
        linger_s: how long it stays when nobody is there.
        shared: what fronts share.
        version: of this process; None: of what is installed now.
        limits: how long things may take.

    Raises:
        OSError: it cannot listen there.
    """
    _allow_files()
    _be_nobodys()
    place = AddressLock(folder, key)
    until = time.monotonic() + limits.ending_s
    # Where one is there, it may be just ending: its door is closed before its memory is given back.
    while not place.take(limits.look_again_s):
        if _answers(place.address) or time.monotonic() > until:
            logger.info("another process has the model already")
            return 0
    try:
        return _serve(place, linger_s, shared, build() if version is None else version, limits)
    finally:
        place.leave()


def _allow_files() -> None:
    """As many as the system lets this user open: the limit is of the first editor, and all others' files come here."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _be_nobodys() -> None:
    """No less urgent than others: of the first editor, all others' answers would be late. Some systems don't allow it.

    Called while there is one thread: those that come have what it has.
    """
    if sys.platform != "win32" and os.getpriority(os.PRIO_PROCESS, 0) > 0:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)


def _answers(address: Address) -> bool:
    """Whether somebody listens there."""
    try:
        address.connect().close()
    except OSError:
        return False
    return True


def _serve(place: AddressLock, linger_s: float, shared: HostedModel, version: str, limits: ProcessTimeouts) -> int:
    stopped = threading.Event()
    server = HostServer(place.listen(), shared.open, version, stopped.set)
    logger.info("waiting for editors: process %d", os.getpid())
    _on_signals()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    threading.Thread(target=server.serve, name="fastcoder-host-door", daemon=True).start()
    try:
        why = _watch(server, shared, linger_s, stopped, limits, place)
    except _AskedToEndError:
        why = "a signal"
    logger.info("ending: %s", why)
    server.close()
    shared.close(2.0)
    return 0


def _watch(
    server: HostServer,
    shared: HostedModel,
    linger_s: float,
    stopped: threading.Event,
    limits: ProcessTimeouts,
    place: AddressLock,
) -> str:
    """Until nobody has been there for long, or somebody asks for the end; why it ends."""
    worker = WorkerWatch(shared.probe, limits.look_s)
    while not stopped.is_set():
        alone_s = server.alone_s()
        if not server.fronts() and alone_s >= linger_s:
            return f"no editor for {alone_s:.0f} s"
        server.wait(limits.look_s if server.fronts() else min(limits.look_s, max(linger_s - alone_s, 0.01)))
        turn_over()
        if not place.keep(server):
            return "another process has taken its place"
        if (stuck_s := worker.stuck_s(server)) > limits.stuck_s:
            _give_up(stuck_s)
    return "asked by the command line"


def _give_up(stuck_s: float) -> None:
    """End at once: fronts see that, and start another process, which a hanging worker would keep from them."""
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
