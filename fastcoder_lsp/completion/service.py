"""The completion service: the server's interface to completion, from any thread.

It knows documents and no model. The `host`, perhaps another process, answers a `Question` once, never, twice, or late;
the service answers every request exactly once, and no caller waits for the model.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import structs

from fastcoder_lsp.completion import protocol, reasons
from fastcoder_lsp.completion.edits import EditService
from fastcoder_lsp.completion.question import Answer, Policy, Question, nothing, place_of
from fastcoder_lsp.completion.status import Statistics, Status
from fastcoder_lsp.completion.suggestion_cache import SuggestionCache
from fastcoder_lsp.completion.suggestions import CachedSuffix, Suggestion
from fastcoder_lsp.completion.waiting import NewestQuestion, Waiting, resolve
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Completion, CompletionRequest, Late, Reason
from fastcoder_lsp.edits.values import EditAnswer
from fastcoder_lsp.observe import Tally

logger = logging.getLogger(__name__)
REST_S = 1.0
"""After so long without a key the user may be waiting for a suggestion, and less certain ones appear."""


def _call_in_thread(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class ServiceListener:
    """What a service tells unasked, on the host's threads; each method does nothing by default."""

    def status(self, status: Status) -> None:
        """The state of the model changed."""

    def late(self, late: Late) -> None:
        """The late answer at the last question's place came: more text, or why none."""

    def indexing(self, progress: protocol.Indexing) -> None:
        """Indexing the workspace went on."""

    def notice(self, text: str) -> None:
        """A message for the user."""

    def succession(self, succession: protocol.Succession) -> None:
        """A smaller model answers until a larger one is ready, or no longer does."""

    def edit_model(self, status: Status) -> None:
        """The state of the edit model changed."""

    def growth(self, text: str) -> None:
        """The whole lines so far of the answer to an open raw prompt."""


_SILENT = ServiceListener()


class CompletionService:
    """Turns requests into completions, one at a time, the latest first.

    Args:
        open_host: opens the host for this listener, with the current settings, which include whether completion is on.
        listener: is told what nobody asked for.
        enabled: while False every request is answered empty.
        clock: milliseconds, the same for the host.
        call_later: calls after so many seconds, on any thread.
    """

    def __init__(
        self,
        open_host: Callable[[protocol.HostListener], protocol.ModelHost],
        listener: ServiceListener = _SILENT,
        *,
        enabled: bool = True,
        clock: Callable[[], float] = lambda: time.monotonic() * 1e3,
        call_later: Callable[[float, Callable[[], None]], object] = _call_in_thread,
    ) -> None:
        self.lock = threading.RLock()
        """Each method holds it. The host's thread takes it to deliver events, while holding no other lock."""
        self._clock, self._enabled, self._closing = clock, enabled, False
        self._listener, self._call_later = listener, call_later
        self._status = Status("starting")
        self._number = self._tickets = 0
        self._heard = 0  # questions up to this number are answered, or never will be
        self._newest = NewestQuestion[Question, Completion](self._send)
        self._asked: tuple[str, int, int] | None = None  # the place of the last question
        self._loads: dict[int, Future[bool]] = {}
        self._known, self._tally = SuggestionCache(), Tally()
        self.on(protocol.StatusChanged(Status("starting" if enabled else "off")))
        self.host = open_host(self.on)
        """The model's host; commands that concern neither requests nor answers go to it directly."""
        self.edits = EditService(self.host.send, self.lock, self._next_number)

    # For the server, from any thread --------------------------------------------------------------------------------

    def submit(
        self,
        request: CompletionRequest,
        policy: Policy | None = None,
        waited_ms: float = 0.0,
        rested: "list[Future[Completion]] | None" = None,
    ) -> "Future[Completion]":
        """Ask for a completion; every earlier open request is answered empty at once ("superseded").

        Cancelling the future ends its work within a step. Requests for the same place share one answer. Without a
        policy the answer is whole. `waited_ms`: how long the client has waited already; its budget counts from there.
        `rested`: the futures of a request that has rested until now (`Quiet.delay_ms`).
        """
        with self.lock:
            question = self._known.with_relaxed_rules(self._question(request, policy or Policy(), waited_ms))
            waiting = Waiting(question, rested or [self._future()])
            self._tally.count("requests", 0 if rested else 1)
            if self._closing or not self._enabled:
                self.host.send(protocol.UserActive(question.asked_ms, answered=False))
                self._tally.count("empty", waiting.answer(nothing(request, "off", reasons.off())))
            elif (rule := self._known.blocking_rule(question)) is not None:
                self._supersede()
                self.host.send(protocol.UserActive(question.asked_ms, answered=True))
                self._tally.suppressed(rule)
                waiting.answer(nothing(request, rule, reasons.unfit(rule)))
            elif not rested and self._must_rest(question, waited_ms):
                self._rest(waiting, waited_ms)
            elif not (again := self._known.asks_again(question)) and (recalled := self._known.recall(question)):
                self._supersede()
                # In a pause the model makes the text again with a better prompt.
                self.host.send(protocol.Expect(question, known=True, unserved=False))
                self._await_rest(question)
                if (why := self._known.held_back(question, recalled)) is not None:
                    self._known.awaited(question)
                    self._tally.count("empty", waiting.answer(nothing(request, why.code, why)))
                else:
                    self._tally.count("typed_through")
                    completion = self._known.completion(question, recalled)
                    self._shows(question, completion, recalled[0])
                    waiting.answer(completion)
            elif (open_one := self._newest.waiting) and open_one.question.asks(request):  # a popup and ghost text
                self.host.send(protocol.UserActive(question.asked_ms, answered=False))
                open_one.join(waiting.futures[0])
            else:
                self._supersede_all()
                waiting.question = structs.replace(question, again=again)
                self._newest.waiting = waiting
                self.host.send(protocol.Ask(waiting.question))
            return waiting.futures[0]

    def accepted(self, request: CompletionRequest, policy: Policy) -> None:
        """A suggestion was accepted whole: `request` is the likely next one."""
        with self.lock:
            self._known.taken()
            if policy.ahead and self._may_expect(policy):
                self._expect(self._question(request, policy))
            else:
                self.host.send(protocol.UserActive(self._clock(), answered=False))

    def cursor_rests(self, request: CompletionRequest, policy: Policy) -> None:
        """The cursor rests at the place of `request`: generate a suggestion there, if the model is loaded.

        A later request shows it. Not where a question was asked already, an edit is due, or a rule forbids suggestions.
        """
        with self.lock:
            asked_there = self._asked == _place_in(request)
            if asked_there or self.edits.is_open or self._loading() or not (policy.ahead and self._may_expect(policy)):
                return
            question = self._question(request, policy)
            if self._known.rule_at(question) is None:
                self.host.send(protocol.UserActive(self._clock(), answered=True))  # a late text has no place any more
                self._expect(question)

    def preload(self, near: Path | None = None) -> "Future[bool]":
        """Load the model now, before the first request; the future's result is whether that succeeded.

        `near`: wait for the code around this path, too, which an answer at once would lack.
        """
        with self.lock:
            future: Future[bool] = Future()
            if self._closing:
                future.set_result(False)
            else:
                self._tickets += 1
                self._loads[self._tickets] = future
                self.host.send(protocol.Load(self._tickets, near))
            return future

    def document_closed(self, uri: str) -> None:
        """Drop the state of a document."""
        with self.lock:
            self._known.forget(uri)
            if self._newest.is_about(uri):
                self._supersede(reasons.changed())
            self._known.shows_nothing(uri)
            self.edits.forget(uri)
            self._asked = None  # the document may come back with the same version
            self.host.send(protocol.Forget(uri))

    def document_renamed(self, old: str, new: str) -> None:
        """Move the state of a document to its new name."""
        with self.lock:
            self._known.rename(old, new)
            if (waiting := self._newest.waiting) is not None and waiting.question.uri == old:
                waiting.question = waiting.question.renamed(new)
            self.host.send(protocol.Rename(old, new))

    def set_enabled(self, enabled: bool) -> None:
        """Off unloads the model and answers everything empty; on loads it at the next request."""
        with self.lock:
            self._enabled, self._asked = enabled, None
            if not enabled:
                self._supersede(reasons.off())
                self.edits.supersede(reasons.off())
            self.host.send(protocol.Enable(enabled))

    def use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        """Use another model or other settings from the next request on; the host reloads only what changed."""
        with self.lock:
            self._known.forget(None)
            self._supersede()
            self.edits.forget()
            self._asked = None
            self.host.send(protocol.Use(settings, folders))

    def reload(self) -> None:
        """Reload the model for the next request."""
        with self.lock:
            self._known.forget(None)
            self._supersede()
            self.edits.forget()
            self._asked = None
            self.host.send(protocol.Reload())

    def statistics(self) -> Statistics:
        """Counts since the start, percentiles of late."""
        with self.lock:
            facts, totals = self.host.facts(), self._tally.totals()
            return Statistics(
                facts.model, facts.engine, resident_bytes=facts.resident_bytes, budget_ms=facts.budget_ms, **totals
            )

    def shutdown(self, wait_s: float = 2.0) -> None:
        """Answer open requests, and have the host free this client's resources within a step."""
        with self.lock:
            self._closing = True
            self._supersede()
            self.edits.forget()
        self.host.close(wait_s)

    # For the host, from its threads ---------------------------------------------------------------------------------

    def on(self, event: protocol.Event) -> None:
        """Handle an event of the host: take what belongs to requests, and tell the listener the rest."""
        match event:
            case protocol.Answered(number, EditAnswer() as edit):
                self.edits.answered(number, edit)
            case protocol.FoundElsewhere():
                self.edits.found(event)
            case protocol.Answered(number, Answer() as answer):
                self._answered(number, answer)
            case protocol.Made(uri, suggestion):
                self._made(uri, suggestion)
            case protocol.LoadFinished(ticket, well):
                if (future := self._loads.pop(ticket, None)) is not None:
                    resolve(future, well)
            case protocol.Forgotten() | protocol.Counted() | protocol.Worked():
                self._note(event)
            case _:
                with _listening():
                    self._tell(event)

    def _tell(self, event: protocol.Event) -> None:
        listener = self._listener
        match event:
            case protocol.StatusChanged(status):
                self._status = status
                listener.status(status)
            case protocol.Grew(number, text):
                with self.lock:
                    waiting = self._newest.waiting
                if waiting is not None and waiting.question.number == number:
                    listener.growth(text)
            case protocol.Indexing():
                listener.indexing(event)
            case protocol.Notice(text):
                listener.notice(text)
            case protocol.Succession():
                listener.succession(event)
            case protocol.EditModelChanged(status):
                listener.edit_model(status)

    def _note(self, event: protocol.Forgotten | protocol.Counted | protocol.Worked) -> None:
        with self.lock:
            match event:
                case protocol.Forgotten(uri):
                    self._known.forget(uri)
                case protocol.Counted(what, by):
                    self._tally.count(what, by)
                case protocol.Worked(counts, cpu_s):
                    self._tally.worked(counts, cpu_s)

    def _answered(self, number: int, answer: Answer) -> None:
        """Take the answer to the question of this number; ignore one to another question, or a second one."""
        with self.lock:
            if not self._heard < number <= self._number:
                return
            self._heard = number
            if answer.ms:
                self._tally.took(answer.ms)
            if (waiting := self._newest.close(number)) is None:
                return
            answer = self._known.fitted(waiting.question, answer)
            completion = answer.to(waiting.question.request)
            recalled = self._known.fallback(waiting.question) if answer.outcome == "empty" else ()
            if recalled and self._known.held_back(waiting.question, recalled) is None:
                completion = self._known.completion(waiting.question, recalled)
            if waiting.wanted() and answer.outcome != "failed":
                self._shows(waiting.question, completion, *(recalled or answer.candidates)[:1])
                self._await_rest(waiting.question)
            self._tally.count(answer.outcome, waiting.answer(completion))

    def _made(self, uri: str, suggestion: Suggestion) -> None:
        """Remember a suggestion; if no request is open, tell the client where it says more than is shown."""
        with self.lock:
            idle = self._newest.waiting is None
            self._known.remember(uri, suggestion, instead=idle)
            late = self._known.late(uri, suggestion) if idle else None
        if late is not None:
            with _listening():
                self._listener.late(late)

    # ----------------------------------------------------------------------------------------------------------------

    def _shows(self, question: Question, completion: Completion, first: CachedSuffix | None = None) -> None:
        """Record what is shown; `first`: the part of a suggestion that its text is."""
        if (length := self._known.shows(question, completion)) and first is not None:
            start = len(question.place.before) - first.begin
            self.host.send(protocol.Shown(question.uri, max(start, 0), first.begin + length))

    def _send(self, command: protocol.Command) -> None:
        self.host.send(command)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _question(self, request: CompletionRequest, policy: Policy, waited_ms: float = 0.0) -> Question:
        self._asked = _place_in(request)
        asked_ms, opened_s = self._clock() - waited_ms, time.perf_counter() - waited_ms / 1e3
        return Question(self._next_number(), request, place_of(request), policy, asked_ms, opened_s)

    def _may_expect(self, policy: Policy) -> bool:
        return self._enabled and not policy.quiet.silent and self._newest.waiting is None

    def _expect(self, question: Question) -> None:
        self.host.send(protocol.Expect(question, known=self._known.holds(question), unserved=False))

    def _must_rest(self, question: Question, waited_ms: float) -> bool:
        """Whether the user has to rest first; not where another request waits at this very place already."""
        waiting = self._newest.waiting
        is_asked = waiting is not None and waiting.question.asks(question.request)
        return question.policy.quiet.delay_ms > waited_ms and not is_asked

    def _rest(self, waiting: Waiting[Question, Completion], waited_ms: float) -> None:
        """Let the question wait until the user has rested; the host may work on it meanwhile."""
        self._supersede_all()
        self._newest.waiting, question = waiting, waiting.question
        if question.policy.ahead:
            self._expect(question)
        else:
            self.host.send(protocol.UserActive(question.asked_ms, answered=True))
        rest_ms = question.policy.quiet.delay_ms - waited_ms
        self._call_later(rest_ms / 1e3, partial(self._rested, question.number))

    def _rested(self, number: int) -> None:
        """The user has rested: serve the question, unless it was withdrawn. Its time counts from now."""
        with self.lock:
            if (waiting := self._newest.close(number)) is not None:
                self.submit(waiting.question.request, waiting.question.policy, rested=waiting.futures)

    def _await_rest(self, question: Question) -> None:
        if question.policy.quiet.yields:
            self._call_later(REST_S, partial(self._rests, question.number))

    def _rests(self, number: int) -> None:
        """The user has rested where this question was answered: more may appear there."""
        with self.lock:
            if self._closing or self._newest.waiting is not None or (rests := self._known.rests(number)) is None:
                return
            question, late = rests
            if question.policy.ahead:
                self.host.send(protocol.Expect(question, known=self._known.holds(question), unserved=False))
        if late is not None:
            with _listening():
                self._listener.late(late)

    def _future(self) -> "Future[Completion]":
        future: Future[Completion] = Future()
        future.add_done_callback(self._count_cancelled)
        return future

    def _supersede_all(self) -> None:
        while self._newest.waiting is not None:  # an answered caller may ask again at once
            self._supersede()
        self._known.shows_nothing()

    def _supersede(self, reason: Reason | None = None) -> None:
        self._known.shows_nothing()
        if (waiting := self._newest.withdraw()) is None:
            return
        why = reason or (reasons.loading(self._status) if self._loading() else reasons.superseded())
        self._tally.count("superseded", waiting.answer(nothing(waiting.question.request, "superseded", why)))

    def _loading(self) -> bool:
        return self._status.state in {"starting", "loading"}

    def _count_cancelled(self, future: "Future[Completion]") -> None:
        """A future was cancelled; while the model loads, the question is kept for when it is ready."""
        with self.lock:
            if not future.cancelled():
                return
            self._tally.count("cancelled")
            if (waiting := self._newest.withdraw(unwanted=True)) is not None and self._loading():
                self.host.send(
                    protocol.Expect(waiting.question, known=self._known.holds(waiting.question), unserved=True)
                )
                self._known.awaited(waiting.question)


def _place_in(request: CompletionRequest) -> tuple[str, int, int]:
    return request.snapshot.uri, request.snapshot.version, request.offset


@contextmanager
def _listening() -> Iterator[None]:
    """A listener must not stop the service."""
    try:
        yield
    except BaseException:  # Rust extensions raise BaseExceptions
        logger.exception("a listener failed")
