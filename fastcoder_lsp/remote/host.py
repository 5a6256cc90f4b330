"""`ModelHost` over a server: the front's rules, budgets and post-processing stay, and the model is somewhere else.

Owns what the front may tell it, the thread where it happens, and what is told of failures. Only questions are sent to
the server; files, folders and settings go no further than this machine.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil

from fastcoder_lsp.completion.host import HostFacts, HostListener, OpenHost
from fastcoder_lsp.completion.question import Answer, Clock, Question, policy_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Reason
from fastcoder_lsp.remote.allowed import Allowed
from fastcoder_lsp.remote.asking import Asking
from fastcoder_lsp.remote.budgets import by_kind
from fastcoder_lsp.remote.client import TimeOuts, Way
from fastcoder_lsp.remote.dialects import Dialect
from fastcoder_lsp.remote.excerpt import Excerpt, Excerpts, Piece
from fastcoder_lsp.remote.failures import NotSentError, RemoteError
from fastcoder_lsp.remote.fallback import Fallback
from fastcoder_lsp.remote.loop_thread import LoopThread
from fastcoder_lsp.remote.pauses import PAUSES_S, Pauses
from fastcoder_lsp.remote.pieces import Pieces
from fastcoder_lsp.remote.server import Server


class ServerHost:
    """A server in the place of a model.

    Args:
        listener: told what comes of it all, by the loop's thread or the local model's.
        settings: name the server.
        folders: of the workspace, with their settings.
        way: leads to the server.
        open_local: opens the model on this machine, for `remote.fallback`.
        time_outs: how long the server may be silent.
        pauses_s: how long it is left alone after each failure in a row.
        clock: milliseconds.
    """

    def __init__(
        self,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        way: Way,
        open_local: OpenHost,
        time_outs: TimeOuts = TimeOuts(),  # noqa: B008 a frozen value
        pauses_s: tuple[float, ...] = PAUSES_S,
        clock: Clock = lambda: time.monotonic() * 1e3,
    ) -> None:
        self._listener, self._settings = listener, settings
        self._pieces, self._excerpts = Pieces(folders, listener.notice), Excerpts()
        self._allowed = Allowed(settings, folders)
        self._reader = ThreadPoolExecutor(1, "fastcoder-remote-files")
        self._server = Server(settings, way, time_outs)
        self._pauses = Pauses(pauses_s)
        self._clock = clock
        self._asking = Asking(self._server, self._excerpt, listener, self._failed, self._well, self._pauses, clock)
        self._fallback = Fallback(open_local, listener, settings, folders) if settings.remote_fallback else None
        self._noticed: str | None = None
        self._process = psutil.Process()
        self._loop = LoopThread()

    # `ModelHost`, from any thread -----------------------------------------------------------------------------------

    def ask(self, question: Question) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._asking.ask, question))

    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._asking.noticed, answered=answered))
        if self._fallback is not None:
            self._fallback.host.noticed(asked_ms, answered=answered)

    def withdraw(self, number: int) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._withdraw, number))

    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._expect, question, known=known, unserved=unserved))

    def forget(self, uri: str) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._forget, uri))

    def rename(self, old: str, new: str) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._asking.rename, old, new))
        if self._fallback is not None:
            self._fallback.host.rename(old, new)

    def load(self, reply: Callable[[bool], object]) -> None:
        """See `ModelHost`: asks the server what it is."""
        self._loop.post(lambda: asyncio.get_running_loop().create_task(self._load(reply)))

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """See `ModelHost`; another server is another host's."""
        self._settings = settings
        self._allowed.change(settings, folders)
        self._pieces.change(folders)
        if self._fallback is not None:
            self._fallback.host.use(settings, folders)

    def reload(self) -> None:
        """See `ModelHost`: the server is asked anew what it is, at once and whatever went wrong."""
        self._loop.post(self._reload)

    def enable(self, *, enabled: bool) -> None:
        """See `ModelHost`."""
        self._loop.post(partial(self._enable, enabled=enabled))

    def document_changed(self, path: Path, text: str) -> None:
        """See `ModelHost`."""
        self._pieces.document_changed(path, text)
        if self._fallback is not None:
            self._fallback.host.document_changed(path, text)

    def document_closed(self, path: Path) -> None:
        """See `ModelHost`."""
        self._pieces.document_closed(path)
        if self._fallback is not None:
            self._fallback.host.document_closed(path)

    def files_changed(self, paths: Iterable[Path]) -> None:
        """See `ModelHost`."""
        if self._fallback is not None:
            self._fallback.host.files_changed(paths)

    def facts(self) -> HostFacts:
        """See `ModelHost`."""
        identity = self._server.identity
        if self._fallback is not None and self._fallback.active:
            return self._fallback.host.facts()
        return HostFacts(
            model=(identity.model if identity is not None else "") or self._settings.remote_model,
            engine=identity.dialect.name if identity is not None else "",
            budget_ms=by_kind(policy_of(self._settings)),
            resident_bytes=self._process.memory_info().rss,
            process_id=self._process.pid,
            asks=self._server.host,
        )

    def close(self, wait_s: float) -> None:
        """See `ModelHost`."""
        if self._fallback is not None:
            self._fallback.host.close(wait_s / 2)
        self._loop.end(self._end, wait_s / 2)
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._pieces.close()

    # On the loop's thread -------------------------------------------------------------------------------------------

    async def _excerpt(self, question: Question, dialect: Dialect) -> Excerpt:
        """What is sent, the one place where that is made; other files are read in a thread of their own.

        Raises:
            NotSentError: a rule forbids it.
        """
        if (forbidden := self._allowed.why_not(question.request.snapshot, self._server.host)) is not None:
            raise forbidden
        pieces: tuple[Piece, ...] = ()
        if self._pieces.wanted():
            loop = asyncio.get_running_loop()
            pieces = await loop.run_in_executor(self._reader, self._pieces.find, question)
        most = question.request.max_tokens or self._settings.completion_max_tokens
        return self._excerpts.take(question, pieces, most, far=dialect.finishes)

    def _withdraw(self, number: int) -> None:
        self._asking.withdraw(number)
        if self._fallback is not None:
            self._fallback.host.withdraw(number)

    def _expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        if self._fallback is not None and self._fallback.active and self._pauses.holds(self._clock()) is not None:
            self._fallback.host.expect(question, known=known, unserved=unserved)
        else:
            self._asking.expect(question, known=known, unserved=unserved)

    def _forget(self, uri: str) -> None:
        self._asking.forget(uri)
        self._listener.forgotten(uri)
        if self._fallback is not None:
            self._fallback.host.forget(uri)

    async def _load(self, reply: Callable[[bool], object]) -> None:
        there = False
        try:
            self._listener.told(Status("loading", message=f"connecting to {self._server.host}"))
            await self._server.meet()
            self._listener.told(Status("ready"))
            there = True
        except RemoteError as error:
            self._pauses.failed(error, self._clock())
            self._failed(None, error)
            if self._fallback is not None:
                self._fallback.load(reply, error.reason)
                return
        reply(there)

    def _reload(self) -> None:
        self._asking.clear()
        self._server.forget()
        self._pauses.answered()
        self._noticed = None
        self._listener.forgotten(None)
        if self._fallback is not None:
            self._fallback.host.reload()

    def _enable(self, *, enabled: bool) -> None:
        if not enabled:
            self._asking.clear()
        if self._fallback is not None:
            self._fallback.host.enable(enabled=enabled)
        self._listener.told(Status("starting" if enabled else "off"))

    def _failed(self, question: Question | None, error: RemoteError) -> None:
        """The server did not answer: the local model does, or the question has a reason for its answer."""
        reason = error.reason
        if isinstance(error, NotSentError):
            self._not_sent(question, reason)
            return
        if self._fallback is None:
            self._listener.told(Status("error", message=reason.text, hint=reason.hint))
            if question is not None:
                self._listener.answered(question.number, Answer("failed", (), "error", reason))
            return
        if self._noticed != reason.code:
            self._noticed = reason.code
            self._listener.notice(f"{reason.text} {reason.hint}")
        if question is not None:
            self._fallback.ask(question, reason)

    def _not_sent(self, question: Question | None, reason: Reason) -> None:
        """A rule keeps the document here: the local model answers, and nothing is wrong with the server."""
        if question is None:
            return
        if self._fallback is not None:
            self._fallback.ask(question, reason)
            return
        self._listener.told(Status("ready"))
        self._listener.answered(question.number, Answer("empty", (), reason.code, reason))

    def _well(self) -> None:
        """The server has answered."""
        self._noticed = None
        if self._fallback is not None:
            self._fallback.calm()

    async def _end(self) -> None:
        self._asking.clear()
        await self._server.close()
