"""Keeps a client connected, by three threads: finds or starts a host, notices its loss, and finds another one."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Answer
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.host.address import model_part
from fastcoder_lsp.host.connection import Channel, GreetedHost, Outbox
from fastcoder_lsp.host.liveness import Heartbeat, SilenceLimits, resume
from fastcoder_lsp.host.transport import Codec, FromHost, ProtocolError

logger = logging.getLogger(__name__)

HEALTHY_S = 60.0  # a host that lived this long, or answered a question, ends a series of losses
_HINT = (
    "The server tries again. To find the cause, run `fastcoder-lsp host log`. With `host.enabled = false`, each "
    "editor's server loads its own model."
)
_SAID_BEFORE_ERROR = 3  # losses in a row that are reported as a restart; more are reported as an error


Reach = Callable[[Settings], GreetedHost]
"""Connects to the host for these settings, started if there is none; OSError, ProtocolError, FastcoderError."""


class Supervised(ABC):
    """The front that a supervisor keeps connected; called from its threads."""

    @abstractmethod
    def connected(self, outbox: Outbox) -> None:
        """Send a new host the whole state."""

    @abstractmethod
    def disconnected(self) -> None:
        """Handle the connection's end; commands wait for the next host."""

    @abstractmethod
    def lost(self, answer: Answer, status: Status | None) -> None:
        """Give this answer to all open requests, and report `status` if there is one."""

    @abstractmethod
    def hear(self, message: FromHost) -> None:
        """Handle a message from the host; raises ProtocolError if it is invalid."""

    @abstractmethod
    def ping(self) -> None:
        """Send a ping."""

    @abstractmethod
    def settings(self) -> Settings:
        """The current settings."""

    @abstractmethod
    def awaited(self) -> bool:
        """Whether a request waits for the host."""

    @abstractmethod
    def invoked(self) -> bool:
        """Whether a request by key waits for the host."""

    @abstractmethod
    def loading(self) -> bool:
        """Whether the host loads a model, by its last message."""


@dataclass(frozen=True, slots=True)
class _HostFailure:
    """Why there is no host, and what the user can do about it, if anything."""

    why: str
    hint: str = ""


class ConnectionSupervisor:
    """Keeps one front connected."""

    def __init__(
        self, supervised: Supervised, reach: Reach, patience: SilenceLimits, pauses_s: tuple[float, ...]
    ) -> None:
        self._supervised, self._reach, self._patience, self._pauses_s = supervised, reach, patience, pauses_s
        self._codec = Codec()
        self._news = threading.Condition()
        self._channel: Channel | None = None
        self._outbox: Outbox | None = None
        self._heartbeat: Heartbeat | None = None
        self._closed = self._moved = self._served = False
        self._thread = threading.Thread(target=self._run, name="fastcoder-host-link", daemon=True)

    def start(self) -> None:
        """Start to look for a host."""
        self._thread.start()

    def awaiting(self) -> None:
        """Note that a request waits for the host."""
        with self._news:
            heartbeat = self._heartbeat
            self._news.notify_all()
        if heartbeat is not None:
            heartbeat.awaiting()

    def served(self) -> None:
        """Note that the host has answered a question."""
        self._served = True

    def settings_changed(self, before: Settings, now: Settings) -> None:
        """Connect to another host if the settings name another model."""
        if model_part(before) == model_part(now):
            return
        with self._news:
            self._moved = True
            self._news.notify_all()
            if self._channel is not None:
                self._channel.close()

    def close(self, wait_s: float) -> None:
        """Send the queued messages, and end."""
        with self._news:
            self._closed = True
            self._news.notify_all()
            if self._outbox is not None:
                self._outbox.close()
        self._thread.join(wait_s)
        with self._news:
            if self._channel is not None:
                self._channel.close()

    def _run(self) -> None:
        losses = 0
        while not self._ends():
            loss = self._once()
            if self._ends():
                return
            with self._news:
                moved, self._moved = self._moved, False
                losses = 0 if self._served or moved else losses
                self._served = False
            if moved:
                continue
            pause_s = self._pauses_s[min(losses, len(self._pauses_s) - 1)]
            losses += 1
            self._rest(pause_s, loss.why, _status(loss, losses))

    def _once(self) -> "_HostFailure":
        """Serve one host from its greeting to its end; returns why it ended."""
        try:
            reached = self._reach(self._supervised.settings())
        except (OSError, ProtocolError) as error:
            return _HostFailure(f"the shared process cannot be reached ({error})")
        except FastcoderError as error:
            return _HostFailure(error.message, error.hint)
        except Exception as error:  # a bug costs one attempt: open requests are answered, and the next one follows
            logger.exception("no host")
            return _HostFailure(f"the shared process cannot start ({type(error).__name__})")
        return _HostFailure(self._serve(reached))

    def _serve(self, reached: GreetedHost) -> str:
        channel, outbox = reached.channel, Outbox()
        heartbeat = Heartbeat(
            self._supervised.awaited,
            self._supervised.loading,
            self._supervised.ping,
            lambda: reached.process is not None and resume(reached.process.pid),
            lambda: self._supervised.lost(Answer("failed", (), "error", reasons.host_lost("it does not answer")), None),
            lambda: _end(reached),
            self._patience,
        )
        with self._news:
            if self._closed or self._moved:
                channel.close()
                heartbeat.close()
                return "not wanted any more"
            self._channel, self._outbox, self._heartbeat = channel, outbox, heartbeat
        began = time.monotonic()
        writer = threading.Thread(target=self._write, args=(channel, outbox), name="fastcoder-host-writer", daemon=True)
        self._supervised.connected(outbox)
        writer.start()
        try:
            why = self._read(channel, heartbeat)
        finally:
            self._supervised.disconnected()
            with self._news:
                self._channel = self._outbox = self._heartbeat = None
            heartbeat.close()
            outbox.close()
            channel.close()
            writer.join(1)
        self._served = self._served or time.monotonic() - began > HEALTHY_S
        return why

    def _read(self, channel: Channel, heartbeat: Heartbeat) -> str:
        try:
            while (data := channel.receive()) is not None:
                heartbeat.heard()
                self._supervised.hear(self._codec.from_host(data))
        except OSError as error:
            return f"the connection to the shared process broke ({error.strerror or type(error).__name__})"
        except ProtocolError as error:
            logger.error("the host says what it never should: %s", error)  # noqa: TRY400 it says where
            return "the shared process sent an invalid message"
        return "the shared process ended"

    def _write(self, channel: Channel, outbox: Outbox) -> None:
        try:
            channel.write(outbox, self._codec)
        except OSError:
            pass  # the reader thread reports it
        except Exception:  # a bug costs this connection, which `finally` ends
            logger.exception("the host could not be told")
        finally:
            channel.close()

    def _rest(self, pause_s: float, why: str, status: Status) -> None:
        """Wait until the next attempt; a request by key ends the pause, all others in it are answered at once."""
        answer = Answer("failed", (), "error", reasons.host_lost(why))
        logger.warning("%s; another one is started in %g s", why, pause_s)
        self._supervised.lost(answer, status)
        until = time.monotonic() + pause_s
        while (left_s := until - time.monotonic()) > 0:
            with self._news:
                if self._closed or self._moved:
                    return
                if not self._supervised.awaited():
                    self._news.wait(left_s)
            if self._supervised.invoked():
                return
            if self._supervised.awaited():
                self._supervised.lost(answer, None)

    def _ends(self) -> bool:
        return self._closed


def _status(loss: _HostFailure, losses: int) -> Status:
    # The same text for the same cause, however often it is tried: users see it once.
    if losses <= _SAID_BEFORE_ERROR and not loss.hint:
        return Status("loading", 0, f"{loss.why}; restarting")
    return Status("error", message=loss.why, hint=loss.hint or _HINT)


def _end(reached: GreetedHost) -> None:
    with suppress(psutil.Error):
        if reached.process is not None and reached.process.is_running():
            reached.process.kill()
    reached.channel.close()
