"""The two ends of an address, as protocols, and what both kinds of addresses share."""

import contextlib
import socket
from pathlib import Path
from typing import Final, Protocol

BACKLOG: Final = 64
GREETING_S: Final = 5.0
"""How long whoever connects, or is connected to, may take until it is known who that is."""


class ForeignError(OSError):
    """Whoever is at the other end is not this user, or cannot show it."""


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
        """Nobody finds it any longer, and who waits in `accept` wakes."""
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
