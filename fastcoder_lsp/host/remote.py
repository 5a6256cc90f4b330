"""`ModelHost` over a connection: the front's side of the process that has the model.

Owns what the host is told and in which order, and what its words mean. Every verb leaves a message and returns; the
connection's life (finding a host, losing it, another one) is `link`'s.
"""

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial, singledispatchmethod
from pathlib import Path

from fastcoder_lsp.completion.host import HostFacts, HostListener
from fastcoder_lsp.completion.question import Answer, Question
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.host import front_messages as say
from fastcoder_lsp.host import host_messages as heard
from fastcoder_lsp.host.heartbeat import Patience
from fastcoder_lsp.host.link import Link, Reach
from fastcoder_lsp.host.messages import MOST_NAMES, Message, ProtocolError, decoded, encoded
from fastcoder_lsp.host.outbox import Maker, Outbox
from fastcoder_lsp.host.telling import Telling
from fastcoder_lsp.host.values import answer_value, facts_value, made_value, status_value
from fastcoder_lsp.host.wanted import Wanted

logger = logging.getLogger(__name__)


class RemoteHost:
    """A host in another process, started where there is none, and started again where it dies.

    Args:
        listener: told what comes of it all, by the connection's thread.
        settings: of the model.
        folders: of the workspace, with their settings.
        reach: connects to the host for these settings, and starts it where there is none.
        patience: how long a host may be silent while somebody waits for it.
        pauses_s: between a lost host and the next one, the first after the first loss.
    """

    def __init__(
        self,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        reach: Reach,
        patience: Patience = Patience(),  # noqa: B008 a frozen value
        pauses_s: tuple[float, ...] = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
    ) -> None:
        self._listener = listener
        self._lock = threading.RLock()
        self._wanted = Wanted(settings, dict(folders), settings.enabled)
        self._outbox: Outbox | None = None
        self._telling = Telling(self._wanted)
        self._facts = HostFacts(shared=True)
        self._status = Status("starting")
        self._link = Link(self, reach, patience, pauses_s)
        self._link.start()

    # `ModelHost`, from any thread -------------------------------------------------------------------------------------

    def ask(self, question: Question) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.question, self._wanted.upcoming = question, None
            self._say(partial(self._telling.ask, question), "question")
        self._link.awaiting()

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """See `ModelHost`."""
        with self._lock:
            if answered:
                self._wanted.upcoming = None
            self._say(lambda: (say.Noticed(asked_ms, answered),), "noticed")

    def withdraw(self, number: int) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.take_question(number)
            self._say(lambda: (say.Withdraw(number),), ("withdraw", number))

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.upcoming = question if unserved else None
            self._say(partial(self._telling.expect, question, known=known, unserved=unserved), "expect")

    def forget(self, uri: str) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.forget(uri)
            self._say(lambda: (say.Forget(encoded(uri)),))

    def rename(self, old: str, new: str) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.rename(old, new)
            self._say(lambda: (say.Rename(encoded(old), encoded(new)),))

    def load(self, reply: Callable[[bool], object]) -> None:
        """See `ModelHost`."""
        with self._lock:
            ticket = self._wanted.ticket(reply)
            self._say(partial(_messages, say.Load(ticket)))
        self._link.awaiting()

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """See `ModelHost`; where another model is wanted, that is another host's."""
        with self._lock:
            before, self._wanted.settings = self._wanted.settings, settings
            self._wanted.folders = dict(folders)
            self._say(self._telling.use, "use")
        self._link.settings_changed(before, settings)

    def reload(self) -> None:
        """See `ModelHost`."""
        self._say(partial(_messages, say.Reload()), "reload")

    def enable(self, *, enabled: bool) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.enabled = enabled
            self._say(partial(_messages, say.Enable(enabled)), "enable")

    def document_changed(self, path: Path, text: str) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.documents[path] = text
            self._say(partial(self._telling.document, path), ("document", path))

    def document_closed(self, path: Path) -> None:
        """See `ModelHost`."""
        with self._lock:
            self._wanted.documents.pop(path, None)
            self._say(lambda: (say.DocumentClosed(encoded(str(path))),), ("document", path))

    def files_changed(self, paths: Iterable[Path]) -> None:
        """See `ModelHost`."""
        names = [encoded(str(path)) for path in paths]
        for start in range(0, len(names), MOST_NAMES):
            self._say(partial(_messages, say.FilesChanged(names[start : start + MOST_NAMES])))

    def facts(self) -> HostFacts:
        """See `ModelHost`."""
        return self._facts

    def close(self, wait_s: float) -> None:
        """See `ModelHost`."""
        self._link.close(wait_s)
        self.lost(Answer.failed(None), None)

    # For the link, from its threads -----------------------------------------------------------------------------------

    def connected(self, outbox: Outbox) -> None:
        """There is a host that knows nothing: it is told everything."""
        with self._lock:
            wanted, self._outbox, self._telling = self._wanted, outbox, Telling(self._wanted)
            self._say(self._telling.use, "use")
            if wanted.enabled != wanted.settings.enabled:
                self._say(partial(_messages, say.Enable(wanted.enabled)), "enable")
            for path in wanted.documents:
                self._say(partial(self._telling.document, path), ("document", path))
            for ticket in [*wanted.loads, *([0] if wanted.ready and wanted.enabled else [])]:
                self._say(partial(_messages, say.Load(ticket)))
            self._say_questions()

    def disconnected(self) -> None:
        """There is none; what is wanted waits."""
        with self._lock:
            self._outbox = None

    def lost(self, answer: Answer, status: Status | None) -> None:
        """Who waits gets this answer now; `status` is told, where there is one."""
        with self._lock:
            question, loads = self._wanted.take_question(), self._wanted.take_loads()
        if status is not None:
            self._tell(lambda: self._told(status))
        if question is not None:
            self._tell(lambda: self._listener.answered(question.number, answer))
        for reply in loads:
            self._tell(partial(reply, False))

    def ping(self) -> None:
        """Is anybody there?"""
        self._say(partial(_messages, say.Ping()), "ping")

    def settings(self) -> Settings:
        """Those that hold."""
        return self._wanted.settings

    def awaited(self) -> bool:
        """Whether somebody waits for the host."""
        return self._wanted.question is not None or bool(self._wanted.loads)

    def loading(self) -> bool:
        """Whether it loads a model, as far as it said."""
        return self._status.state in {"starting", "loading"}

    @singledispatchmethod
    def hear(self, message: Message) -> None:
        """The host said this.

        Raises:
            ProtocolError: it never should.
        """
        if not isinstance(message, heard.Pong):  # that it was heard is all
            raise ProtocolError(f"{type(message).__name__} from a host")

    @hear.register
    def _(self, message: heard.Answered) -> None:
        answer = answer_value(message)
        with self._lock:
            question = self._wanted.take_question(message.number)
        if question is not None:
            self._link.served()
        self._tell(lambda: self._listener.answered(message.number, answer))

    @hear.register
    def _(self, message: heard.Made) -> None:
        made = made_value(message, self._telling.texts.place)
        if made is not None:
            self._tell(partial(self._listener.made, *made))

    @hear.register
    def _(self, message: heard.Forgotten) -> None:
        uri = None if message.uri is None else decoded(message.uri)
        self._tell(lambda: self._listener.forgotten(uri))

    @hear.register
    def _(self, message: heard.Counted) -> None:
        self._tell(lambda: self._listener.counted(message.what, message.by))

    @hear.register
    def _(self, message: heard.Worked) -> None:
        self._tell(lambda: self._listener.worked(message.counts))

    @hear.register
    def _(self, message: heard.Told) -> None:
        self._tell(partial(self._told, status_value(message)))

    @hear.register
    def _(self, message: heard.Indexing) -> None:
        self._tell(lambda: self._listener.indexing(message.done, message.total, building=message.building))

    @hear.register
    def _(self, message: heard.Notice) -> None:
        self._tell(lambda: self._listener.notice(message.text))

    @hear.register
    def _(self, message: heard.Facts) -> None:
        before, self._facts = self._facts.company, facts_value(message)
        if before != self._facts.company:
            self._tell(lambda: self._listener.told(self._status))  # it is told with whoever shares the host

    @hear.register
    def _(self, message: heard.Loaded) -> None:
        with self._lock:
            reply = self._wanted.loads.pop(message.ticket, None)
        if reply is not None:
            self._tell(partial(reply, message.well))

    @hear.register
    def _(self, message: heard.Again) -> None:
        """The host has lost a text: what spoke of it is said again."""
        name = self._telling.texts.again(message.slot)
        if name is None:
            return
        with self._lock:
            for path in filter(lambda path: str(path) == name, self._wanted.documents):
                self._say(partial(self._telling.document, path), ("document", path))
            self._say_questions()

    def _say(self, maker: Maker, key: Hashable = None) -> None:
        """Leave the host a message, where there is one."""
        with self._lock:
            if self._outbox is not None:
                self._outbox.make(maker, key)

    def _say_questions(self) -> None:
        """All that somebody waits for; the lock is held."""
        if (upcoming := self._wanted.upcoming) is not None:
            self._say(partial(self._telling.expect, upcoming, known=False, unserved=True), "expect")
        if (question := self._wanted.question) is not None:
            self._say(partial(self._telling.ask, question), "question")

    def _told(self, status: Status) -> None:
        self._status = status
        self._wanted.ready = status.state in {"ready", "thinking"} or (self._wanted.ready and status.state != "off")
        self._listener.told(status)

    def _tell(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception:  # whoever listens must not end the connection
            logger.exception("a listener failed")


def _messages(message: Message) -> tuple[Message, ...]:
    return (message,)
