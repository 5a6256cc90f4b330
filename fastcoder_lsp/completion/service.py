"""The completion service: one worker, one slot, the latest request wins.

Owns the life of requests and of the model: queueing, superseding, cancelling, loading, unloading. Every request is
answered exactly once. It never blocks a caller: `submit` answers at once or hands a future. What a completion is made
of stands in `suggest`; which parts there are, in `runtime`.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass

import psutil

from fastcoder_lsp.completion.reuse import SuggestionMemory
from fastcoder_lsp.completion.runtime import Runtime
from fastcoder_lsp.completion.status import Statistics, Status
from fastcoder_lsp.completion.suggest import Place, place_of, suggest, suggestion
from fastcoder_lsp.core import Completion, CompletionRequest, Progress
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.observe import Spans, SpanStatistics

logger = logging.getLogger(__name__)

LoadRuntime = Callable[[Progress], Runtime]
RETRY_S = 5.0
"""A model that could not be loaded is not tried again sooner: its cause has to be cured first."""


@dataclass(slots=True)
class _Job:
    """A question, and everybody who asked it."""

    request: CompletionRequest
    place: Place
    futures: list["Future[Completion]"]
    spans: Spans

    def wanted(self) -> bool:
        """Whether anybody still waits for the answer."""
        return not all(future.done() for future in self.futures)


class CompletionService:
    """Turns requests into completions, one at a time.

    Args:
        load: makes the model ready; called in the worker, at the first request and after `reload`.
        on_status: told every change of state, from the worker's thread.
        enabled: while False nothing is loaded and every request is answered empty.
        idle_s: after so many seconds without a request the worker prepares the document in view for the next one.
    """

    def __init__(
        self, load: LoadRuntime, on_status: Callable[[Status], None], *, enabled: bool = True, idle_s: float = 1.0
    ) -> None:
        self._load, self._on_status, self._enabled, self._idle_s = load, on_status, enabled, idle_s
        self._memory = SuggestionMemory()
        self._runtime: Runtime | None = None
        self._failure: tuple[float, FastcoderError] | None = None
        self._slot: _Job | None = None
        self._running: _Job | None = None
        self._chores: deque[Callable[[], None]] = deque()
        self._unsettled: CompletionRequest | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._accepted_by_source: Counter[str] = Counter()
        self._statistics = SpanStatistics()
        self._process = psutil.Process()
        self._worker = threading.Thread(target=self._work, name="fastcoder-worker", daemon=True)
        self._worker.start()
        self._tell(Status("starting") if enabled else Status("off"))

    # Any thread ---------------------------------------------------------------------------------------------------

    def submit(self, request: CompletionRequest) -> "Future[Completion]":
        """Ask for a completion; every earlier request that is still open is answered empty at once ("superseded").

        Cancelling the future stops the work within a step. Requests for the same place share one answer.
        """
        future: Future[Completion] = Future()
        place, spans = place_of(request), Spans()
        with self._changed:
            self._count("requests")
            future.add_done_callback(self._count_cancelled)
            if self._closing or not self._enabled:
                _answer(future, _nothing(request, "off"))
                return future
            recalled = self._memory.recall(request.snapshot.uri, place.before, place.after)
            if recalled is not None:
                self._supersede(None)
                self._count("typed_through")
                _answer(future, suggestion(request, recalled.text, recalled.replaces, "typed-through", spans.close()))
                return future
            for job in (self._slot, self._running):
                if job is not None and job.wanted() and _same(job.request, request):
                    job.futures.append(future)
                    return future
            job = _Job(request, place, [future], spans)
            self._supersede(job)
            self._changed.notify_all()
        return future

    def preload(self) -> "Future[bool]":
        """Load the model now, before the first request; the answer is whether that went well."""
        future: Future[bool] = Future()
        with self._changed:
            self._chore(lambda: future.set_result(self._enabled and self._ready_runtime() is not None))
        return future

    def document_closed(self, uri: str) -> None:
        """Drop everything kept for a document."""
        with self._changed:
            self._memory.forget(uri)
            if self._unsettled is not None and self._unsettled.snapshot.uri == uri:
                self._unsettled = None
            self._chore(lambda: self._with_runtime(lambda runtime: runtime.forget(uri)))

    def document_renamed(self, old: str, new: str) -> None:
        """Carry what is kept for a document over to its new name."""
        with self._changed:
            self._memory.rename(old, new)
            self._chore(lambda: self._with_runtime(lambda runtime: runtime.rename(old, new)))

    def set_enabled(self, enabled: bool) -> None:
        """Off unloads the model and answers everything empty; on loads it at the next request."""
        with self._changed:
            self._enabled = enabled
            if not enabled:
                self._supersede(None)
            self._chore(self._settle_switch)

    def reload(self, load: LoadRuntime) -> None:
        """Use another model or other settings from the next request on."""
        with self._changed:
            self._load, self._failure = load, None
            self._memory.clear()
            self._supersede(None)
            self._chore(self._unload)

    def statistics(self) -> Statistics:
        """Counts since the start, percentiles of late."""
        with self._changed:
            counts, runtime = dict(self._counts), self._runtime
            sources = dict(self._accepted_by_source)
            ms = self._statistics.percentiles()
        info = runtime.engine.info if runtime else None
        return Statistics(
            model=info.model if info else "",
            engine=info.name if info else "",
            resident_bytes=self._process.memory_info().rss,
            ms=ms,
            accepted_by_source=sources,
            **counts,
        )

    def shutdown(self, wait_s: float = 2.0) -> None:
        """Answer what is open, stop the worker within a step, give the model's memory back."""
        with self._changed:
            self._closing = True
            self._supersede(None)
            self._changed.notify_all()
        self._worker.join(wait_s)

    # Under the lock -----------------------------------------------------------------------------------------------

    def _supersede(self, job: _Job | None) -> None:
        """Answer whoever waits, and put `job` into the slot."""
        for old in (self._slot, self._running):
            if old is None:
                continue
            for future in old.futures:
                if _answer(future, _nothing(old.request, "superseded")):
                    self._count("superseded")
        self._slot = job

    def _chore(self, chore: Callable[[], None]) -> None:
        """Something for the worker's thread, which alone touches the runtime."""
        self._chores.append(chore)
        self._changed.notify_all()

    def _count(self, what: str, by: int = 1) -> None:
        self._counts[what] += by

    def _count_cancelled(self, future: "Future[Completion]") -> None:
        if future.cancelled():
            with self._changed:
                self._count("cancelled")

    # The worker's thread ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closing:
            chore, job, idle = self._next()
            try:
                if chore is not None:
                    chore()
                elif job is not None:
                    self._complete(job)
                elif idle is not None:
                    self._prepare(idle)
            except Exception:  # a bug of ours must not cost the user every later completion
                logger.exception("the completion worker failed")
                self._finish(job, "failed")
                self._tell(Status("error", message="An internal error occurred.", hint="See the log file."))
        self._unload()

    def _next(self) -> tuple[Callable[[], None] | None, _Job | None, CompletionRequest | None]:
        """Wait for a chore, a job, or for the user to have paused."""
        with self._changed:
            while not self._closing:
                if self._chores:
                    return self._chores.popleft(), None, None
                if self._slot is not None:
                    self._running, self._slot = self._slot, None
                    return None, self._running, None
                if not self._changed.wait(self._idle_s if self._unsettled else None) and self._unsettled:
                    idle, self._unsettled = self._unsettled, None
                    return None, None, idle
        return None, None, None

    def _complete(self, job: _Job) -> None:
        job.spans.add("queue", job.spans.elapsed_ms())
        runtime = self._ready_runtime()
        if runtime is None:
            self._finish(job, "failed")
            return
        self._tell(Status("thinking"))
        try:
            completion = suggest(runtime, job.request, job.place, lambda: not job.wanted(), job.spans)
        except FastcoderError as error:
            self._finish(job, "failed")
            self._tell(Status("error", message=error.message, hint=error.hint))
            return
        self._finish(job, "shown" if completion.text else "empty", completion)
        self._tell(Status("ready"))

    def _finish(self, job: _Job | None, outcome: str, completion: Completion | None = None) -> None:
        """Answer a job, remember what was said, count it."""
        with self._changed:
            self._running = None
            if job is None:
                return
            answer = completion or _nothing(job.request, "error")
            answered = [future for future in job.futures if _answer(future, answer)]
            self._count(outcome, len(answered))
            if completion is None:
                return
            for name in ("steps", "tokens", "prefilled", "reused"):
                self._count(name, getattr(completion, name))
            self._count("accepted_drafts", completion.accepted)
            self._accepted_by_source.update(completion.accepted_by_source)
            self._unsettled = job.request
            if answered:
                self._statistics.record(completion.ms)
                uri, place = job.request.snapshot.uri, job.place
                start = job.request.selected.text if job.request.selected else ""
                replaces = completion.end - (job.request.selected.end if job.request.selected else job.request.offset)
                self._memory.remember(uri, place.before, place.after, completion.text[len(start) :], replaces)

    def _prepare(self, request: CompletionRequest) -> None:
        """The user paused: bring the prompt of the document in view up to date, so that the next answer starts warm."""
        if self._runtime is not None:
            self._runtime.settle(request.snapshot, request.offset, self._interrupted)

    def _interrupted(self) -> bool:
        return self._slot is not None or bool(self._chores) or self._closing

    def _with_runtime(self, act: Callable[[Runtime], None]) -> None:
        if self._runtime is not None:
            act(self._runtime)

    def _ready_runtime(self) -> Runtime | None:
        """The runtime, loaded now if need be; None where that fails (the status says why)."""
        if self._runtime is not None:
            return self._runtime
        if self._failure is not None and time.monotonic() - self._failure[0] < RETRY_S:
            return None
        self._tell(Status("loading", percent=0))
        try:
            self._runtime = self._load(lambda share, what: self._tell(Status("loading", int(share * 100), what)))
        except FastcoderError as error:
            self._failure = (time.monotonic(), error)
            self._tell(Status("error", message=error.message, hint=error.hint))
            return None
        self._tell(Status("ready"))
        return self._runtime

    def _settle_switch(self) -> None:
        """After `set_enabled`: unload what is not wanted, and say so."""
        if self._enabled:
            self._tell(Status("ready") if self._runtime else Status("starting"))
        else:
            self._unload()
            self._tell(Status("off"))

    def _unload(self) -> None:
        if self._runtime is not None:
            self._runtime.engine.close()
            self._runtime = None

    def _tell(self, status: Status) -> None:
        try:
            self._on_status(status)
        except Exception:  # whoever listens must not stop the worker
            logger.exception("a status listener failed")


def _same(left: CompletionRequest, right: CompletionRequest) -> bool:
    """Whether two requests ask the same thing (a popup and ghost text at one place)."""
    a, b = left.snapshot, right.snapshot
    same_text = a.uri == b.uri and a.version == b.version and a.text == b.text
    return same_text and (left.offset, left.selected, left.invoked) == (right.offset, right.selected, right.invoked)


def _nothing(request: CompletionRequest, finish: str) -> Completion:
    return Completion("", request.offset, request.offset, finish=finish)


def _answer(future: "Future[Completion]", completion: Completion) -> bool:
    """Give the answer unless there is one already, or nobody wants it."""
    try:
        future.set_result(completion)
    except InvalidStateError:
        return False
    return True
