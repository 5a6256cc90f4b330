"""Where a host listens: a socket in the file system, or a port on this machine for systems without Unix sockets.

Both sides of a Unix socket see that the other one is the same user's. A port is told with a token in a private file:
both sides show that they know the token, and neither says it, so whoever took a dead host's port learns nothing.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from fastcoder_lsp.core.replacing import put_in_place

BACKLOG: Final = 64
GREETING_S: Final = 5.0
"""How long whoever connects, or is connected to, may take until it is known who that is."""


class ForeignError(OSError):
    """The process at the other end is another user's, or cannot prove that it is this user's."""


class Listening(Protocol):
    """The host's end of an address."""

    def accept(self) -> socket.socket:
        """The next connection, whoever it is from.

        Raises:
            OSError: closed.
        """
        ...

    def admit(self, connected: socket.socket) -> None:
        """See that it is this user's; waits at most `GREETING_S`.

        Raises:
            OSError: it is not.
        """
        ...

    def found(self) -> bool:
        """Whether its name still leads here; somebody may have deleted it.

        Raises:
            OSError: the system does not tell.
        """
        ...

    def close(self) -> None:
        """Remove its name; threads that wait in `accept` wake up."""
        ...


class Address(Protocol):
    """A place where at most one host is: a name in a private folder."""

    @property
    def folder(self) -> Path:
        """The folder."""
        ...

    @property
    def key(self) -> str:
        """The name."""
        ...

    def connect(self) -> socket.socket:
        """A connection to the host that is there.

        Raises:
            OSError: there is none, or what is there is not this user's.
        """
        ...

    def listen(self) -> Listening:
        """Be the host that is there; for whoever holds its lock.

        Raises:
            OSError: the system does not allow it.
        """
        ...


def close_listening(listening: socket.socket) -> None:
    """Close it so that a thread that waits in `accept` wakes."""
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()


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
        """A connection to the process that listens at the socket, which is this user's."""
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
        """Listen at the socket; removes the socket of a host that died."""
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


_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class LoopbackAddress:
    """A port on this machine, told with a token in a private file."""

    folder: Path
    key: str

    @property
    def path(self) -> Path:
        """The file that tells port and token."""
        return self.folder / f"{self.key}.port"

    def connect(self) -> socket.socket:
        """A connection to the process at the port, which knows the token."""
        if not is_own(self.path, stat.S_IFREG):
            raise FileNotFoundError(f"no file of this user at {self.path}")
        port, _, token = self.path.read_text(encoding="ascii").partition(" ")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise FileNotFoundError(f"no port in {self.path}")
        connected = socket.create_connection(("127.0.0.1", int(port)), timeout=GREETING_S)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _shake_hands(connected, token.strip().encode(), b"front")
            connected.settimeout(None)
        except BaseException:
            connected.close()
            raise
        return connected

    def listen(self) -> Listening:
        """Listen at a free port, and tell it with a new token."""
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        token = secrets.token_hex(_TOKEN_BYTES)
        try:
            if sys.platform == "win32":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            listening.bind(("127.0.0.1", 0))
            listening.listen(BACKLOG)
            made = self.path.with_suffix(f".{os.getpid()}")
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(f"{listening.getsockname()[1]} {token}\n")
            put_in_place(made, self.path)
        except BaseException:
            listening.close()
            raise
        return _LoopbackListening(listening, self.path, token.encode())


class _LoopbackListening:
    def __init__(self, listening: socket.socket, path: Path, token: bytes) -> None:
        self._socket, self._path, self._token = listening, path, token

    def accept(self) -> socket.socket:
        return self._socket.accept()[0]

    def admit(self, connected: socket.socket) -> None:
        connected.settimeout(GREETING_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _shake_hands(connected, self._token, b"host")
        connected.settimeout(None)

    def found(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self._token in self._path.read_bytes()
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.found():
                self._path.unlink()
        close_listening(self._socket)


def _shake_hands(connected: socket.socket, token: bytes, side: bytes) -> None:
    """Both sides show that they know the token, and neither says it.

    Raises:
        OSError: the other one does not know it.
    """
    own = secrets.token_bytes(_TOKEN_BYTES)
    connected.sendall(own)
    other = _read(connected, _TOKEN_BYTES)
    connected.sendall(_proof(token, side, other))
    theirs = b"front" if side == b"host" else b"host"
    if not hmac.compare_digest(_read(connected, _TOKEN_BYTES), _proof(token, theirs, own)):
        raise ForeignError("the other end does not know the token")


def _proof(token: bytes, side: bytes, nonce: bytes) -> bytes:
    return hmac.new(token, side + nonce, hashlib.sha256).digest()


def _read(connected: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connected.recv(count - len(data))
        if not piece:
            raise ForeignError("the other end said nothing")
        data += piece
    return data


def is_own(path: Path, kind: int) -> bool:
    """Whether `path` is of this kind (`stat.S_IFSOCK`, …), no link to one, and the user's."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_IFMT(facts.st_mode) == kind and (os.name == "nt" or facts.st_uid == os.geteuid())
