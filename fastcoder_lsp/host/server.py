"""The host's server: accepts connections, greets them, counts its fronts, and passes commands to their `ModelHost`."""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import psutil

from fastcoder_lsp.completion.protocol import HostFacts, OpenHost
from fastcoder_lsp.host import transport
from fastcoder_lsp.host.client_connection import ClientConnection
from fastcoder_lsp.host.connection import Channel
from fastcoder_lsp.host.listening import GREETING_S, Listening

logger = logging.getLogger(__name__)

MOST_FRONTS: Final = 128  # Most connected fronts; more are turned away. Each has one or two threads.
FIRST_S: Final = 30.0  # seconds that the first front has to connect, however soon the process ends after its last one
_MOST_OTHERS: Final = 16  # most other connections: of the command line, and those without a greeting yet


class ConnectionAcceptor:
    """Serves fronts until it is stopped; calls `on_stop` in a connection's thread if the command line asks for it."""

    def __init__(self, listening: Listening, open_host: OpenHost, build: str, on_stop: Callable[[], object]) -> None:
        self._listening, self._open_host, self._build, self._on_stop = listening, open_host, build, on_stop
        self._codec = transport.Codec()
        self._changed = threading.Condition()
        self._connections: set[Channel] = set()
        self._fronts: set[ClientConnection] = set()
        self._started = time.monotonic()
        self._alone_since = self._started + FIRST_S
        self._known = HostFacts()  # the facts that the last front left behind: the model stays as long as the process
        self._closed = threading.Event()

    def serve(self) -> None:
        """Accept connections until `close`; each has a thread of its own from its first byte."""
        while not self._closed.is_set():
            listening = self._listening
            try:
                connected = listening.accept()
            except OSError as error:
                if listening is not self._listening:
                    continue
                if self._closed.is_set():
                    return
                logger.warning("a connection could not be taken: %s", error)
                time.sleep(0.1)  # no file descriptors left, until a connection ends
                continue
            channel = Channel(connected)
            with self._changed:
                full = len(self._connections) >= MOST_FRONTS + _MOST_OTHERS
                if not full:
                    self._connections.add(channel)
            if full:
                logger.warning("more than %d connections", MOST_FRONTS + _MOST_OTHERS)
                channel.close()
                continue
            threading.Thread(
                target=self._converse, args=(listening, connected, channel), name="fastcoder-front-reader", daemon=True
            ).start()

    def found(self) -> bool:
        """Whether the socket's name still leads to it; raises OSError if the system does not tell."""
        return self._listening.found()

    def listen_at(self, listening: Listening) -> None:
        """Accept connections at another socket; existing connections stay."""
        before, self._listening = self._listening, listening
        before.close()

    def fronts(self) -> int:
        """The number of connected fronts."""
        return len(self._fronts)

    def alone_s(self) -> float:
        """Seconds without fronts; 0 while there are any, negative while the first one may still be connecting."""
        with self._changed:
            return 0.0 if self._fronts else time.monotonic() - self._alone_since

    def asking(self) -> bool:
        """Whether a front waits for an answer."""
        return any(front.asking for front in tuple(self._fronts))

    def loading(self) -> bool:
        """Whether a model is being loaded, by the state last sent to fronts."""
        return any(front.state == "loading" for front in tuple(self._fronts))

    def exhausted(self) -> bool:
        """Whether a front was told that this process ran out of memory."""
        return any(front.exhausted for front in tuple(self._fronts))

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until a front comes or goes."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        """Accept no more connections, and end all."""
        self._closed.set()
        self._listening.close()
        with self._changed:
            connections = tuple(self._connections)
        for channel in connections:
            channel.close()

    def _converse(self, listening: Listening, connected: socket.socket, channel: Channel) -> None:
        try:
            listening.admit(connected)
            channel.limit(GREETING_S)
            self._greeted(channel)
        except transport.ProtocolError as error:
            logger.warning("a connection was closed: %s", error)
        except OSError as error:
            logger.info("a connection broke: %s", error)
        except Exception:  # a bug must cost one connection, not the host
            logger.exception("a connection failed")
        finally:
            channel.close()
            with self._changed:
                self._connections.discard(channel)

    def _greeted(self, channel: Channel) -> None:
        data = channel.receive()
        if data is None:
            return
        hello = self._codec.from_client(data)
        if not isinstance(hello, transport.Hello) or hello.role not in {"front", "control"}:
            raise transport.ProtocolError("no greeting")
        channel.send([self._codec.encode(transport.Welcome(transport.PROTOCOL, self._build, os.getpid()))])
        if hello.role == "control":
            self._control(channel)
        elif (hello.protocol, hello.build) != (transport.PROTOCOL, self._build):
            raise transport.ProtocolError("a front of another version")
        else:
            channel.limit(None)
            self._serve_front(ClientConnection(channel, self._codec, hello.process_id, self._open_host, self.fronts))

    def _serve_front(self, front: ClientConnection) -> None:
        with self._changed:
            full = len(self._fronts) >= MOST_FRONTS
        if full:
            raise transport.ProtocolError(f"more than {MOST_FRONTS} editors")
        logger.info("an editor connected: process %d", front.process_id)
        self._count(lambda: self._fronts.add(front))
        try:
            front.serve()
        finally:
            if front.known.model:
                self._known = front.known
            self._count(lambda: self._fronts.discard(front))
            logger.info("an editor disconnected: process %d", front.process_id)

    def _count(self, change: Callable[[], None]) -> None:
        """Add or remove a front, and tell the others the new number."""
        with self._changed:
            change()
            self._alone_since = time.monotonic()
            fronts = tuple(self._fronts)
            self._changed.notify_all()
        for front in fronts:
            front.tell_facts()

    def _control(self, channel: Channel) -> None:
        data = channel.receive()
        asked = None if data is None else self._codec.from_client(data)
        if isinstance(asked, transport.AskFronts):
            channel.send([self._codec.encode(self._all_fronts())])
        elif isinstance(asked, transport.Stop):
            self._on_stop()
            with self._changed:
                self._changed.notify_all()
        elif asked is not None:
            raise transport.ProtocolError(f"{type(asked).__name__} from the command line")

    def _all_fronts(self) -> transport.Fronts:
        with self._changed:
            fronts = tuple(self._fronts)
        now = time.monotonic()
        # All fronts share one model, but one without questions may not know its facts.
        known = {front: front.facts() for front in fronts}
        facts = next((facts for facts in known.values() if facts.model), self._known)
        return transport.Fronts(
            process_id=os.getpid(),
            build=transport.shortened(self._build),
            model=transport.shortened(facts.succession or facts.model),
            engine=transport.shortened(facts.engine),
            resident_bytes=psutil.Process().memory_info().rss,
            running_s=now - self._started,
            fronts=tuple(
                transport.FrontAt(
                    front.process_id,
                    tuple(map(transport.encoded, front.folders)),
                    front.asking,
                    now - front.connected_s,
                    known[front].turn == "own",
                )
                for front in sorted(fronts, key=lambda front: front.connected_s)
            ),
            nice=0 if sys.platform == "win32" else max(os.getpriority(os.PRIO_PROCESS, 0), 0),
        )
