"""A host's address as a socket in the file system; both sides see that the other one is the same user's."""

import contextlib
import os
import socket
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.host.listening import BACKLOG, GREETING_S, ForeignError, Listening, close_listening
from fastcoder_lsp.host.private_folder import is_own


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket `key`.sock in `folder`."""

    folder: Path
    key: str

    @property
    def path(self) -> Path:
        """The socket's path."""
        return self.folder / f"{self.key}.sock"

    def connect(self) -> socket.socket:
        """See `Address`."""
        if not is_own(self.path, stat.S_IFSOCK):
            raise FileNotFoundError(f"no socket of this user at {self.path}")
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(GREETING_S)  # a host whose backlog is full takes no connection
            connected.connect(str(self.path))
            _require_same_user(connected)
            connected.settimeout(None)
        except BaseException:
            connected.close()
            raise
        return connected

    def listen(self) -> Listening:
        """See `Address`."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()  # of a host that died: only one has the lock
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(self.path))
            self.path.chmod(0o600)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
        return _UnixListening(listening, self.path)


class _UnixListening:
    def __init__(self, listening: socket.socket, path: Path) -> None:
        self._socket, self._path = listening, path
        self._file = _file(path)

    def accept(self) -> socket.socket:
        return self._socket.accept()[0]

    def admit(self, connected: socket.socket) -> None:
        _require_same_user(connected)

    def found(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return _file(self._path) == self._file
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.found():
                self._path.unlink()
        close_listening(self._socket)


def _file(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_dev, facts.st_ino


def peer_user(connected: socket.socket) -> int | None:
    """The user id of the other end of a Unix socket; None where this system does not tell it."""
    if hasattr(socket, "SO_PEERCRED"):
        told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    local = getattr(socket, "LOCAL_PEERCRED", 1 if sys.platform == "darwin" else None)
    if local is not None:  # macOS and the BSDs: a version, the user, groups
        version, user = struct.unpack_from("=II", connected.getsockopt(0, local, 76))
        return int(user) if version == 0 else None
    return None


def _require_same_user(connected: socket.socket) -> None:
    """Raises `ForeignError` where the other end is another user's process, or nobody can tell."""
    if peer_user(connected) != os.geteuid():
        raise ForeignError("the other end is another user's")
