"""Sockets for a host: Unix sockets, or a port on the loopback interface on systems without them.

Both sides of a Unix socket check that the other one belongs to the same user. A port is published with a token in a
private file: both sides prove that they know the token without sending it, so that a process that took over a dead
host's port learns nothing.
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
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typing_extensions import override

from fastcoder_lsp.core.files import put_in_place

BACKLOG: Final = 64
GREETING_S: Final = 5.0  # longest time until the other end of a new connection has identified itself


class ForeignError(OSError):
    """The process at the other end belongs to another user, or cannot prove that it belongs to this one."""


class Listening(ABC):
    """The host's end of an address: a listening socket, and the file that leads to it."""

    def __init__(self, listening: socket.socket, path: Path) -> None:
        self._socket, self._path = listening, path

    def accept(self) -> socket.socket:
        """Wait for the next connection, from any user; raises OSError once the socket was closed."""
        return self._socket.accept()[0]

    @abstractmethod
    def admit(self, connected: socket.socket) -> None:
        """Raise OSError unless the other end belongs to this user; waits at most `GREETING_S`."""

    def found(self) -> bool:
        """Whether the name still leads to this socket; raises OSError if the system does not tell."""
        with contextlib.suppress(FileNotFoundError):
            return self._is_own_file()
        return False

    @abstractmethod
    def _is_own_file(self) -> bool: ...

    def close(self) -> None:
        """Remove the name, and wake threads that wait in `accept`."""
        with contextlib.suppress(OSError):
            if self.found():
                self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@dataclass(frozen=True)
class Address(ABC):
    """A name in a private folder, for at most one host."""

    folder: Path
    key: str

    @property
    @abstractmethod
    def path(self) -> Path:
        """The file that leads to the socket."""

    @abstractmethod
    def connect(self) -> socket.socket:
        """Connect to the host; raises OSError if there is none, or it does not belong to this user."""

    @abstractmethod
    def listen(self) -> Listening:
        """Listen as the host; the caller holds the address's lock. Raises OSError if the system does not allow it."""


@contextlib.contextmanager
def _closed_on_failure(opened: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        opened.close()
        raise


class UnixAddress(Address):
    """The Unix socket `key`.sock in `folder`."""

    @property
    @override
    def path(self) -> Path:
        return self.folder / f"{self.key}.sock"

    @override
    def connect(self) -> socket.socket:
        if not is_own(self.path, stat.S_IFSOCK):
            raise FileNotFoundError(f"no socket of this user at {self.path}")
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _closed_on_failure(connected):
            connected.settimeout(GREETING_S)  # a host with a full backlog accepts no connection
            connected.connect(str(self.path))
            _require_same_user(connected)
            connected.settimeout(None)
        return connected

    @override
    def listen(self) -> Listening:
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()  # left by a dead host: we hold the lock
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _closed_on_failure(listening):
            listening.bind(str(self.path))
            self.path.chmod(0o600)
            listening.listen(BACKLOG)
        return _UnixListening(listening, self.path)


class _UnixListening(Listening):
    def __init__(self, listening: socket.socket, path: Path) -> None:
        super().__init__(listening, path)
        self._file = _file(path)

    @override
    def admit(self, connected: socket.socket) -> None:
        _require_same_user(connected)

    @override
    def _is_own_file(self) -> bool:
        return _file(self._path) == self._file


def _file(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_dev, facts.st_ino


def peer_user(connected: socket.socket) -> int | None:
    """The user id at the other end of a Unix socket; None if this system does not tell it."""
    if hasattr(socket, "SO_PEERCRED"):
        told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    local = getattr(socket, "LOCAL_PEERCRED", 1 if sys.platform == "darwin" else None)
    if local is not None:  # macOS and the BSDs: a version, the user, groups
        version, user = struct.unpack_from("=II", connected.getsockopt(0, local, 76))
        return int(user) if version == 0 else None
    return None


def _require_same_user(connected: socket.socket) -> None:
    if peer_user(connected) != os.geteuid():
        raise ForeignError("the other end is another user's")


_TOKEN_BYTES: Final = 32


class LoopbackAddress(Address):
    """A port on the loopback interface, published with a token in a private file."""

    @property
    @override
    def path(self) -> Path:
        return self.folder / f"{self.key}.port"

    @override
    def connect(self) -> socket.socket:
        if not is_own(self.path, stat.S_IFREG):
            raise FileNotFoundError(f"no file of this user at {self.path}")
        port, _, token = self.path.read_text(encoding="ascii").partition(" ")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise FileNotFoundError(f"no port in {self.path}")
        connected = socket.create_connection(("127.0.0.1", int(port)), timeout=GREETING_S)
        with _closed_on_failure(connected):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _shake_hands(connected, token.strip().encode(), b"front")
            connected.settimeout(None)
        return connected

    @override
    def listen(self) -> Listening:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        token = secrets.token_hex(_TOKEN_BYTES)
        with _closed_on_failure(listening):
            if sys.platform == "win32":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            listening.bind(("127.0.0.1", 0))
            listening.listen(BACKLOG)
            made = self.path.with_suffix(f".{os.getpid()}")
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(f"{listening.getsockname()[1]} {token}\n")
            put_in_place(made, self.path)
        return _LoopbackListening(listening, self.path, token.encode())


class _LoopbackListening(Listening):
    def __init__(self, listening: socket.socket, path: Path, token: bytes) -> None:
        super().__init__(listening, path)
        self._token = token

    @override
    def admit(self, connected: socket.socket) -> None:
        connected.settimeout(GREETING_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _shake_hands(connected, self._token, b"host")
        connected.settimeout(None)

    @override
    def _is_own_file(self) -> bool:
        return self._token in self._path.read_bytes()


def _shake_hands(connected: socket.socket, token: bytes, side: bytes) -> None:
    """Prove to each other knowledge of the token, without sending it; raises OSError if the other side has none."""
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
    """Whether `path` is of this kind (`stat.S_IFSOCK`, …), no link, and owned by the user."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_IFMT(facts.st_mode) == kind and (os.name == "nt" or facts.st_uid == os.geteuid())
