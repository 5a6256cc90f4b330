"""The worker: the one thread that touches the model, doing the most urgent piece of work first.

Owns the order of things: what callers left to do, the question that waits, and only then, while nobody asks, what is
worth doing unasked. A piece is a step or a stretch of a prefill; between any two everything is looked at anew, so that
what is more urgent waits for one piece at most. What a completion is made of stands in `task`.
"""

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.ahead import Leisure
from fastcoder_lsp.completion.alternatives import Alternatives
from fastcoder_lsp.completion.budget import Budgets
from fastcoder_lsp.completion.composer import Composer
from fastcoder_lsp.completion.desk import Desk, Job
from fastcoder_lsp.completion.host import Host, Loaded, LoadRuntime
from fastcoder_lsp.completion.place import answering, nothing
from fastcoder_lsp.completion.reuse import Suggestion
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.task import Task
from fastcoder_lsp.core import Late, Reason
from fastcoder_lsp.errors import FastcoderError

logger = logging.getLogger(__name__)

_TRIED = 2
"""The first pieces for a question, a stretch of its prompt and a step, are done even where they seem not to fit, while
half of its time is left: what was learnt of a slow hour is found wrong by trying alone."""


class Worker:
    """Works for a desk, by a host's model.

    Args:
        desk: where the questions are.
        host: the model, loaded when first needed.
        idle_ms: after so long without a request the document in view is prepared for the next one.
        on_late: told of what was made after its question had to be answered.
    """

    def __init__(self, desk: Desk, host: Host, idle_ms: float, on_late: Callable[[Late], None]) -> None:
        self._desk, self._host, self._clock = desk, host, desk.clock
        self.composer = Composer(desk, host)
        self._leisure = Leisure(desk, host, self.composer, idle_ms, on_late)
        self._job: Job | None = None
        """The question that is worked on."""
        self._alternatives: Alternatives | None = None
        """More candidates for it, where they are wanted."""
        self.budgets: Budgets | None = None
        """Of the last question."""

    def run(self) -> None:
        """Work until the desk closes."""
        desk = self._desk
        while True:
            try:
                wait_ms = self.turn()
            except BaseException as error:  # libraries written in Rust raise what is no Exception; the thread goes on
                logger.exception("the completion worker failed")
                self._fail(failure("An internal error occurred", error))
                wait_ms = 0.0
            with desk.changed:
                if desk.closing:
                    break
                if wait_ms > 0 and not desk.busy():
                    desk.changed.wait(None if wait_ms == math.inf else wait_ms / 1e3)
        self.drop_model()
        while (chore := desk.chore()) is not None:  # somebody may wait for it
            with suppress(Exception):
                chore()

    def turn(self) -> float:
        """Do the most urgent piece of work; returns 0, or for how many milliseconds there will be nothing to do."""
        try:
            return self._turn()
        except FastcoderError as error:
            self._fail(Status("error", message=error.message, hint=error.hint))
        except Exception as error:  # a bug of ours must not cost the user every later completion
            logger.exception("the completion worker failed")
            self._fail(failure("An internal error occurred", error))
        return 0.0

    # What callers leave to do in this thread ------------------------------------------------------------------------

    def ready(self) -> Loaded | None:
        """The model, loaded if need be; from then on runs the time of whoever waits for it."""
        before, loaded = self._host.loaded, self._host.ready()
        if loaded is not before:
            with self._desk.changed:
                self._desk.loaded()
        return loaded

    def use(self, load: LoadRuntime) -> None:
        """Another model from the next request on."""
        self.drop_model()
        self._host.replace(load)

    def drop_model(self) -> None:
        """The model goes, and all that it said."""
        with self._desk.changed:
            self._desk.memory.clear()
        self.composer.clear()
        self._leisure.forget()
        self._host.unload()

    def forget(self, uri: str) -> None:
        """A document was closed."""
        with self._desk.changed:  # once more: what was made since is about it, too
            self._desk.memory.forget(uri)
        self.composer.forget(uri)
        self._leisure.forget(uri)
        if self._host.loaded is not None:
            self._host.loaded.runtime.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        self.composer.rename(old, new)
        self._leisure.forget(old)
        if self._host.loaded is not None:
            self._host.loaded.runtime.rename(old, new)

    # ----------------------------------------------------------------------------------------------------------------

    def _turn(self) -> float:
        with self._desk.changed:
            chore, job = self._desk.chore(), self._desk.wanted()
            upcoming = self._desk.upcoming() if chore is None and job is None else None
        if chore is not None:
            chore()
            return 0.0
        if self._job is not None and job is not self._job:
            self._leave_job()
        if job is not None:
            # What was said for it may be gone: its document was renamed, or the model was exchanged.
            if self._job is None or self.composer.task is None or self._host.loaded is None:
                self._take(job)
            else:
                self._work_on(job, self.composer.task, self._host.loaded)
            return 0.0
        if upcoming is not None:
            self._leisure.foresee(upcoming)
            return 0.0
        return self._leisure.advance()

    def _take(self, job: Job) -> None:
        """A new question: what is being said may serve it, or gives way to it."""
        self._job, self._alternatives = job, None  # from here on a failure of ours is its answer
        job.spans.add("queue", job.spans.elapsed_ms())
        loaded = self.ready()
        if loaded is None:
            self._job = None
            self._answer_failed(job, self._host.failed)
            return
        self._host.tell(Status("thinking"))
        self.budgets = Budgets.of(job.policy, loaded.pace.costs)
        self._leisure.grant(job, self.budgets)
        composer = self.composer
        task = composer.serving(job.request.snapshot.uri, job.place)
        if task is None or (job.alternatives > 1 and task.place != job.place):
            composer.begin(job.request, job.asked_ms, job.spans)
            return
        job.adopted, job.before = not composer.ahead, task.work()
        if composer.ahead:
            composer.ahead, composer.begun_ms = False, job.asked_ms
        with self._desk.changed:
            self._desk.tally.count("adopted")
        task.measured_by(job.spans)

    def _work_on(self, job: Job, task: Task, loaded: Loaded) -> None:
        """One piece of work for the question, or its answer."""
        composer, now = self.composer, self._clock()
        allowed_ms = self._allowed_ms(job)
        budget_ms = allowed_ms - loaded.pace.answer_ms()
        room = job.asked_ms + budget_ms - now
        if task.finished:
            if not task.agrees(job.place):  # post-processing took another way than the user
                composer.begin(job.request, job.asked_ms, job.spans)
            elif not self._look_further(job, task, room):
                self._answer(job, task, self._candidates(task), task.finish, task.why_nothing())
            return
        overdue = job.adopted and now >= composer.begun_ms + budget_ms
        if overdue and self._answer_with_beginning(job, task):
            return
        if task.advance(room):
            job.pieces += 1
        elif self._answer_with_beginning(job, task):
            return
        elif job.pieces < _TRIED and 2 * room > budget_ms:
            job.pieces += task.advance(room, in_any_case=True)
        else:
            with self._desk.changed:
                self._desk.tally.count("budgeted_empty")
            too_slow = reasons.slow(allowed_ms, max(now - job.asked_ms - allowed_ms, 0.0) + task.line_ms())
            self._answer(job, task, Suggestion(job.place.before, job.place.after, ""), "budget", too_slow)

    def _allowed_ms(self, job: Job) -> float:
        """What the question may take from when it was asked, or the model was there."""
        assert self.budgets is not None, "a question that was taken has a budget"
        return self.budgets.invoked_ms if job.patient or job.request.invoked else self.budgets.automatic_ms

    def _look_further(self, job: Job, task: Task, room_ms: float) -> bool:
        """One piece of work on other candidates; False where no more are wanted, to be had, or in time."""
        loaded = self._host.loaded
        if job.alternatives < 2 or loaded is None:
            return False
        if self._alternatives is None:
            self.composer.remember(task.made())
            self._alternatives = Alternatives(loaded.runtime, loaded.pace, self._clock, task, job.alternatives)
        alternatives = self._alternatives
        if not alternatives.finished and not alternatives.advance(room_ms):
            alternatives.close()
        return not alternatives.finished

    def _candidates(self, task: Task) -> Suggestion:
        """What the task has made, with the other candidates if they were looked for."""
        if self._alternatives is None:
            return task.made()
        first, *others = self._alternatives.found
        for other in reversed(others):
            self.composer.remember(other)
        with self._desk.changed:
            self._desk.tally.count("alternatives", len(others))
        return replace(first, others=tuple(others))

    def _answer_with_beginning(self, job: Job, task: Task) -> bool:
        """Answer with what can be shown of an unfinished text; False where that is nothing."""
        begun_ms = self._clock()
        with job.spans.measure("post"):
            beginning = task.useful()
        if self._host.loaded is not None:
            self._host.loaded.pace.begun(self._clock() - begun_ms)
        if beginning.rest(job.place.before, job.place.after) is None:
            return False
        with self._desk.changed:
            self._desk.tally.count("budgeted")
        self._answer(job, task, beginning, "budget", task.why_nothing())
        return True

    def _answer(self, job: Job, task: Task, suggestion: Suggestion, finish: str, why_nothing: Reason) -> None:
        """Answer with what `suggestion` holds for the question's place, and remember it."""
        info = self._host.info
        assert info is not None
        candidates = (suggestion, *(suggestion.others or ()))
        rests = [rest for one in candidates if (rest := one.rest(job.place.before, job.place.after)) is not None]
        work, ms = task.work().since(job.before), job.spans.close()
        request = job.request
        completion = replace(
            answering(request, rests, finish, ms) if rests else nothing(request, finish, why_nothing, ms),
            model=info.model,
            engine=info.name,
            steps=work.steps,
            tokens=work.tokens,
            accepted=work.accepted,
            prefilled=work.prefilled,
            reused=work.reused,
            accepted_by_source=work.by_source,
            trace=task.trace(),
        )
        self.composer.count()
        self.composer.remember(suggestion)
        with self._desk.changed:
            self._desk.tally.took(ms)
            self._desk.answer(job, completion, "shown" if completion.text else "empty")

    def _answer_failed(self, job: Job, status: Status | None) -> None:
        """There is no answer; `status` says why."""
        with self._desk.changed:
            reason = reasons.failed(status or Status("error"))
            self._desk.answer(job, nothing(job.request, "error", reason), "failed")

    def _leave_job(self) -> None:
        """It is answered, or nobody wants the answer any more; what was begun for it stays."""
        self._job = None
        self.composer.rest()
        if self._alternatives is not None:
            with self._desk.changed:
                self._desk.tally.worked(self._alternatives.work)
            self._alternatives = None
        self._host.tell(Status("ready"))

    def _fail(self, status: Status) -> None:
        """Whoever waits is told; what was being said is not to be trusted."""
        job, self._job, self._alternatives = self._job, None, None
        self.composer.drop()
        self._leisure.forget()
        if job is not None:
            self._answer_failed(job, status)
        self._host.tell(status)
