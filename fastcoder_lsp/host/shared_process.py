"""`ModelHost` over a connection: every command queues a message; `supervisor` finds a host, and the next one."""

import logging
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from typing_extensions import override

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.open_questions import OpenQuestions
from fastcoder_lsp.completion.question import Answer
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host import transport
from fastcoder_lsp.host.connection import Maker, Outbox
from fastcoder_lsp.host.liveness import SilenceLimits
from fastcoder_lsp.host.supervisor import ConnectionSupervisor, Reach, Supervised
from fastcoder_lsp.host.texts import MessageBuilder
from fastcoder_lsp.workspace.document import OpenTexts

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class DesiredState:
    """The state that a new host must be told."""

    settings: Settings
    folders: Mapping[Path, Settings]
    enabled: bool
    texts: OpenTexts
    questions: OpenQuestions = field(default_factory=OpenQuestions)
    loads: dict[int, protocol.Load] = field(default_factory=dict)
    search: protocol.SearchElsewhere | None = None
    ready: bool = False  # the model was loaded, so that a new host loads it at once

    def apply(self, command: protocol.Command) -> None:
        """Follow a command."""
        self.questions.apply(command)
        if isinstance(command, protocol.Load):
            self.loads[command.ticket] = command
        elif isinstance(command, protocol.SearchElsewhere):
            self.search = command
        elif isinstance(command, protocol.Use):
            self.settings, self.folders = command.settings, dict(command.folders)
        elif isinstance(command, protocol.Enable):
            self.enabled = command.enabled

    def commands(self) -> Iterator[protocol.Command]:
        """The commands for a new host."""
        yield protocol.Use(self.settings, self.folders)
        if self.enabled != self.settings.enabled:
            yield protocol.Enable(self.enabled)
        for path, text in self.texts.copy().items():
            yield protocol.DocumentChanged(path, text)
        for ticket in sorted(self.loads):
            yield protocol.Load(ticket)
        if self.ready and self.enabled:
            yield protocol.Load(0)  # no request waits for it
        yield from self.question_commands()
        if self.search is not None:
            yield self.search

    def question_commands(self) -> Iterator[protocol.Command]:
        """The open questions, and the place where a client waits for a late text."""
        if self.questions.unserved is not None:
            yield protocol.Expect(self.questions.unserved, known=False, unserved=True)
        yield from map(protocol.Ask, self.questions.asked())

    def close(self, event: protocol.Event) -> bool:
        """Close the question or `Load` that an event answers; returns whether it was open."""
        match event:
            case protocol.Answered(number):
                return self.questions.close(number)
            case protocol.LoadFinished(ticket):
                return self.loads.pop(ticket, None) is not None
            case protocol.FoundElsewhere(number) if self.search is not None and self.search.question.number == number:
                self.search = None
                return True
        return False

    def take_all(self) -> list[protocol.Command]:
        """Close the open questions, `Load`s and search, and return their commands for the caller to answer."""
        asked, loads, searches = self.questions.asked(), self.loads, [self.search] if self.search else []
        self.questions.completion, self.questions.edit, self.loads, self.search = None, None, {}, None
        return [*map(protocol.Ask, asked), *(loads[one] for one in sorted(loads)), *searches]


class SharedProcessHost(Supervised):
    """The shared process, as a front sees it; started if there is none, and again if it dies.

    Args:
        listener: receives the events, in the connection's thread.
        reach: connects to the host for these settings, and starts it if there is none.
        patience: how long a host may be silent while a request waits for it.
        pauses_s: pauses between a lost host and the next one, in order.
    """

    def __init__(
        self,
        listener: protocol.HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts,
        reach: Reach,
        patience: SilenceLimits = SilenceLimits(),  # noqa: B008 a frozen value
        pauses_s: tuple[float, ...] = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
    ) -> None:
        self._listener = listener
        self._lock = threading.RLock()
        self._desired = DesiredState(settings, dict(folders), settings.enabled, texts)
        self._outbox: Outbox | None = None
        self._builder = MessageBuilder()
        self._facts = protocol.HostFacts(shared=True)
        self._status = Status("starting")
        self._supervisor = ConnectionSupervisor(self, reach, patience, pauses_s)
        self._supervisor.start()

    # `ModelHost`, from any thread -------------------------------------------------------------------------------------

    def send(self, command: protocol.Command) -> None:
        """Queue a message, and remember the command for the next host."""
        with self._lock:
            before = self._desired.settings
            self._desired.apply(command)
            if self._outbox is not None:
                self._outbox.make(*self._message(command))
        if isinstance(command, protocol.Ask | protocol.Load):
            self._supervisor.awaiting()
        elif isinstance(command, protocol.Use):
            self._supervisor.settings_changed(before, command.settings)

    def facts(self) -> protocol.HostFacts:
        """The facts that the host reported last."""
        return self._facts

    def close(self, wait_s: float) -> None:
        """Send the queued messages, and end; open requests are answered."""
        self._supervisor.close(wait_s)
        self.lost(Answer.failed(None), None)

    # For the supervisor, from its threads -----------------------------------------------------------------------------

    @override
    def connected(self, outbox: Outbox) -> None:
        with self._lock:
            self._outbox, self._builder = outbox, MessageBuilder()
            for command in self._desired.commands():
                outbox.make(*self._message(command))

    @override
    def disconnected(self) -> None:
        with self._lock:
            self._outbox = None

    @override
    def lost(self, answer: Answer, status: Status | None) -> None:
        with self._lock:
            asked = self._desired.take_all()
        if status is not None:
            self._status_changed(protocol.StatusChanged(status))
        self._tell(protocol.EditModelChanged(Status("starting")))
        for command in asked:
            if (event := command.refused(answer)) is not None:
                self._tell(event)

    @override
    def ping(self) -> None:
        with self._lock:
            if self._outbox is not None:
                self._outbox.put(transport.Ping(), key="ping")

    @override
    def settings(self) -> Settings:
        return self._desired.settings

    @override
    def awaited(self) -> bool:
        return self._desired.questions.completion is not None or bool(self._desired.loads)

    @override
    def invoked(self) -> bool:
        question = self._desired.questions.completion
        return question is not None and question.request.invoked

    @override
    def loading(self) -> bool:
        return self._status.state in {"starting", "loading"}

    @override
    def hear(self, message: transport.FromHost) -> None:
        match message:
            case transport.WithPlaces():
                if (made := self._builder.made(message)) is not None:
                    self._tell(made)
            case transport.Facts(facts):
                before, self._facts = self._facts.company, replace(facts, shared=True, asks="")
                if before != self._facts.company:
                    self._tell(protocol.StatusChanged(self._status))  # its text names the number of clients
            case transport.Again(slot):
                self._lost_text(slot)
            case transport.Welcome() | transport.Fronts() | transport.Escaped():
                raise transport.ProtocolError(f"{type(message).__name__} from a host")
            case transport.Pong():
                pass  # its arrival is all that counts
            case protocol.StatusChanged():
                self._status_changed(message)
            case _:
                self._hear_event(message)

    def _hear_event(self, event: protocol.Event) -> None:
        with self._lock:
            awaited = self._desired.close(event)
        if isinstance(event, protocol.LoadFinished) and not awaited:
            return
        match event:
            case protocol.Answered(_, Answer(outcome=outcome)) if awaited and outcome != "failed":
                self._supervisor.served()
        self._tell(event)

    def _message(self, command: protocol.Command) -> tuple[Maker, Hashable]:
        return partial(self._messages, self._builder, command), command.key()

    def _messages(self, builder: MessageBuilder, command: protocol.Command) -> Iterable[protocol.Message]:
        """The messages of a command when it is sent; a question that was answered or withdrawn has none."""
        if isinstance(command, protocol.Ask) and not self._desired.questions.has(command.question.number):
            return ()
        if isinstance(command, protocol.Use):  # send the current settings
            command = protocol.Use(self._desired.settings, self._desired.folders)
        return builder.messages(command)

    def _lost_text(self, slot: int) -> None:
        """Send the commands again that refer to a text which the host has lost."""
        name = self._builder.texts.again(slot)
        if name is None:
            return
        with self._lock:
            texts = self._desired.texts.copy().items()
            again = [protocol.DocumentChanged(path, text) for path, text in texts if str(path) == name]
            for command in (*again, *self._desired.question_commands()):
                if self._outbox is not None:
                    self._outbox.make(*self._message(command))

    def _status_changed(self, event: protocol.StatusChanged) -> None:
        state = event.status.state
        self._status = event.status
        self._desired.ready = state in {"ready", "thinking"} or (self._desired.ready and state != "off")
        self._tell(event)

    def _tell(self, event: protocol.Event) -> None:
        try:
            self._listener(event)
        except Exception:  # a listener's bug must not end the connection
            logger.exception("a listener failed")
