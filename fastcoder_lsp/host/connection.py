"""A connection between a client and a host: framing, queue of unsent messages, and greeting.

A message follows its length in four bytes, the most significant first. Senders never wait: an `Outbox` queues their
messages, and a message with a key replaces an unsent one with the same key.
"""

import contextlib
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import psutil

from fastcoder_lsp.completion.protocol import Message
from fastcoder_lsp.host.listening import GREETING_S, Address
from fastcoder_lsp.host.transport import MOST_BYTES, PROTOCOL, Codec, Hello, ProtocolError, Welcome

_LENGTH = struct.Struct("!I")
_RECEIVED = 65_536


class Channel:
    """Sends and receives messages over the socket `connected`, which it closes."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, bodies: Iterable[bytes]) -> None:
        """Send messages; waits while the other side reads nothing. Raises OSError if the connection has ended."""
        self._socket.sendall(_framed(bodies))

    def write(self, outbox: "Outbox", codec: Codec) -> None:
        """Send the messages of an outbox until it is closed; waits, and raises OSError, as `send` does."""
        while (makers := outbox.take()) is not None:
            if bodies := [codec.encode(message) for make in makers for message in make()]:
                self._socket.sendall(_framed(bodies))

    def receive(self) -> bytes | None:
        """The next message; None at the end of the connection.

        Raises ProtocolError if it is too long or cut short, OSError if the connection broke or the time of `limit` is
        over.
        """
        head = self._exactly(_LENGTH.size, begun=False)
        if head is None:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > MOST_BYTES:
            raise ProtocolError(f"a message of {length} bytes")
        return self._exactly(length, begun=True)

    def limit(self, seconds: float | None) -> None:
        """Set how long sending and receiving may wait; None: for ever."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """End the connection, from any thread; wakes threads that read or write."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _exactly(self, count: int, *, begun: bool) -> bytes | None:
        """Receive `count` bytes; None if the connection ended before a message's first byte, else ProtocolError."""
        data = bytearray()
        while len(data) < count:
            # Allocate no more than has arrived: the length is only a claim.
            piece = self._socket.recv(min(_RECEIVED, count - len(data)))
            if not piece:
                if begun or data:
                    raise ProtocolError("the connection ended within a message")
                return None
            data += piece
        return bytes(data)


def _framed(bodies: Iterable[bytes]) -> bytes:
    return b"".join(part for body in bodies for part in (_LENGTH.pack(len(body)), body))


Maker: TypeAlias = Callable[[], Iterable[Message]]
"""Makes messages when they are sent, in the sending thread: only then is the base of a text's difference known."""

MOST = 4096  # most unsent messages; a peer that has not read as many counts as gone


class Outbox:
    """A queue of messages, for any number of threads that put and one that sends."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._makers: dict[Hashable, Maker] = {}
        self._unnamed = 0
        self._closed = False

    def put(self, *messages: Message, key: Hashable = None) -> None:
        """Queue messages; with a `key`, they replace unsent ones with the same key."""
        self.make(lambda: messages, key)

    def make(self, maker: Maker, key: Hashable = None) -> None:
        """Queue the messages that `maker` makes when they are sent."""
        with self._news:
            if key is None:
                self._unnamed += 1
                key = self._unnamed
            self._makers.pop(key, None)  # the newest goes last: it may refer to messages in between
            self._makers[key] = maker
            if len(self._makers) > MOST:
                self._closed = True
            self._news.notify()

    def take(self) -> list[Maker] | None:
        """Wait for messages, and take them all. None: closed, or too many that the peer does not read."""
        with self._news:
            self._news.wait_for(lambda: self._makers or self._closed)
            if self._closed and (not self._makers or len(self._makers) > MOST):
                return None
            makers = list(self._makers.values())
            self._makers.clear()
            return makers

    def close(self) -> None:
        """Accept no more messages; those in the queue may still be sent."""
        with self._news:
            self._closed = True
            self._news.notify()


class SilentError(OSError):
    """A process accepted the connection and does not greet. `process_id`: its id if the system tells it, else 0."""

    def __init__(self, process_id: int) -> None:
        super().__init__("a process is there that says nothing")
        self.process_id = process_id


class VersionError(ProtocolError):
    """The host has another version."""


@dataclass(frozen=True, slots=True)
class GreetedHost:
    """A host that was greeted."""

    channel: Channel
    process: psutil.Process | None


def greet(address: Address, build: str, role: str = "front", wait_s: float = GREETING_S) -> GreetedHost:
    """Connect to the host at an address.

    Raises:
        SilentError: the process there does not greet.
        OSError: no process listens there.
        VersionError: the host has another version; the command line may still talk to it.
        ProtocolError: the process there is no host.
    """
    connected = address.connect()
    channel = Channel(connected)
    try:
        welcome = _welcome(channel, build, role, wait_s)
    except TimeoutError as error:
        process_id = _peer_process(connected)
        channel.close()
        raise SilentError(process_id) from error
    except BaseException:
        channel.close()
        raise
    if role == "front" and (welcome.protocol, welcome.build) != (PROTOCOL, build):
        channel.close()
        raise VersionError("a host of another version")
    process = None
    with contextlib.suppress(psutil.Error, ValueError, OverflowError):  # it has ended, or is in another container
        process = psutil.Process(welcome.process_id)
    return GreetedHost(channel, process)


def _welcome(channel: Channel, build: str, role: str, wait_s: float) -> Welcome:
    codec = Codec()
    channel.limit(wait_s)
    channel.send([codec.encode(Hello(PROTOCOL, build, os.getpid(), role))])
    data = channel.receive()
    if data is None:
        raise ConnectionResetError("the host is just ending")
    welcome = codec.from_host(data)
    if not isinstance(welcome, Welcome):
        raise ProtocolError("no greeting")
    channel.limit(None)
    return welcome


def _peer_process(connected: socket.socket) -> int:
    """The id of the process at the other end; 0 if the system does not tell it."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", told)[0])
        if sys.platform == "darwin":
            return connected.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
    except OSError:
        pass
    return 0
