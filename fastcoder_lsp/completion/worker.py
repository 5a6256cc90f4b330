"""The worker: the one thread that touches the model, doing the most urgent piece of work first.

Owns the order of things: what callers left to do, the question that waits, and only then, while nobody asks, what is
worth doing unasked. A piece is a step or a stretch of a prefill; between any two everything is looked at anew, so that
what is more urgent waits for one piece at most. What a completion is made of stands in `task`.
"""

import logging
import math
from dataclasses import replace

from fastcoder_lsp.completion.ahead import Leisure
from fastcoder_lsp.completion.alternatives import Alternatives
from fastcoder_lsp.completion.budget import Budgets
from fastcoder_lsp.completion.composer import Composer
from fastcoder_lsp.completion.desk import Desk, Job
from fastcoder_lsp.completion.host import Host, LoadRuntime
from fastcoder_lsp.completion.place import answering, nothing
from fastcoder_lsp.completion.reuse import Suggestion
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.completion.task import Task
from fastcoder_lsp.errors import FastcoderError

logger = logging.getLogger(__name__)


class Worker:
    """Works for a desk, by a host's model.

    Args:
        desk: where the questions are.
        host: the model, loaded when first needed.
        idle_ms: after so long without a request the document in view is prepared for the next one.
    """

    def __init__(self, desk: Desk, host: Host, idle_ms: float) -> None:
        self._desk, self._host, self._clock = desk, host, desk.clock
        self.composer = Composer(desk, host)
        self._leisure = Leisure(desk, host, self.composer, idle_ms)
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
            wait_ms = self.turn()
            with desk.changed:
                if desk.closing:
                    break
                if wait_ms > 0 and not desk.busy():
                    desk.changed.wait(None if wait_ms == math.inf else wait_ms / 1e3)
        self.drop_model()

    def turn(self) -> float:
        """Do the most urgent piece of work; returns 0, or for how many milliseconds there will be nothing to do."""
        try:
            return self._turn()
        except FastcoderError as error:
            self._fail(Status("error", message=error.message, hint=error.hint))
        except Exception:  # a bug of ours must not cost the user every later completion
            logger.exception("the completion worker failed")
            self._fail(Status("error", message="An internal error occurred.", hint="See the log file."))
        return 0.0

    # What callers leave to do in this thread ------------------------------------------------------------------------

    def use(self, load: LoadRuntime) -> None:
        """Another model from the next request on."""
        self.drop_model()
        self._host.replace(load)

    def drop_model(self) -> None:
        """The model goes, and all that it was about to say."""
        self.composer.clear()
        self._leisure.forget()
        self._host.unload()

    def forget(self, uri: str) -> None:
        """A document was closed."""
        self.composer.forget(uri)
        self._leisure.forget(uri)
        if self._host.runtime is not None:
            self._host.runtime.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        self.composer.rename(old, new)
        self._leisure.forget(old)
        if self._host.runtime is not None:
            self._host.runtime.rename(old, new)

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
            if self._job is None:
                self._take(job)
            else:
                self._work_on(job)
            return 0.0
        if upcoming is not None:
            self._leisure.foresee(upcoming)
            return 0.0
        return self._leisure.advance()

    def _take(self, job: Job) -> None:
        """A new question: what is being said may serve it, or gives way to it."""
        self._job = job  # from here on a failure of ours is its answer
        job.spans.add("queue", job.spans.elapsed_ms())
        runtime = self._host.ready()
        if runtime is None:
            self._job = None
            with self._desk.changed:
                self._desk.answer(job, nothing(job.request, "error"), "failed")
            return
        self._host.tell(Status("thinking"))
        self.budgets = Budgets.of(job.policy, runtime.costs)
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

    def _work_on(self, job: Job) -> None:
        """One piece of work for the question, or its answer."""
        composer, task, budgets, pace = self.composer, self.composer.task, self.budgets, self._host.pace
        assert task is not None, "a question that was taken has a task"
        assert budgets is not None
        assert pace is not None
        now, ready = self._clock(), self._host.ready_since
        patient = job.request.invoked or job.asked_ms < ready  # who waited for the model waits for its answer, too
        budget = (budgets.invoked_ms if patient else budgets.automatic_ms) - pace.answer_ms()
        room = max(job.asked_ms, ready) + budget - now
        if task.finished:
            if not task.agrees(job.place):  # post-processing took another way than the user
                composer.begin(job.request, job.asked_ms, job.spans)
            elif not self._look_further(job, task, room):
                self._answer(job, task, self._candidates(task), task.finish)
            return
        overdue = job.adopted and now >= max(composer.begun_ms, ready) + budget
        if overdue and self._answer_with_beginning(job, task):
            return
        if not composer.advance(room) and not self._answer_with_beginning(job, task):
            with self._desk.changed:
                self._desk.tally.count("budgeted_empty")
            self._answer(job, task, Suggestion(job.place.before, job.place.after, ""), "budget")

    def _look_further(self, job: Job, task: Task, room_ms: float) -> bool:
        """One piece of work on other candidates; False where no more are wanted, to be had, or in time."""
        runtime, pace = self._host.runtime, self._host.pace
        if job.alternatives < 2 or runtime is None or pace is None:
            return False
        if self._alternatives is None:
            self.composer.remember(task.made())
            self._alternatives = Alternatives(runtime, pace, self._clock, task, job.alternatives)
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
        if self._host.pace is not None:
            self._host.pace.begun(self._clock() - begun_ms)
        if beginning.rest(job.place.before, job.place.after) is None:
            return False
        with self._desk.changed:
            self._desk.tally.count("budgeted")
        self._answer(job, task, beginning, "budget")
        return True

    def _answer(self, job: Job, task: Task, suggestion: Suggestion, finish: str) -> None:
        """Answer with what `suggestion` holds for the question's place, and remember it."""
        info = self._host.info
        assert info is not None
        candidates = (suggestion, *(suggestion.others or ()))
        rests = [rest for one in candidates if (rest := one.rest(job.place.before, job.place.after)) is not None]
        work, ms = task.work().since(job.before), job.spans.close()
        completion = replace(
            answering(job.request, rests, finish, ms),
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
            with self._desk.changed:
                self._desk.answer(job, nothing(job.request, "error"), "failed")
        self._host.tell(status)
