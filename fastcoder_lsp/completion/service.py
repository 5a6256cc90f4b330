"""The completion service: what a front asks of it, from any thread.

Owns how the parts are put together: the desk where requests wait, the worker that answers them, the host of the model.
Every request is answered exactly once, and no caller waits for the model: `submit` answers at once or hands a future.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import asdict

import psutil

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.desk import Desk, Job, answer
from fastcoder_lsp.completion.host import Host, LoadRuntime
from fastcoder_lsp.completion.pace import Clock
from fastcoder_lsp.completion.place import answering, nothing, place_of
from fastcoder_lsp.completion.policy import Policy
from fastcoder_lsp.completion.status import Statistics, Status
from fastcoder_lsp.completion.worker import Worker
from fastcoder_lsp.core import Completion, CompletionRequest, Late, Reason
from fastcoder_lsp.observe import Spans


def _milliseconds() -> float:
    return time.monotonic() * 1e3


def _nobody_waits(_: Late) -> None:
    pass


class CompletionService:
    """Turns requests into completions, one at a time, the latest first.

    Args:
        load: makes the model ready; called in the worker, at the first request and after `reload`.
        on_status: told every change of state, from the worker's thread.
        on_late: told, from the worker's thread, that more is known to go on at the place that was asked about last than
            its answer showed, nothing having been asked since.
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
        on_late: Callable[[Late], None] = _nobody_waits,
    ) -> None:
        self._enabled = enabled
        self._desk = Desk(clock)
        self._on_status, self._status = on_status, Status("starting")
        self._host = Host(load, self._told, clock)
        self.worker = Worker(self._desk, self._host, idle_s * 1e3, on_late)
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
                answer(future, nothing(request, "off", reasons.off()))
            elif (rule := desk.unfit(job)) is not None:
                self._supersede()
                desk.tally.suppressed(rule)
                answer(future, nothing(request, rule, reasons.unfit(rule)))
            elif recalled := desk.recall(job):
                self._supersede()
                desk.tally.count("typed_through")
                completion = answering(request, recalled, "typed-through", job.spans.close())
                desk.saw(job, completion)
                answer(future, completion)
            elif (other := desk.sharing(request)) is not None:
                other.futures.append(future)
            else:
                self._supersede()
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
        with self._desk.changed:
            if self._desk.closing:
                future.set_result(False)
            else:
                self._desk.leave(lambda: self._preload(future))
        return future

    def document_closed(self, uri: str) -> None:
        """Drop everything kept for a document."""
        with self._desk.changed:
            self._desk.closed(uri)
            self._desk.leave(lambda: self.worker.forget(uri))

    def document_renamed(self, old: str, new: str) -> None:
        """Carry what is kept for a document over to its new name."""
        with self._desk.changed:
            self._desk.renamed(old, new)
            self._desk.leave(lambda: self.worker.rename(old, new))

    def set_enabled(self, enabled: bool) -> None:
        """Off unloads the model and answers everything empty; on loads it at the next request."""
        with self._desk.changed:
            self._enabled = enabled
            if not enabled:
                self._supersede(reasons.off())
            self._desk.leave(self._settle_switch)

    def reload(self, load: LoadRuntime) -> None:
        """Use another model or other settings from the next request on."""
        with self._desk.changed:
            self._desk.memory.clear()
            self._supersede()
            self._desk.leave(lambda: self.worker.use(load))

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
            self._supersede()
            desk.changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _told(self, status: Status) -> None:
        self._status = status
        self._on_status(status)

    def _loading(self) -> bool:
        return self._status.state in {"starting", "loading"}

    def _supersede(self, reason: Reason | None = None) -> None:
        """Whoever waits is answered with nothing: something newer came, or `reason`."""
        self._desk.supersede(reason or (reasons.loading(self._status) if self._loading() else reasons.superseded()))

    def _count_cancelled(self, future: "Future[Completion]") -> None:
        if future.cancelled():
            with self._desk.changed:
                self._desk.tally.count("cancelled")
                if self._loading():
                    self._desk.given_up()
                self._desk.changed.notify_all()

    def _preload(self, future: "Future[bool]") -> None:
        """In the worker: whatever happens, whoever waits is told."""
        there = False
        try:
            there = self._enabled and not self._desk.closing and self.worker.ready() is not None
        finally:
            with suppress(InvalidStateError):  # nobody waits any more
                future.set_result(there)

    def _settle_switch(self) -> None:
        """In the worker, after `set_enabled`: unload what is not wanted, and say so."""
        if self._enabled:
            self._host.tell(Status("ready") if self._host.loaded else Status("starting"))
        else:
            self.worker.drop_model()
            self._host.tell(Status("off"))
