"""A host's address as a port on this machine, told with a token in a private file; for systems without Unix sockets.

Both sides show that they know the token, and neither says it: whoever took a dead host's port learns nothing.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastcoder_lsp.core.replacing import put_in_place
from fastcoder_lsp.host.listening import BACKLOG, GREETING_S, ForeignError, Listening, close_listening
from fastcoder_lsp.host.private_folder import is_own

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
        """See `Address`."""
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
        """See `Address`."""
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
