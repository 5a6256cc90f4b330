"""A question that is being worked on, piece by piece, up to the answer.

Owns the order of things for one question: what is being said may serve it, or gives way to a new task; pieces are done
as long as its budget holds them; its answer is all that was said, or at the deadline the longest beginning worth
showing. Runs in the scheduler's thread.
"""

from collections.abc import Callable
from dataclasses import replace

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Answer, Clock, Question
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import Counts, Reason
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.alternatives import Alternatives
from fastcoder_lsp.scheduling.budget import MOST_MS, Budgets
from fastcoder_lsp.scheduling.current import CurrentTask
from fastcoder_lsp.scheduling.model import Loaded
from fastcoder_lsp.scheduling.task import Task

_TRIED = 2
"""The first pieces for a question, a stretch of its prompt and a step, are done even where they seem not to fit, while
half of its time is left: what was learnt of a slow hour is found wrong by trying alone."""


class Running:
    """A question and the work for it.

    Attributes:
        question: that.

    Args:
        question: as it has arrived.
        clock: milliseconds.
        current: what the model is saying.
        on_made: told of every suggestion that it makes.
        on_counted: told so many more of a field of `Statistics`.
    """

    def __init__(
        self,
        question: Question,
        clock: Clock,
        current: CurrentTask,
        on_made: Callable[[Suggestion], None],
        on_counted: Callable[[str, int], None],
    ) -> None:
        self.question = question
        self._clock, self._current, self._on_made, self._on_counted = clock, current, on_made, on_counted
        self._spans = Spans.since(question.opened_s)
        self._asked_ms, self._patient = question.asked_ms, False
        self._adopted, self._before = False, Counts()
        self._pieces = 0
        self._better = False
        self._alternatives: Alternatives | None = None

    @property
    def branch(self) -> Task | None:
        """The other candidate that is being said, if one is."""
        return self._alternatives.task if self._alternatives is not None else None

    def waited_for_model(self) -> None:
        """The model is there now: whoever waited for that has all the time of who asked by a key, or more if it had."""
        now = self._clock()
        if self._asked_ms != now:
            self._asked_ms, self._patient = now, True

    def renamed(self, old: str, new: str) -> None:
        """A document has another name: what was said for it is gone, and begun anew."""
        if self.question.uri == old:
            self.question = self.question.renamed(new)

    def queued(self) -> None:
        """The question's turn has come."""
        self._spans.add("queue", self._spans.elapsed_ms())

    def take(self, loaded: Loaded) -> None:
        """What is being said may serve it, or gives way to it."""
        self._alternatives = None
        question, current = self.question, self._current
        task = current.serving(question)
        if question.request.invoked and task is not None and task.finished and task.interim:
            self._better = True  # its text is shown: who asks again by a key waits for the better one
            self._begin(loaded, whole=True)
            return
        if task is None or (question.candidates > 1 and not self._branches_from(task, loaded)):
            self._begin(loaded)
            return
        self._before, self._adopted = task.counts(), current.adopt(self._asked_ms, self._spans)
        self._on_counted("adopted", 1)

    def advance(self, loaded: Loaded, task: Task, budgets: Budgets, others_ms: float = 0.0) -> Answer | None:
        """Do one piece of work, or give the answer.

        `others_ms`: what others do then until the next piece of this one. What would be too late after that, is
        answered now.
        """
        allowed_ms = self._allowed_ms(budgets)
        budget_ms = allowed_ms - loaded.pace.answer_ms()
        answer = self._advance(loaded, task, allowed_ms, budget_ms)
        if answer is None and others_ms and self._current.task is task:
            return self._before_others(loaded, task, allowed_ms, budget_ms, self._clock() + others_ms)
        return answer

    def leave(self) -> Counts:
        """It is answered, or nobody wants the answer any more. Returns what other candidates took."""
        alternatives, self._alternatives = self._alternatives, None
        self._current.rest()
        return alternatives.counts if alternatives is not None else Counts()

    def _allowed_ms(self, budgets: Budgets) -> float:
        if self._patient:
            return max(budgets.invoked_ms, budgets.automatic_ms)
        if self._better and not self.question.policy.invoked_ms:
            return max(budgets.invoked_ms, MOST_MS)
        return budgets.invoked_ms if self.question.request.invoked else budgets.automatic_ms

    def _advance(self, loaded: Loaded, task: Task, allowed_ms: float, budget_ms: float) -> Answer | None:
        now = self._clock()
        room_ms = self._asked_ms + budget_ms - now
        if task.finished:
            return self._finished(loaded, task, room_ms)
        if self._overdue(budget_ms, now) and (answer := self._beginning(loaded, task)) is not None:
            return answer
        if task.advance(room_ms):
            self._pieces += 1
            return None
        if (answer := self._beginning(loaded, task)) is not None:
            return answer
        if self._tries(room_ms, budget_ms):
            self._pieces += task.advance(room_ms, in_any_case=True)
            return None
        return self._too_slow(loaded, task, allowed_ms)

    def _before_others(
        self, loaded: Loaded, task: Task, allowed_ms: float, budget_ms: float, next_ms: float
    ) -> Answer | None:
        """What there is to answer, if nothing more can be done for it when its turn comes again."""
        if task.finished:
            done = self.question.candidates < 2 and task.agrees(self.question.place)
            return self._finished(loaded, task, 0.0) if done else None
        room_ms = self._asked_ms + budget_ms - next_ms
        fits = task.fits(room_ms)
        if fits and not self._overdue(budget_ms, next_ms):
            return None
        if (answer := self._beginning(loaded, task)) is not None or fits or self._tries(room_ms, budget_ms):
            return answer
        return self._too_slow(loaded, task, allowed_ms)

    def _branches_from(self, task: Task, loaded: Loaded) -> bool:
        """Whether other candidates can part from what it says, in the KV cache that the document has now."""
        return task.place == self.question.place and task.goes_on(loaded.runtime)

    def _tries(self, room_ms: float, budget_ms: float) -> bool:
        """Whether a piece is done even where it seems not to fit."""
        return self._pieces < _TRIED and 2 * room_ms > budget_ms

    def _overdue(self, budget_ms: float, now: float) -> bool:
        """Whether it was another question's, whose time is over."""
        return self._adopted and now >= self._current.begun_ms + budget_ms

    def _begin(self, loaded: Loaded, *, whole: bool = False) -> None:
        self._adopted, self._before = False, Counts()
        self._current.begin(loaded.runtime, loaded.pace, self.question, self._asked_ms, self._spans, whole=whole)

    def _finished(self, loaded: Loaded, task: Task, room_ms: float) -> Answer | None:
        """All is said: that is the answer, unless other candidates are wanted."""
        if not task.agrees(self.question.place):  # post-processing took another way than the user
            self._begin(loaded)
            return None
        if self._look_further(loaded, task, room_ms):
            return None
        return self._answer(loaded, task, self._candidates(task), task.finish)

    def _look_further(self, loaded: Loaded, task: Task, room_ms: float) -> bool:
        """One piece of work on other candidates; False where no more are wanted, to be had, or in time."""
        if self.question.candidates < 2:
            return False
        if self._alternatives is None:
            self._on_made(task.made())
            self._alternatives = Alternatives(loaded.runtime, loaded.pace, self._clock, task, self.question.candidates)
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
            self._on_made(other)
        self._on_counted("alternatives", len(others))
        return replace(first, others=tuple(others))

    def _beginning(self, loaded: Loaded, task: Task) -> Answer | None:
        """What can be shown of an unfinished text; None where that is nothing."""
        begun_ms = self._clock()
        with self._spans.measure("post"):
            beginning = task.useful()
        loaded.pace.begun(self._clock() - begun_ms)
        if beginning.rest(self.question.place) is None:
            return None
        self._on_counted("budgeted", 1)
        return self._answer(loaded, task, beginning, "budget")

    def _too_slow(self, loaded: Loaded, task: Task, allowed_ms: float) -> Answer:
        """There is nothing to show, and no time."""
        self._on_counted("budgeted_empty", 1)
        over_ms = max(self._clock() - self._asked_ms - allowed_ms, 0.0)
        too_slow = reasons.slow("", allowed_ms, over_ms + task.line_ms(), invoked=self.question.request.invoked)
        return self._answer(loaded, task, Suggestion(self.question.place, ""), "budget", too_slow)

    def _answer(
        self, loaded: Loaded, task: Task, suggestion: Suggestion, finish: str, reason: Reason | None = None
    ) -> Answer:
        """What `suggestion` holds for the question's place; `reason`: why that is nothing, if it is not the task's."""
        question = self.question
        held = not question.request.invoked and question.place == task.place and task.doubtful(suggestion)
        candidates = () if held else (suggestion, *(suggestion.others or ()))
        rests = [rest for one in candidates if (rest := one.rest(self.question.place)) is not None]
        info = loaded.runtime.info
        answer = Answer(
            "shown" if rests else "empty",
            tuple(rests),
            finish,
            reason=None if rests else reasons.unsure() if held else reason or task.why_nothing(),
            counts=task.counts() - self._before,
            ms=self._spans.close(),
            model=info.model,
            engine=info.name,
            trace=task.trace(),
            context=task.context,
        )
        self._current.count()
        if not held:
            self._on_made(suggestion)
        return answer
