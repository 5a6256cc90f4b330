"""The completion service: what a front asks of it, from any thread.

Owns how the parts are put together: the desk where requests wait, the worker that answers them, the host of the model.
Every request is answered exactly once, and no caller waits for the model: `submit` answers at once or hands a future.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict

import psutil

from fastcoder_lsp.completion.desk import Desk, Job, answer
from fastcoder_lsp.completion.host import Host, LoadRuntime
from fastcoder_lsp.completion.place import answering, nothing, place_of
from fastcoder_lsp.completion.policy import Policy
from fastcoder_lsp.completion.status import Statistics, Status
from fastcoder_lsp.completion.task import Clock
from fastcoder_lsp.completion.worker import Worker
from fastcoder_lsp.core import Completion, CompletionRequest
from fastcoder_lsp.observe import Spans


def _milliseconds() -> float:
    return time.monotonic() * 1e3


class CompletionService:
    """Turns requests into completions, one at a time, the latest first.

    Args:
        load: makes the model ready; called in the worker, at the first request and after `reload`.
        on_status: told every change of state, from the worker's thread.
        enabled: while False nothing is loaded and every request is answered empty.
        idle_s: after so many seconds without a request the worker prepares the document in view for the next one.
        clock: milliseconds.
        threaded: False where the caller drives `worker` itself, turn by turn.
    """

    def __init__(
        self,
        load: LoadRuntime,
        on_status: Callable[[Status], None],
        *,
        enabled: bool = True,
        idle_s: float = 1.0,
        clock: Clock = _milliseconds,
        threaded: bool = True,
    ) -> None:
        self._enabled = enabled
        self._desk = Desk(clock)
        self._host = Host(load, on_status, clock)
        self.worker = Worker(self._desk, self._host, idle_s * 1e3)
        self._process = psutil.Process()
        self._thread = threading.Thread(target=self.worker.run, name="fastcoder-worker", daemon=True)
        if threaded:
            self._thread.start()
        self._host.tell(Status("starting") if enabled else Status("off"))

    def submit(
        self, request: CompletionRequest, policy: Policy | None = None, waited_ms: float = 0.0
    ) -> "Future[Completion]":
        """Ask for a completion; every earlier request that is still open is answered empty at once ("superseded").

        Cancelling the future ends the work for it within a step; what was begun may serve the next request. Requests
        for the same place share one answer. Without a policy the answer is whole, however long it takes.

        `waited_ms`: for how long the client has waited already; its budget counts from there.
        """
        future: Future[Completion] = Future()
        desk, place = self._desk, place_of(request)
        with desk.changed:
            desk.asked_ms = desk.clock() - waited_ms
            job = Job(request, place, policy or Policy(), desk.asked_ms, [future], Spans(waited_ms))
            desk.tally.count("requests")
            future.add_done_callback(self._count_cancelled)
            if desk.closing or not self._enabled:
                answer(future, nothing(request, "off"))
            elif (rule := desk.unfit(job)) is not None:
                desk.supersede()
                desk.tally.suppressed(rule)
                answer(future, nothing(request, rule))
            elif recalled := desk.recall(job):
                desk.supersede()
                desk.tally.count("typed_through")
                completion = answering(request, recalled, "typed-through", job.spans.close())
                desk.saw(job, completion)
                answer(future, completion)
            elif (other := desk.sharing(request)) is not None:
                other.futures.append(future)
            else:
                desk.put(job)
        return future

    def accepted(self, request: CompletionRequest, policy: Policy) -> None:
        """A suggestion was taken whole: `request` is what will probably be asked next."""
        desk = self._desk
        with desk.changed:
            desk.asked_ms = desk.clock()
            desk.rejections.taken()
            if self._enabled and policy.ahead and desk.wanted() is None:
                desk.expect(Job(request, place_of(request), policy, desk.asked_ms, []))

    def preload(self) -> "Future[bool]":
        """Load the model now, before the first request; the answer is whether that went well."""
        future: Future[bool] = Future()
        self._leave(lambda: future.set_result(self._enabled and self._host.ready() is not None))
        return future

    def document_closed(self, uri: str) -> None:
        """Drop everything kept for a document."""
        with self._desk.changed:
            self._desk.memory.forget(uri)
        self._leave(lambda: self.worker.forget(uri))

    def document_renamed(self, old: str, new: str) -> None:
        """Carry what is kept for a document over to its new name."""
        with self._desk.changed:
            self._desk.memory.rename(old, new)
        self._leave(lambda: self.worker.rename(old, new))

    def set_enabled(self, enabled: bool) -> None:
        """Off unloads the model and answers everything empty; on loads it at the next request."""
        with self._desk.changed:
            self._enabled = enabled
            if not enabled:
                self._desk.supersede()
        self._leave(self._settle_switch)

    def reload(self, load: LoadRuntime) -> None:
        """Use another model or other settings from the next request on."""
        with self._desk.changed:
            self._desk.memory.clear()
            self._desk.supersede()
        self._leave(lambda: self.worker.use(load))

    def statistics(self) -> Statistics:
        """Counts since the start, percentiles of late."""
        budgets = self.worker.budgets
        ms = {name.removesuffix("_ms"): value for name, value in asdict(budgets).items()} if budgets else {}
        with self._desk.changed:
            return self._desk.tally.statistics(self._host.info, self._process.memory_info().rss, ms)

    def shutdown(self, wait_s: float = 2.0) -> None:
        """Answer what is open, stop the worker within a step, give the model's memory back."""
        desk = self._desk
        with desk.changed:
            desk.closing = True
            desk.supersede()
            desk.changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _leave(self, chore: Callable[[], None]) -> None:
        with self._desk.changed:
            self._desk.leave(chore)

    def _count_cancelled(self, future: "Future[Completion]") -> None:
        if future.cancelled():
            with self._desk.changed:
                self._desk.tally.count("cancelled")
                self._desk.changed.notify_all()

    def _settle_switch(self) -> None:
        """In the worker, after `set_enabled`: unload what is not wanted, and say so."""
        if self._enabled:
            self._host.tell(Status("ready") if self._host.runtime else Status("starting"))
        else:
            self.worker.drop_model()
            self._host.tell(Status("off"))
