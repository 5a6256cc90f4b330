"""`ModelHost` over a server: the front's rules, budgets and post-processing stay, and the model is somewhere else.

Owns what the front may tell it, the thread where it happens, and what is told of failures. Only questions are sent to
the server; files, folders and settings go no further than this machine.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from fastcoder_lsp.completion.protocol import (
    Answered,
    Ask,
    Command,
    DocumentChanged,
    DocumentClosed,
    Enable,
    Expect,
    Forget,
    Forgotten,
    HostFacts,
    HostListener,
    Load,
    LoadFinished,
    Notice,
    Noticed,
    OpenHost,
    Reload,
    Rename,
    StatusChanged,
    Use,
    Withdraw,
)
from fastcoder_lsp.completion.question import Answer, Clock, Question, policy_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Reason
from fastcoder_lsp.remote.client import NetworkOptions, TimeOuts
from fastcoder_lsp.remote.dialects import Dialect
from fastcoder_lsp.remote.excerpt import Excerpt, Excerpts, ExcerptSnippet, SendingRules
from fastcoder_lsp.remote.failures import NotSentError, RemoteError
from fastcoder_lsp.remote.fallback import Fallback
from fastcoder_lsp.remote.pieces import Pieces
from fastcoder_lsp.remote.scheduler import RemoteScheduler
from fastcoder_lsp.remote.server import RemoteServer
from fastcoder_lsp.remote.timing import PAUSES_S, Backoff, by_kind
from fastcoder_lsp.workspace.open_texts import OpenTexts


class LoopThread:
    """A thread with an event loop, which runs all requests to the server in order; it starts at once."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fastcoder-remote", daemon=True)
        self._thread.start()

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` on the thread, in order; ignored once the thread has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(call)

    def end(self, last: Callable[[], Coroutine[Any, Any, None]], wait_s: float) -> None:
        """Run `last` on the thread and end it; waits at most `wait_s` seconds."""

        def begin() -> None:
            task = self.loop.create_task(last())
            task.add_done_callback(lambda _: self.loop.stop())

        self.post(begin)
        self._thread.join(wait_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


class ServerHost:
    """A server in the place of a model.

    Args:
        listener: told what comes of it all, by the loop's thread or the local model's.
        settings: name the server.
        folders: of the workspace, with their settings.
        texts: of the open documents.
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
        texts: OpenTexts,
        way: NetworkOptions,
        open_local: OpenHost,
        time_outs: TimeOuts = TimeOuts(),  # noqa: B008 a frozen value
        pauses_s: tuple[float, ...] = PAUSES_S,
        clock: Clock = lambda: time.monotonic() * 1e3,
    ) -> None:
        self._listener, self._settings, self._texts = listener, settings, texts
        self._pieces, self._excerpts = Pieces(folders, texts, lambda text: listener(Notice(text))), Excerpts()
        self._sending_rules = SendingRules(settings, folders)
        self._reader = ThreadPoolExecutor(1, "fastcoder-remote-files")
        self._server = RemoteServer(settings, way, time_outs)
        self._backoff = Backoff(pauses_s)
        self._clock = clock
        self._scheduler = RemoteScheduler(
            self._server, self._excerpt, listener, self._failed, self._well, self._backoff, clock
        )
        self._fallback = Fallback(open_local, listener, settings, folders, texts) if settings.remote_fallback else None
        self._noticed: str | None = None
        self._process = psutil.Process()
        self._loop = LoopThread()

    # `ModelHost`, from any thread -----------------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Questions go to the server; all but them is told to the local model too, which may have to stand in."""
        match command:
            case Ask(question):
                self._loop.post(partial(self._scheduler.ask, question))
            case Noticed(_, answered):
                self._loop.post(partial(self._scheduler.noticed, answered=answered))
                self._tell_local(command)
            case Withdraw() | Expect() | Forget() | Reload() | Enable():
                self._loop.post(partial(self._take, command))
            case Rename(old, new):
                self._loop.post(partial(self._scheduler.rename, old, new))
                self._tell_local(command)
            case Load(ticket):  # asks the server what it is
                self._loop.post(lambda: asyncio.get_running_loop().create_task(self._load(ticket)))
            case Use(settings, folders):  # another server is another host's
                self._settings = settings
                self._sending_rules.change(settings, folders)
                self._pieces.change(folders)
                self._tell_local(command)
            case DocumentChanged(path, text):
                self._texts.put(path, text)
                self._tell_local(command)
            case DocumentClosed(path):
                self._texts.remove(path)
                self._tell_local(command)
            case _:
                self._tell_local(command)

    def facts(self) -> HostFacts:
        """Of the server, or of the local model while that stands in."""
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
        """End the thread, and the local model."""
        if self._fallback is not None:
            self._fallback.host.close(wait_s / 2)
        self._loop.end(self._end, wait_s / 2)
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._pieces.close()

    # On the loop's thread -------------------------------------------------------------------------------------------

    async def _excerpt(self, question: Question, dialect: Dialect) -> Excerpt:
        """The excerpt that is sent, made only here; other files are read in a thread of their own.

        Raises:
            NotSentError: a rule forbids it.
        """
        if (forbidden := self._sending_rules.why_not(question.request.snapshot, self._server.host)) is not None:
            raise forbidden
        pieces: tuple[ExcerptSnippet, ...] = ()
        if self._pieces.wanted():
            loop = asyncio.get_running_loop()
            pieces = await loop.run_in_executor(self._reader, self._pieces.find, question)
        most = question.request.max_tokens or self._settings.completion_max_tokens
        return self._excerpts.take(question, pieces, most, far=dialect.finishes)

    def _take(self, command: Withdraw | Expect | Forget | Reload | Enable) -> None:
        match command:
            case Withdraw(number):
                self._scheduler.withdraw(number)
            case Expect(question, known, unserved):
                stands_in = self._fallback is not None and self._fallback.active
                if not stands_in or self._backoff.holds(self._clock()) is None:
                    self._scheduler.expect(question, known=known, unserved=unserved)
                    return
            case Forget(uri):
                self._scheduler.forget(uri)
                self._listener(Forgotten(uri))
            case Reload():  # the server is asked anew what it is, at once and whatever went wrong
                self._scheduler.clear()
                self._server.forget()
                self._backoff.answered()
                self._noticed = None
                self._listener(Forgotten(None))
            case Enable(enabled) if not enabled:
                self._scheduler.clear()
        self._tell_local(command)
        if isinstance(command, Enable):
            self._listener(StatusChanged(Status("starting" if command.enabled else "off")))

    def _tell_local(self, command: Command) -> None:
        if self._fallback is not None:
            self._fallback.host.send(command)

    async def _load(self, ticket: int) -> None:
        there = False
        try:
            self._listener(StatusChanged(Status("loading", message=f"connecting to {self._server.host}")))
            await self._server.meet()
            self._listener(StatusChanged(Status("ready")))
            there = True
        except RemoteError as error:
            self._backoff.failed(error, self._clock())
            self._failed(None, error)
            if self._fallback is not None:
                self._fallback.load(ticket, error.reason)
                return
        self._listener(LoadFinished(ticket, there))

    def _failed(self, question: Question | None, error: RemoteError) -> None:
        """The server did not answer: the local model does, or the question has a reason for its answer."""
        reason = error.reason
        if isinstance(error, NotSentError):
            self._not_sent(question, reason)
            return
        if self._fallback is None:
            self._listener(StatusChanged(Status("error", message=reason.text, hint=reason.hint)))
            if question is not None:
                self._listener(Answered(question.number, Answer("failed", (), "error", reason)))
            return
        if self._noticed != reason.code:
            self._noticed = reason.code
            self._listener(Notice(f"{reason.text} {reason.hint}"))
        if question is not None:
            self._fallback.ask(question, reason)

    def _not_sent(self, question: Question | None, reason: Reason) -> None:
        """A rule keeps the document here: the local model answers, and nothing is wrong with the server."""
        if question is None:
            return
        if self._fallback is not None:
            self._fallback.ask(question, reason)
            return
        self._listener(StatusChanged(Status("ready")))
        self._listener(Answered(question.number, Answer("empty", (), reason.code, reason)))

    def _well(self) -> None:
        """The server has answered."""
        self._noticed = None
        if self._fallback is not None:
            self._fallback.calm()

    async def _end(self) -> None:
        self._scheduler.clear()
        await self._server.close()
