"""A connected socket that carries messages: each behind its length, four bytes, the most significant first.

Owns the framing and the end of the connection. One thread reads; whoever writes is one at a time. Knows no message.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterable

from fastcoder_lsp.host.transport import MOST_BYTES, ProtocolError

_LENGTH = struct.Struct("!I")
_RECEIVED = 65_536


class Channel:
    """Sends and receives bytes, message by message.

    Args:
        connected: the socket; closed with this.
        most: bytes of one message that are still received.
    """

    def __init__(self, connected: socket.socket, most: int = MOST_BYTES) -> None:
        self._socket, self._most = connected, most
        self._writing = threading.Lock()
        self._closed = False

    def send(self, bodies: Iterable[bytes]) -> None:
        """Send messages; waits for as long as the other side reads nothing.

        Raises:
            OSError: the connection has ended.
        """
        data = b"".join(part for body in bodies for part in (_LENGTH.pack(len(body)), body))
        with self._writing:
            self._socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next message; None at the end of the connection.

        Raises:
            ProtocolError: it is too long, or cut.
            OSError: the connection broke, or the time set by `limit` is over.
        """
        head = self._exactly(_LENGTH.size, begun=False)
        if head is None:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > self._most:
            raise ProtocolError(f"a message of {length} bytes")
        return self._exactly(length, begun=True)

    def limit(self, seconds: float | None) -> None:
        """How long sending and receiving may wait from now on; None: for ever."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """End the connection, from any thread: whoever reads or writes wakes."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _exactly(self, count: int, *, begun: bool) -> bytes | None:
        """So many bytes; None where the connection ended before the first, and none had come.

        Raises:
            ProtocolError: it ended within.
        """
        data = bytearray()
        while len(data) < count:
            # No more is set aside than has come: a length is a claim.
            piece = self._socket.recv(min(_RECEIVED, count - len(data)))
            if not piece:
                if begun or data:
                    raise ProtocolError("the connection ended within a message")
                return None
            data += piece
        return bytes(data)
