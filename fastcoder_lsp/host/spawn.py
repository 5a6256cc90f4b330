"""Finds the host, or starts one: exactly one, however many clients look at once.

The new process is detached: it outlives the editor and all processes that the editor started. On Windows it gets its
own console, and leaves the editor's job if the job allows that, because a job ends with the editor. (Microsoft: Process
Creation Flags; Job Objects.)
"""

import contextlib
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import psutil

from fastcoder_lsp.completion.protocol import HostListener, Notice
from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.environment import host_environment, neutral_folder, python_command
from fastcoder_lsp.errors import ResourceError, UsageError
from fastcoder_lsp.host.address import address_of, build, lock_path
from fastcoder_lsp.host.connection import GreetedHost, SilentError, VersionError, greet
from fastcoder_lsp.host.host_log import log_path, open_log
from fastcoder_lsp.host.listening import Address
from fastcoder_lsp.host.liveness import resume
from fastcoder_lsp.host.shared_process import SharedProcessHost
from fastcoder_lsp.host.transport import ProtocolError
from fastcoder_lsp.workspace.background import each_once
from fastcoder_lsp.workspace.document import OpenTexts

logger = logging.getLogger(__name__)

Process = TypeVar("Process")

NO_WINDOW: Final = 0x08000000
"""CREATE_NO_WINDOW: an invisible console, which child processes inherit; with DETACHED_PROCESS each child would open a
visible one."""
OWN_GROUP: Final = 0x00000200
"""CREATE_NEW_PROCESS_GROUP: Ctrl+C in the editor's console does not reach it."""
LEAVE_JOB: Final = 0x01000000
"""CREATE_BREAKAWAY_FROM_JOB; if the job forbids it, no process is created."""


def start_apart(start: Callable[..., Process], *arguments: Any, **named: Any) -> Process:
    """Call `start`, as `subprocess.Popen`, for a process that outlives this one if our job allows it to leave.

    Raises:
        OSError: no process can be started.
    """
    try:
        return start(*arguments, **named, creationflags=NO_WINDOW | OWN_GROUP | LEAVE_JOB)
    except PermissionError:
        return start(*arguments, **named, creationflags=NO_WINDOW | OWN_GROUP)


START_S: Final = 60.0
"""Longest time until a new process listens: it imports next to nothing before, but the machine may be busy."""
MOST_SILENT: Final = 4
"""Unanswered greetings in a row before a host is replaced: it hangs, or was stopped."""
_LOOK_S: Final = 0.02
_HINT = "To find the cause, run `fastcoder-lsp host log`. `host.enabled = false` works without that process."

Command = Callable[[Address, Settings], Sequence[str]]
"""Gives the command line that starts a host for an address."""


def host_command(address: Address, settings: Settings) -> Sequence[str]:
    """The command of the installed package."""
    return python_command(
        "fastcoder_lsp.cli.main",
        "host",
        "run",
        "--folder",
        str(address.folder),
        "--key",
        address.key,
        "--linger",
        str(settings.host_linger_s),
    )


class FindOrStart:
    """The `Reach` of a front.

    Args:
        folders: candidates for the address's folder; None: the system's.
        version: this front's version; None: the installed one.
    """

    def __init__(
        self,
        folders: Sequence[Path] | None = None,
        command: Command = host_command,
        version: str | None = None,
        notice: Callable[[str], None] = logger.warning,
    ) -> None:
        self._folders, self._command = folders, command
        self._given_version = version
        self._notice = each_once(notice)
        self._silent = 0

    def __call__(self, settings: Settings) -> GreetedHost:
        """Connect to the host for these settings; waits until it is there.

        Raises:
            OSError: it does not answer, or ended at once.
            ProtocolError: the process at the address is no host.
            FastcoderError: there is no folder for it, it cannot be started, or it has another version.
        """
        address = address_of(settings, self._version, self._folders)
        try:
            return self._greeted(address)
        except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
            return self._start(address, settings)

    @cached_property
    def _version(self) -> str:
        """This front's version; computed in the connecting thread, because it stats some hundred files."""
        return build() if self._given_version is None else self._given_version

    def _greeted(self, address: Address) -> GreetedHost:
        try:
            reached = greet(address, self._version)
        except SilentError as error:
            if resume(error.process_id):
                return self._greeted(address)
            self._silent += 1
            if self._silent >= MOST_SILENT:
                self._silent = 0
                _kill(error.process_id)
            raise
        except VersionError as error:
            # A new host runs the installed version, which is newer than this process.
            raise UsageError(
                "fastcoder-lsp was updated after this editor started", "Restart the editor, or its language server."
            ) from error
        self._silent = 0
        return reached

    def _start(self, address: Address, settings: Settings) -> GreetedHost:
        """Start a host under the lock, so that of two fronts one starts it and the other finds it."""
        from filelock import FileLock, Timeout  # noqa: PLC0415 most fronts find a host

        until = time.monotonic() + START_S
        try:
            with FileLock(lock_path(address, "spawn"), timeout=START_S, mode=0o600, thread_local=False):
                with suppress(FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
                    return self._greeted(address)
                with self._log() as log, _started(self._command(address, settings), log) as ended:
                    while time.monotonic() < until:
                        over = ended()  # checked before connecting: an ended host cannot answer
                        with suppress(FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
                            return self._greeted(address)
                        if over:
                            raise ResourceError("the shared process ended while it started", _HINT)
                        time.sleep(_LOOK_S)
        except Timeout as error:
            raise ResourceError("another editor is still starting the shared process", _HINT) from error
        raise ResourceError(f"the shared process did not start within {START_S:.0f} s", _HINT)

    def _log(self) -> BinaryIO:
        """The new process's log; suggestions work without it."""
        try:
            return open_log()
        except OSError as error:
            self._notice(
                f"The shared process cannot write its log {log_path()} ({error.strerror}). Suggestions work "
                "without it. Make it writable for you, or set FASTCODER_CACHE to another folder."
            )
            return Path(os.devnull).open("ab")


def is_running(settings: Settings) -> bool:
    """Whether the shared process for these settings runs and answers; starts none."""
    version = build()
    try:
        greet(address_of(settings, version), version, "control").channel.close()
    except (OSError, ProtocolError, UsageError):
        return False
    return True


def open_shared(
    listener: HostListener, settings: Settings, folders: Mapping[Path, Settings], texts: OpenTexts
) -> SharedProcessHost:
    """Open a front of the shared process (`completion.protocol.OpenHost`)."""
    return SharedProcessHost(
        listener, settings, folders, texts, FindOrStart(notice=lambda text: listener(Notice(text)))
    )


@contextlib.contextmanager
def _started(command: Sequence[str], log: BinaryIO) -> Iterator[Callable[[], bool]]:
    """Start a detached process; yields a function that tells whether it has ended.

    A process can only wait for its children. So the new one holds an end of a pipe for as long as it lives.

    Raises:
        ResourceError: the system does not allow it, or the process ended with an error.
    """
    if sys.platform == "win32":
        started = _run(command, log)
        assert started is not None, "it is started as it is"
        yield lambda: started.poll() is not None
        return
    reading, writing = os.pipe()
    try:
        try:
            _run(command, log, writing)
        finally:
            os.close(writing)
        yield lambda: bool(select.select([reading], [], [], 0)[0])
    finally:
        os.close(reading)


def _run(command: Sequence[str], log: BinaryIO, held: int = -1) -> subprocess.Popen[bytes] | None:
    """Start the process, which inherits the descriptor `held`. Returns it on Windows; elsewhere it is detached."""
    try:
        if sys.platform == "win32":
            return start_apart(
                subprocess.Popen[bytes],
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=neutral_folder(),
                env=host_environment(),
            )
        # With `--detach` the command starts a child of its own and ends at once.
        done = subprocess.run(
            [*command, "--detach"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=neutral_folder(),
            env=host_environment(),
            start_new_session=True,
            pass_fds=[held],
            check=False,
            timeout=START_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceError(f"the shared process cannot start ({error})", _HINT) from error
    if done.returncode != 0:
        raise ResourceError(f"the shared process ended with code {done.returncode}", _HINT)
    return None


def _kill(process_id: int) -> None:
    """Kill a host that hangs, even a stopped one."""
    logger.error("the host, process %d, hangs and is replaced", process_id)
    with suppress(psutil.Error, ValueError):
        if process_id > 0:
            psutil.Process(process_id).kill()
