"""One front in the host's process: passes its messages to a `ModelHost` as commands, and events back to it.

One thread reads, and answers pings while the model works. Another thread writes, so that the scheduler never waits for
a slow front. An invalid message ends this connection alone.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from msgspec import structs

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Reason, StepTrace
from fastcoder_lsp.edits.values import EditAnswer
from fastcoder_lsp.host import transport
from fastcoder_lsp.host.connection import Channel, Outbox
from fastcoder_lsp.host.texts import GapError, KeptTexts, with_places, with_texts
from fastcoder_lsp.workspace.document import OpenTexts

logger = logging.getLogger(__name__)

Said = TypeVar("Said", Reason, Status)

_MADE: Final = 64  # most suggestions that wait to be sent; beyond that, the oldest are dropped
_DOCUMENTS: Final = 64  # most documents whose text slots are known by URI


class ClientConnection:
    """The connection of a greeted front.

    Attributes:
        asking: whether it waits for an answer.
        connected_s: the time of the greeting, by `time.monotonic`.
        state: the worker's state that was last sent to this front.
        exhausted: whether this front was told that the process ran out of memory.
        known: the last facts of its `ModelHost` about a loaded model.
    """

    def __init__(
        self,
        channel: Channel,
        codec: transport.Codec,
        process_id: int,
        open_host: protocol.OpenHost,
        fronts: Callable[[], int],
    ) -> None:
        self.process_id, self.folders, self.asking = process_id, tuple[str, ...](), False
        self.connected_s, self.state, self.known = time.monotonic(), "starting", protocol.HostFacts()
        self.exhausted = False
        self._channel, self._codec, self._open_host, self._fronts = channel, codec, open_host, fronts
        self._outbox, self._texts, self._documents = Outbox(), KeptTexts(), OpenTexts()
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._asked = -1
        self._made = 0
        self._host: protocol.ModelHost | None = None
        self._writer = threading.Thread(target=self._write, name="fastcoder-front-writer", daemon=True)

    def serve(self) -> None:
        """Pass commands on until the front leaves (or OSError, ProtocolError); then free its resources."""
        self._writer.start()
        try:
            while (data := self._channel.receive()) is not None:
                command = self._command(self._codec.from_client(data))
                if command is None:
                    continue
                if self._host is None:
                    raise transport.ProtocolError("a front that has not said which settings hold")
                self._follow(command)
                command.follow_in(self._documents)
                self._host.send(command)
                if isinstance(command, protocol.Ask) and self._fronts() > 1:
                    self.tell_facts()  # they say whose turn it is
        finally:
            self._outbox.close()
            self._channel.close()
            if self._host is not None:
                self._host.close(0)
            self._writer.join(1)

    def tell_facts(self) -> None:
        """Send the front the host's facts as of the moment of sending."""
        self._outbox.make(self._facts, key="facts")

    def facts(self) -> protocol.HostFacts:
        """The facts that its `ModelHost` reports."""
        return protocol.HostFacts() if self._host is None else self._host.facts()

    def on(self, event: protocol.Event) -> None:
        """Send an event to the front; called from the scheduler's thread."""
        if isinstance(event, protocol.Answered) and event.number == self._asked:
            self.asking = False
        elif isinstance(event, protocol.StatusChanged):
            self.state, self.exhausted = event.status.state, self.exhausted or event.status.exhausted
        if isinstance(event, protocol.Made):
            self._send_made(event)
        else:
            self._outbox.make(lambda: (_bounded_event(event),), key=event.key())
        if isinstance(event, protocol.Answered | protocol.StatusChanged | protocol.Succession):
            self.tell_facts()

    def _send_made(self, event: protocol.Made) -> None:
        if (slot := self._slots.get(event.uri)) is not None:
            self._made += 1
            self._outbox.make(lambda: self._made_messages(event, slot), key=("made", self._made % _MADE))

    # Messages from the front, in the reader thread --------------------------------------------------------------------

    def _command(self, message: transport.FromClient) -> protocol.Command | None:
        """The command in a message; None for a message to the connection itself, which is handled."""
        try:
            match message:
                case transport.WithTexts(bare, text):
                    command = with_texts(message, self._texts)
                    if isinstance(bare, protocol.Ask | protocol.Expect):
                        self._keep_slot(bare.question.uri, text.slot)
                    return command
                case transport.Difference():
                    self._texts.take(message)
                case transport.UseTables():
                    self._use(message)
                case transport.Ping():
                    self._outbox.put(transport.Pong(), key="pong")
                case transport.Hello() | transport.AskFronts() | transport.Stop() | transport.Escaped():
                    raise transport.ProtocolError(f"{type(message).__name__} from a front")
                case _:
                    return message
        except GapError as gap:
            self._outbox.put(transport.Again(gap.slot), key=("again", gap.slot))
        return None

    def _use(self, message: transport.UseTables) -> None:
        settings = transport.settings_of(message.settings)
        folders = {transport.whole_path(path): transport.settings_of(table) for path, table in message.folders.items()}
        self.folders = tuple(message.folders)
        if self._host is None:
            self._host = self._open_host(self.on, settings, folders, self._documents)
        else:
            self._host.send(protocol.Use(settings, folders))
        self.tell_facts()

    def _keep_slot(self, uri: str, slot: int) -> None:
        self._slots[uri] = slot
        self._slots.move_to_end(uri)
        while len(self._slots) > _DOCUMENTS:
            self._slots.popitem(last=False)

    def _follow(self, command: protocol.Command) -> None:
        """Note the open question, and the names of documents."""
        match command:
            case protocol.Ask(Question(number)):
                self._asked, self.asking = number, True
            case protocol.Withdraw(number) if number == self._asked:
                self.asking = False
            case protocol.Forget(uri):
                self._slots.pop(uri, None)
            case protocol.Rename(old, new) if (known := self._slots.pop(old, None)) is not None:
                self._slots[new] = known

    # Messages to the front, in the writer thread ----------------------------------------------------------------------

    def _write(self) -> None:
        """Send messages until the connection ends, or the front has read nothing for too long."""
        try:
            self._channel.write(self._outbox, self._codec)
        except OSError as error:  # it is gone, or reads nothing; the reader thread ends with the connection
            logger.info("cannot write to the editor of process %d: %s", self.process_id, error)
        except Exception:  # a bug must cost this front's connection alone
            logger.exception("writing to an editor failed")
        finally:
            self._channel.close()

    def _made_messages(self, made: protocol.Made, slot: int) -> Iterable[protocol.Message]:
        suggestion = made.suggestion
        if (work := suggestion.work) is not None:
            work = replace(work, trace=_undrawn(work.trace), context=tuple(map(transport.shortened, work.context)))
        suggestion = replace(suggestion, work=work, reason=suggestion.reason and _bounded(suggestion.reason))
        message = with_places(protocol.Made(made.uri, suggestion), slot, self._texts)
        return () if message is None else (message,)

    def _facts(self) -> Iterable[protocol.Message]:
        try:
            facts = self.facts()
        except OSError as error:  # no file descriptors left: an unsent message ends no connection
            logger.warning("cannot tell an editor the state of this process: %s", error)
            return ()
        if facts.model:
            self.known = facts
        facts = replace(
            facts,
            model=transport.shortened(facts.model),
            engine=transport.shortened(facts.engine),
            succession=transport.shortened(facts.succession),
        )
        return (transport.Facts(replace(facts, process_id=os.getpid(), fronts=self._fronts())),)


def _bounded_event(event: protocol.Event) -> protocol.Event:
    """The event with texts that are no longer than messages may be."""
    match event:
        case protocol.Answered(number, answer):
            return protocol.Answered(number, _bounded_answer(answer))
        case protocol.StatusChanged(status):
            return protocol.StatusChanged(_bounded(status))
        case protocol.EditModelChanged(status):
            return protocol.EditModelChanged(_bounded(status))
        case protocol.Notice(text):
            return protocol.Notice(transport.shortened(text))
        case protocol.Succession(answering, following, what, percent):
            shortened = transport.shortened
            return protocol.Succession(shortened(answering), shortened(following), shortened(what), percent)
        case _:
            return event


def _bounded_answer(answer: Answer | EditAnswer) -> Answer | EditAnswer:
    reason, shortened = answer.reason and _bounded(answer.reason), transport.shortened
    if isinstance(answer, EditAnswer):
        return structs.replace(answer, reason=reason, source=shortened(answer.source))
    return structs.replace(
        answer,
        reason=reason,
        model=shortened(answer.model),
        engine=shortened(answer.engine),
        trace=_undrawn(answer.trace),
        context=tuple(map(shortened, answer.context)),
    )


def _bounded(value: Said) -> Said:
    if isinstance(value, Reason):
        return replace(value, text=transport.shortened(value.text), hint=transport.shortened(value.hint))
    return replace(value, message=transport.shortened(value.message), hint=transport.shortened(value.hint))


def _undrawn(trace: tuple[StepTrace, ...]) -> tuple[StepTrace, ...]:
    return tuple(replace(step, tree=replace(step.tree, draws=())) if step.tree.draws else step for step in trace)
