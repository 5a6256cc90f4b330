"""`ModelHost` over a server: rules, budgets and post-processing stay in the front, and the model is elsewhere.

Only questions go to the server; files, folders and settings stay on this machine.
"""

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import psutil
from msgspec import structs

from fastcoder_lsp.completion import protocol, reasons
from fastcoder_lsp.completion.question import Answer, Clock, Question, policy_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Progress, Reason
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.remote.client import NetworkOptions, Timeouts
from fastcoder_lsp.remote.dialects import Dialect
from fastcoder_lsp.remote.excerpt import Excerpt, ExcerptSnippet, SendingRules, SnippetFinder, take, withheld
from fastcoder_lsp.remote.failures import PAUSES_S, Backoff, NotSentError, RemoteError
from fastcoder_lsp.remote.generation import RemoteModel, budgets_of
from fastcoder_lsp.remote.server import RemoteServer
from fastcoder_lsp.scheduling.client import Arrival
from fastcoder_lsp.scheduling.model import ClientModel, ModelResources
from fastcoder_lsp.scheduling.scheduler import Scheduler, now_ms
from fastcoder_lsp.workspace.document import OpenTexts

_ANSWERS_TO_UNLOAD: Final = 20
"""Answers of the server until the model is unloaded; a server that fails again soon would reload it."""


class Fallback:
    """The local model (`host`) in place of a failing server, loaded at the first question that fails.

    Its suggestions are shown only while the server fails, because the server's would differ.
    """

    def __init__(
        self,
        open_local: protocol.OpenHost,
        listener: protocol.HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts,
    ) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._server_failure: Reason | None = None
        self._opened, self._unloaded, self._server_answers = False, False, 0
        self.host: protocol.ModelHost = open_local(self.on, settings, folders, texts)

    @property
    def active(self) -> bool:
        """Whether it stands in now."""
        return self._server_failure is not None

    def ask(self, question: Question, why: Reason) -> None:
        """Let the local model answer; `why`: the server's failure."""
        self._begin(why)
        self.host.send(protocol.Ask(question))

    def load(self, ticket: int, why: Reason) -> None:
        """Load the local model; `why`: the server's failure."""
        self._begin(why)
        self.host.send(protocol.Load(ticket))

    def server_answered(self) -> None:
        """Stop standing in."""
        with self._lock:
            self._server_failure, self._server_answers = None, self._server_answers + 1
            unload = self._opened and not self._unloaded and self._server_answers >= _ANSWERS_TO_UNLOAD
            self._unloaded = self._unloaded or unload
        if unload:
            self.host.send(protocol.Enable(False))

    def _begin(self, why: Reason) -> None:
        with self._lock:
            self._server_failure, self._server_answers, self._opened = why, 0, True
            again, self._unloaded = self._unloaded, False
        if again:
            self.host.send(protocol.Enable(True))

    def on(self, event: protocol.Event) -> None:
        """Handle an event of the local model, on one of its threads."""
        why = self._server_failure
        match event:
            case protocol.Answered(number, Answer(outcome="failed") as answer) if why is not None:
                # If both fail, report the server's reason: the user can act on it.
                self._listener(protocol.Answered(number, structs.replace(answer, reason=why)))
            case protocol.Made() | protocol.Forgotten() if why is None:
                pass
            case protocol.StatusChanged(status):
                if why is not None:
                    self._listener(protocol.StatusChanged(_while_standing_in(status, why)))
            case _:
                self._listener(event)


def _while_standing_in(status: Status, why: Reason) -> Status:
    if status.state == "error":
        return Status("error", message=why.text, hint=why.hint)
    message = status.message or f"{why.text} The local model answers meanwhile."
    return replace(status, message=message, hint=status.hint or why.hint)


_SAYS_LOADING_S: Final = 5.0  # after this time the status says what a server may be doing


class NetworkHost:
    """A remote server as the model's host; the shared process on this machine is `SharedProcessHost`.

    `open_local` opens the model on this machine, for `remote.fallback`. `listener` receives events, on the scheduler's
    thread, the loop's or the local model's.
    """

    def __init__(
        self,
        listener: protocol.HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts,
        network: NetworkOptions,
        open_local: protocol.OpenHost,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 a frozen value
        pauses_s: tuple[float, ...] = PAUSES_S,
        clock: Clock = now_ms,
    ) -> None:
        self._listener, self._settings, self._texts = listener, settings, texts
        self._snippets = SnippetFinder(folders, texts, lambda text: listener(protocol.Notice(text)))
        self._sending_rules = SendingRules(settings, folders)
        self._reader = ThreadPoolExecutor(1, "fastcoder-remote-files")
        self._server = RemoteServer(settings, network, timeouts)
        self._backoff = Backoff(pauses_s)
        self._clock = clock
        self._fallback = Fallback(open_local, listener, settings, folders, texts) if settings.remote_fallback else None
        self._noticed: str | None = None
        self._process = psutil.Process()
        self._loop, self._closing = asyncio.new_event_loop(), asyncio.Event()
        self._scheduler = Scheduler[ModelResources](_no_model, clock)
        wake, on_failure, on_answered = self._scheduler.wake, self._on_failure, self._on_answered
        self._model = RemoteModel(
            self._server, self._loop, self._excerpt, wake, on_failure, on_answered, self._backoff, clock
        )
        model = ClientModel(lambda: self._model, lambda _: None, clock)
        model.ready()
        self._client = self._scheduler.add(listener, model)
        self._threads = [
            threading.Thread(target=self._scheduler.run, name="fastcoder-scheduler", daemon=True),
            threading.Thread(target=self._run_loop, name="fastcoder-remote", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # `ModelHost`, from any thread -----------------------------------------------------------------------------------

    def send(self, command: protocol.Command) -> None:
        """Questions go to the server; other commands also to the local model, which may have to stand in."""
        match command:
            case protocol.Load(ticket):  # identifies the server
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._load(ticket)))
            case protocol.Use(settings, folders):  # a new server gets a new host
                self._settings = settings
                self._sending_rules.change(settings, folders)
                self._snippets.change(folders)
                self._send_to_local(command)
            case protocol.Ask(EditQuestion(number)):  # nothing is sent; the local model stands in for completions only
                self._listener(protocol.Answered(number, EditAnswer(reason=reasons.no_remote_edits())))
            case protocol.SearchElsewhere(question):  # no file is read for a remote model's edits
                self._listener(protocol.FoundElsewhere(question.number))
            case _ if command.target == "files":
                self._send_to_local(command)
            case _:
                self._client.inbox(Arrival(self._client, partial(self._run_command, command)))

    def facts(self) -> protocol.HostFacts:
        """Of the server, or of the local model while it stands in."""
        identity = self._server.identity
        if self._fallback is not None and self._fallback.active:
            return self._fallback.host.facts()
        return protocol.HostFacts(
            model=(identity.model if identity is not None else "") or self._settings.remote_model,
            engine=identity.dialect.name if identity is not None else "",
            budget_ms=budgets_of(policy_of(self._settings)).by_kind(),
            resident_bytes=self._process.memory_info().rss,
            process_id=self._process.pid,
            asks=self._server.host,
        )

    def close(self, wait_s: float) -> None:
        """End the threads and the local model."""
        if self._fallback is not None:
            self._fallback.host.close(wait_s / 3)
        self._scheduler.close()
        self._threads[0].join(wait_s / 3)
        with contextlib.suppress(RuntimeError):  # it has ended before
            self._loop.call_soon_threadsafe(self._closing.set)
        self._threads[1].join(wait_s / 3)
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._snippets.close()

    # On the loop's thread -------------------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_closed())

    async def _until_closed(self) -> None:
        await self._closing.wait()
        await self._server.close()

    async def _excerpt(self, question: Question, dialect: Dialect) -> Excerpt:
        """The excerpt of a question, with other files read on their own thread; NotSentError if a rule forbids it."""
        if (forbidden := self._sending_rules.why_not(question.request.snapshot, self._server.host)) is not None:
            raise forbidden
        snippets: tuple[ExcerptSnippet, ...] = ()
        if self._snippets.enabled():
            loop = asyncio.get_running_loop()
            snippets = await loop.run_in_executor(self._reader, self._snippets.find, question)
        most = question.request.max_tokens or self._settings.completion_max_tokens
        return take(question, snippets, most, postprocessed=dialect.postprocesses)

    async def _load(self, ticket: int) -> None:
        host = self._server.host
        self._listener(protocol.StatusChanged(Status("loading", message=f"connecting to {host}")))
        error: RemoteError | None = None
        identifying = asyncio.ensure_future(self._server.identify())
        if not (await asyncio.wait((identifying,), timeout=_SAYS_LOADING_S))[0]:
            message = f"waiting for {host}, which may be loading its model"
            self._listener(protocol.StatusChanged(Status("loading", message=message)))
        try:
            await identifying
        except RemoteError as failure:
            error = failure
        self._client.inbox(Arrival(self._client, partial(self._loaded, ticket, error)))

    # In the scheduler's thread --------------------------------------------------------------------------------------

    def _run_command(self, command: protocol.Command) -> None:
        match command:
            case protocol.Ask(Question() as question):
                self._ask(question)
                return
            case protocol.Expect(question):
                left_alone = self._backoff.blocking_failure(self._clock()) is not None
                if not left_alone and withheld(question) is None:
                    self._client.handle(command)
                if not left_alone or self._fallback is None or not self._fallback.active:
                    return
            case protocol.Reload():  # identify the server again at once, whatever failed before
                self._client.unload()
                self._server.forget()
                self._backoff.answered()
                self._noticed = None
            case protocol.Enable(enabled):
                self._client.enabled = enabled
                self._client.handle(command)
            case _:
                self._client.handle(command)
        self._send_to_local(command)

    def _ask(self, question: Question) -> None:
        client, error = self._client, self._model.refusal(self._client.generation)
        reason = withheld(question)
        if reason is None and error is None:
            client.handle(protocol.Ask(question))
            if self._server.identity is None and client.request is not None:
                client.request.waited_for_model()
            client.take_prompt()
            client.serve(0.0)  # count each question, even one that is replaced at once
            return
        client.handle(protocol.UserActive(question.asked_ms, answered=True))
        if reason is not None:
            self._listener(protocol.Answered(question.number, Answer("empty", (), "secret", reason)))
        elif error is not None:
            client.current.give_up()
            self._model.took_over(question, error)

    def _loaded(self, ticket: int, error: RemoteError | None) -> None:
        if error is None:
            self._listener(protocol.StatusChanged(Status("ready")))
        else:
            self._model.took_over(None, error)
            if self._fallback is not None:
                self._fallback.load(ticket, error.reason)
                return
        self._listener(protocol.LoadFinished(ticket, error is None))

    def _send_to_local(self, command: protocol.Command) -> None:
        if self._fallback is not None:
            self._fallback.host.send(command)

    def _on_failure(self, question: Question | None, error: RemoteError) -> None:
        """Let the local model answer instead, or answer with the failure's reason."""
        reason = error.reason
        if isinstance(error, NotSentError):
            self._not_sent(question, reason)
            return
        if self._fallback is None:
            self._listener(protocol.StatusChanged(Status("error", message=reason.text, hint=reason.hint)))
            if question is not None:
                self._listener(protocol.Answered(question.number, Answer("failed", (), "error", reason)))
            return
        if self._noticed != reason.code:
            self._noticed = reason.code
            self._listener(protocol.Notice(f"{reason.text} {reason.hint}"))
        if question is not None:
            self._fallback.ask(question, reason)

    def _not_sent(self, question: Question | None, reason: Reason) -> None:
        """A rule keeps the document here: the local model answers, and the server's state stays."""
        if question is None:
            return
        if self._fallback is not None:
            self._fallback.ask(question, reason)
            return
        self._listener(protocol.StatusChanged(Status("ready")))
        self._listener(protocol.Answered(question.number, Answer("empty", (), reason.code, reason)))

    def _on_answered(self) -> None:
        self._noticed = None
        if self._fallback is not None:
            self._fallback.server_answered()


def _no_model(_: Progress) -> ModelResources:
    raise AssertionError("the scheduler's only client has a model of its own")
