"""One front in the host's process: passes its messages to a `ModelHost` as commands, and events back to it.

Owns the connection from the greeting to its end, and the texts that the front has sent. One thread reads, and answers
pings while the model works. Another thread writes, so that the scheduler never waits for a slow front. An invalid
message ends this connection alone.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from fastcoder_lsp.completion.protocol import (
    Answered,
    Ask,
    Command,
    EditAnswered,
    Event,
    Expect,
    Forget,
    Forgotten,
    HostFacts,
    Indexing,
    Made,
    Message,
    ModelHost,
    Notice,
    OpenHost,
    Rename,
    StatusChanged,
    Succession,
    Use,
    Withdraw,
)
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.core import Reason, StepTrace
from fastcoder_lsp.host.connection import Channel, Outbox
from fastcoder_lsp.host.texts import GapError, KeptTexts, with_places, with_texts
from fastcoder_lsp.host.transport import (
    Again,
    AskFronts,
    Codec,
    Difference,
    Escaped,
    Facts,
    FromClient,
    Hello,
    Ping,
    Pong,
    ProtocolError,
    Stop,
    UseTables,
    WithTexts,
    settings_of,
    told,
    whole_path,
)
from fastcoder_lsp.workspace.document import OpenTexts

logger = logging.getLogger(__name__)

Said = TypeVar("Said", Reason, Status)

_MADE: Final = 64
"""Most suggestions that wait to be sent; beyond that, the oldest are dropped."""
_DOCUMENTS: Final = 64
"""Most documents whose text slots are known by URI."""


class ClientConnection:
    """The connection of a greeted front.

    Attributes:
        asking: whether it waits for an answer.
        connected_s: the time of the greeting, by `time.monotonic`.
        state: the worker's state that was last sent to this front.
        known: the last facts of its `ModelHost` about a loaded model.
    """

    def __init__(
        self, channel: Channel, codec: Codec, process_id: int, open_host: OpenHost, fronts: Callable[[], int]
    ) -> None:
        self.process_id, self.folders, self.asking = process_id, tuple[str, ...](), False
        self.connected_s, self.state, self.known = time.monotonic(), "starting", HostFacts()
        self._channel, self._codec, self._open_host, self._fronts = channel, codec, open_host, fronts
        self._outbox, self._texts = Outbox(), KeptTexts()
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._asked = -1
        self._made = 0
        self._host: ModelHost | None = None
        self._writer = threading.Thread(target=self._write, name="fastcoder-front-writer", daemon=True)

    def serve(self) -> None:
        """Handle the front's messages until it leaves or sends an invalid one; then free its resources.

        Raises:
            ProtocolError: it sent an invalid message.
            OSError: the connection broke.
        """
        self._writer.start()
        try:
            while (data := self._channel.receive()) is not None:
                try:
                    self._take(self._codec.from_client(data))
                except GapError as gap:
                    self._outbox.put(Again(gap.slot), key=("again", gap.slot))
        finally:
            self._outbox.close()
            self._channel.close()
            if self._host is not None:
                self._host.close(0)
            self._writer.join(1)

    def tell_facts(self) -> None:
        """Send the front the host's facts as of the moment of sending."""
        self._outbox.make(self._facts, key="facts")

    def facts(self) -> HostFacts:
        """The facts that its `ModelHost` reports."""
        return HostFacts() if self._host is None else self._host.facts()

    def on(self, event: Event) -> None:  # noqa: C901 a case for each event
        """Send an event to the front; called from the scheduler's thread."""
        match event:
            case Answered(number):
                if number == self._asked:
                    self.asking = False
                self._outbox.make(lambda: (_bounded_answer(event),), key=("answered", number))
                self.tell_facts()
            case EditAnswered(number, answer):
                reason = answer.reason and _bounded(answer.reason)
                answer = replace(answer, reason=reason, source=told(answer.source))
                self._outbox.put(EditAnswered(number, answer), key=("edit", number))
            case Made(uri):
                if (slot := self._slots.get(uri)) is not None:
                    self._made += 1
                    self._outbox.make(lambda: self._made_messages(event, slot), key=("made", self._made % _MADE))
            case Forgotten(uri):
                self._outbox.put(event, key=("forgotten", uri))
            case StatusChanged(status):
                self.state = status.state
                self._outbox.put(StatusChanged(_bounded(status)), key="status")
                self.tell_facts()
            case Indexing():
                self._outbox.put(event, key="indexing")
            case Notice(text):
                self._outbox.put(Notice(told(text)), key=("notice", text))
            case Succession():
                texts = told(event.answering), told(event.following), told(event.what)
                self._outbox.put(Succession(*texts, event.percent), key="succession")
                self.tell_facts()
            case _:
                self._outbox.put(event)

    # Messages from the front, in the reader thread --------------------------------------------------------------------

    def _take(self, message: FromClient) -> None:
        match message:
            case Difference():
                self._texts.take(message)
            case UseTables():
                self._use(message)
            case Ping():
                self._outbox.put(Pong(), key="pong")
            case WithTexts():
                self._send(with_texts(message, self._texts), message.text.slot)
            case Hello() | AskFronts() | Stop() | Escaped():
                raise ProtocolError(f"{type(message).__name__} from a front")
            case _:
                self._send(message)

    def _use(self, message: UseTables) -> None:
        settings = settings_of(message.settings)
        folders = {whole_path(path): settings_of(table) for path, table in message.folders.items()}
        self.folders = tuple(message.folders)
        if self._host is None:
            self._host = self._open_host(self.on, settings, folders, OpenTexts())
        else:
            self._host.send(Use(settings, folders))
        self.tell_facts()

    def _send(self, command: Command, slot: int = -1) -> None:
        if self._host is None:
            raise ProtocolError("a front that has not said which settings hold")
        match command:
            case Ask(question) | Expect(question):
                self._slots[question.uri] = slot
                self._slots.move_to_end(question.uri)
                while len(self._slots) > _DOCUMENTS:
                    self._slots.popitem(last=False)
                if isinstance(command, Ask):
                    self._asked, self.asking = question.number, True
            case Withdraw(number) if number == self._asked:
                self.asking = False
            case Forget(uri):
                self._slots.pop(uri, None)
            case Rename(old, new) if (known := self._slots.pop(old, None)) is not None:
                self._slots[new] = known
        self._host.send(command)
        if isinstance(command, Ask) and self._fronts() > 1:
            self.tell_facts()  # they say whose turn it is

    # Messages to the front, in the writer thread ----------------------------------------------------------------------

    def _write(self) -> None:
        """Send messages until the connection ends, or the front has read nothing for too long."""
        try:
            while (makers := self._outbox.take()) is not None:
                self._channel.send([self._codec.encode(message) for make in makers for message in make()])
        except OSError as error:  # it is gone, or reads nothing; the reader thread ends with the connection
            logger.info("cannot write to the editor of process %d: %s", self.process_id, error)
        except Exception:  # a bug must cost this front's connection alone
            logger.exception("writing to an editor failed")
        finally:
            self._channel.close()

    def _made_messages(self, made: Made, slot: int) -> Iterable[Message]:
        suggestion = made.suggestion
        if (work := suggestion.work) is not None:
            work = replace(work, trace=_undrawn(work.trace), context=tuple(map(told, work.context)))
        suggestion = replace(suggestion, work=work, reason=suggestion.reason and _bounded(suggestion.reason))
        message = with_places(Made(made.uri, suggestion), slot, self._texts)
        return () if message is None else (message,)

    def _facts(self) -> Iterable[Message]:
        try:
            facts = self.facts()
        except OSError as error:  # no file descriptors left: an unsent message ends no connection
            logger.warning("cannot tell an editor the state of this process: %s", error)
            return ()
        if facts.model:
            self.known = facts
        facts = replace(facts, model=told(facts.model), engine=told(facts.engine), succession=told(facts.succession))
        return (Facts(replace(facts, process_id=os.getpid(), fronts=self._fronts())),)


def _bounded_answer(event: Answered) -> Answered:
    answer = event.answer
    bounded = replace(
        answer,
        reason=answer.reason and _bounded(answer.reason),
        model=told(answer.model),
        engine=told(answer.engine),
        trace=_undrawn(answer.trace),
        context=tuple(map(told, answer.context)),
    )
    return Answered(event.number, bounded)


def _bounded(value: Said) -> Said:
    """The value with its user-visible texts bounded as in messages."""
    if isinstance(value, Reason):
        return replace(value, text=told(value.text), hint=told(value.hint))
    return replace(value, message=told(value.message), hint=told(value.hint))


def _undrawn(trace: tuple[StepTrace, ...]) -> tuple[StepTrace, ...]:
    """The trace without the draws of sampled drafts."""
    return tuple(replace(step, tree=replace(step.tree, draws=())) if step.tree.draws else step for step in trace)
