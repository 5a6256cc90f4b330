"""One front in the host's process: what it says becomes calls of a `ModelHost`, and what comes of it goes back.

Owns the connection from the greeting to its end, and the texts that the front has sent. Two threads: one reads (and is
there whatever the model does), one writes, so that whoever tells something waits for nobody. Whatever is no proper
message ends this connection, and no other one.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial, singledispatchmethod
from typing import Final

from fastcoder_lsp.completion.host import HostFacts, ModelHost, OpenHost
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import Counts
from fastcoder_lsp.host import front_messages as said
from fastcoder_lsp.host import host_messages as tell
from fastcoder_lsp.host.channel import Channel
from fastcoder_lsp.host.codec import Codec
from fastcoder_lsp.host.messages import Difference, Message, ProtocolError, decoded, encoded, told
from fastcoder_lsp.host.outbox import Outbox
from fastcoder_lsp.host.texts import GapError, KeptTexts
from fastcoder_lsp.host.values import (
    answer_message,
    facts_message,
    made_message,
    moment,
    question_value,
    settings_value,
    status_message,
    whole_path,
)

logger = logging.getLogger(__name__)

_MADE: Final = 64
"""Suggestions that wait to be sent, at most; of more, the oldest are not worth it."""
_DOCUMENTS: Final = 64
"""Documents whose slots of texts are known by their URI."""


class ConnectedFront:
    """A front that was greeted, until it goes. It is the `HostListener` of its own `ModelHost`.

    Attributes:
        process_id: of the front.
        folders: of its workspace.
        asking: whether it waits for an answer.
        connected_s: when it came, by `time.monotonic`.
        state: of the worker, as this front was told last.
        known: what its `ModelHost` said last of a model that was there.

    Args:
        channel: the connection.
        codec: of the process.
        process_id: what the front says of itself.
        open_host: what its calls go to.
        fronts: how many there are.
    """

    def __init__(
        self, channel: Channel, codec: Codec, process_id: int, open_host: OpenHost, fronts: Callable[[], int]
    ) -> None:
        self.process_id, self.folders, self.asking = process_id, tuple[bytes, ...](), False
        self.connected_s, self.state, self.known = time.monotonic(), "starting", HostFacts()
        self._channel, self._codec, self._open_host, self._fronts = channel, codec, open_host, fronts
        self._outbox, self._texts = Outbox(), KeptTexts()
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._asked = -1
        self._made = 0
        self._host: ModelHost | None = None
        self._writer = threading.Thread(target=self._write, name="fastcoder-front-writer", daemon=True)

    def serve(self) -> None:
        """Read what the front says until it goes, or says what it never should; then its share is freed.

        Raises:
            ProtocolError: that.
            OSError: the connection broke.
        """
        self._writer.start()
        try:
            while (data := self._channel.receive()) is not None:
                try:
                    self._take(self._codec.from_front(data))
                except GapError as gap:
                    self._outbox.put(tell.Again(gap.slot), key=("again", gap.slot))
        finally:
            self._outbox.close()
            self._channel.close()
            if self._host is not None:
                self._host.close(0)
            self._writer.join(1)

    def end(self) -> None:
        """End the connection, from any thread."""
        self._channel.close()

    def tell_facts(self) -> None:
        """Tell the front what is known of the host by the time this is sent."""
        self._outbox.make(self._facts, key="facts")

    def facts(self) -> HostFacts:
        """What its `ModelHost` says of itself."""
        return HostFacts() if self._host is None else self._host.facts()

    # `HostListener`, from the scheduler's thread ----------------------------------------------------------------------

    def answered(self, number: int, answer: Answer) -> None:
        """See `Listener`."""
        if number == self._asked:
            self.asking = False
        self._outbox.make(lambda: (answer_message(number, answer),), key=("answered", number))
        self.tell_facts()

    def made(self, uri: str, suggestion: Suggestion) -> None:
        """See `Listener`."""
        slot = self._slots.get(uri)
        if slot is None:
            return
        self._made += 1
        self._outbox.make(partial(self._made_messages, uri, slot, suggestion), key=("made", self._made % _MADE))

    def forgotten(self, uri: str | None) -> None:
        """See `Listener`."""
        self._outbox.put(tell.Forgotten(None if uri is None else encoded(uri)), key=("forgotten", uri))

    def counted(self, what: str, by: int) -> None:
        """See `Listener`."""
        self._outbox.put(tell.Counted(told(what), by))

    def worked(self, counts: Counts) -> None:
        """See `Listener`."""
        self._outbox.put(tell.Worked(counts))

    def told(self, status: Status) -> None:
        """See `Listener`."""
        self.state = status.state
        self._outbox.put(status_message(status), key="told")
        self.tell_facts()

    def indexing(self, done: int, total: int, *, building: bool) -> None:
        """See `HostListener`."""
        self._outbox.put(tell.Indexing(done, total, building), key="indexing")

    def notice(self, text: str) -> None:
        """See `HostListener`."""
        self._outbox.put(tell.Notice(told(text)), key=("notice", text))

    # What the front says, in the thread that reads --------------------------------------------------------------------

    @singledispatchmethod
    def _take(self, message: Message) -> None:
        raise ProtocolError(f"{type(message).__name__} from a front")

    @_take.register
    def _(self, message: Difference) -> None:
        self._texts.take(message)

    @_take.register
    def _(self, message: said.Use) -> None:
        settings = settings_value(message.settings)
        folders = {whole_path(folder.path): settings_value(folder.settings) for folder in message.folders}
        self.folders = tuple(folder.path for folder in message.folders)
        if self._host is None:
            self._host = self._open_host(self, settings, folders)
        else:
            self._host.use(settings, folders)
        self.tell_facts()

    @_take.register
    def _(self, message: said.Ask) -> None:
        question = self._question(message.question)
        self._asked, self.asking = question.number, True
        self._model().ask(question)
        if self._fronts() > 1:
            self.tell_facts()  # whose turn it is

    @_take.register
    def _(self, message: said.Expect) -> None:
        self._model().expect(self._question(message.question), known=message.known, unserved=message.unserved)

    @_take.register
    def _(self, message: said.Noticed) -> None:
        self._model().noticed(moment(message.asked_ms), answered=message.answered)

    @_take.register
    def _(self, message: said.Withdraw) -> None:
        if message.number == self._asked:
            self.asking = False
        self._model().withdraw(message.number)

    @_take.register
    def _(self, message: said.Forget) -> None:
        uri = decoded(message.uri)
        self._slots.pop(uri, None)
        self._model().forget(uri)

    @_take.register
    def _(self, message: said.Rename) -> None:
        old, new = decoded(message.old), decoded(message.new)
        if (slot := self._slots.pop(old, None)) is not None:
            self._slots[new] = slot
        self._model().rename(old, new)

    @_take.register
    def _(self, message: said.Load) -> None:
        ticket = message.ticket
        self._model().load(lambda well: self._outbox.put(tell.Loaded(ticket, bool(well))))

    @_take.register
    def _(self, _: said.Reload) -> None:
        self._model().reload()

    @_take.register
    def _(self, message: said.Enable) -> None:
        self._model().enable(enabled=message.enabled)

    @_take.register
    def _(self, message: said.DocumentChanged) -> None:
        self._model().document_changed(whole_path(message.path), self._texts.text(message.text))

    @_take.register
    def _(self, message: said.DocumentClosed) -> None:
        self._model().document_closed(whole_path(message.path))

    @_take.register
    def _(self, message: said.FilesChanged) -> None:
        self._model().files_changed([whole_path(path) for path in message.paths])

    @_take.register
    def _(self, _: said.Ping) -> None:
        self._outbox.put(tell.Pong(), key="pong")

    def _model(self) -> ModelHost:
        if self._host is None:
            raise ProtocolError("a front that has not said which settings hold")
        return self._host

    def _question(self, message: said.QuestionAt) -> Question:
        text = self._texts.text(message.text)
        neighbours = "" if message.neighbours is None else self._texts.text(message.neighbours)
        chunks = "" if message.chunks is None else self._texts.text(message.chunks)
        question = question_value(message, text, neighbours, chunks)
        self._slots[question.uri] = message.text.slot
        self._slots.move_to_end(question.uri)
        while len(self._slots) > _DOCUMENTS:
            self._slots.popitem(last=False)
        return question

    # What goes back, in the thread that writes ------------------------------------------------------------------------

    def _write(self) -> None:
        """Send what there is until the connection ends, or the front has read nothing for too long."""
        try:
            while (makers := self._outbox.take()) is not None:
                self._channel.send([self._codec.encode(message) for make in makers for message in make()])
        except OSError as error:  # it is gone, or reads nothing; the thread that reads ends with the connection
            logger.info("front %d cannot be told: %s", self.process_id, error)
        except Exception:  # a bug of ours must cost this front's connection, not the others'
            logger.exception("a front could not be told")
        finally:
            self._channel.close()

    def _made_messages(self, uri: str, slot: int, suggestion: Suggestion) -> tuple[Message, ...]:
        message = made_message(uri, suggestion, partial(self._texts.place, slot))
        return () if message is None else (message,)

    def _facts(self) -> tuple[Message, ...]:
        try:
            facts = self.facts()
        except OSError as error:  # no files left: what is not told costs nobody his connection
            logger.warning("the facts cannot be told: %s", error)
            return ()
        if facts.model:
            self.known = facts
        return (facts_message(facts, os.getpid(), self._fronts()),)
