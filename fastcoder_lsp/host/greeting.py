"""The first words on a connection, from the side that connects."""

import contextlib
import os
import socket
import struct
import sys

import psutil

from fastcoder_lsp.host.channel import Channel
from fastcoder_lsp.host.link import Reached
from fastcoder_lsp.host.listening import GREETING_S, Address
from fastcoder_lsp.host.transport import PROTOCOL, Codec, Hello, ProtocolError, Welcome


class SilentError(OSError):
    """Somebody took the connection, and says nothing. `process_id`: who, where the system tells it; else 0."""

    def __init__(self, process_id: int) -> None:
        super().__init__("a process is there that says nothing")
        self.process_id = process_id


class VersionError(ProtocolError):
    """The host is of another version."""


def greet(address: Address, build: str, role: str = "front", wait_s: float = GREETING_S) -> Reached:
    """Connect to the host that is there.

    Args:
        address: where.
        build: of this process.
        role: as in `Hello`.
        wait_s: for its greeting.

    Raises:
        SilentError: it does not greet.
        OSError: there is none.
        VersionError: it is of another version; the command line may speak with it all the same.
        ProtocolError: it is no host.
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
    with contextlib.suppress(psutil.Error, ValueError, OverflowError):  # ended again, or in another container
        process = psutil.Process(welcome.process_id)
    return Reached(channel, process)


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
    """Who listens there; 0 where nobody can tell."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", told)[0])
        if sys.platform == "darwin":
            return connected.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
    except OSError:
        pass
    return 0
