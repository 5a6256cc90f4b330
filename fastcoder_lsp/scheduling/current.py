"""The one task that the model has for a seat, and what becomes of it: it serves other questions, rests, or is given up.

Runs in the scheduler's thread.
"""

from collections.abc import Callable
from dataclasses import replace

from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.completion.suggestions import OutdatedSuggestions, Suggestion
from fastcoder_lsp.core import Counts
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import Pace, first_tokens
from fastcoder_lsp.scheduling.task import Task, begin


class CurrentTask:
    """The one task that the model works on, and what becomes of it.

    Attributes:
        task: that, if there is one.
        begun_ms: when the first question was asked that it goes back to.
        ahead: nobody has asked for it.

    Args:
        clock: milliseconds.
        on_counted: told what was done since it was told last.
    """

    def __init__(self, clock: Clock, on_counted: Callable[[Counts], None]) -> None:
        self._clock, self._on_counted = clock, on_counted
        self._outdated, self._counted = OutdatedSuggestions(), Counts()
        self.task: Task | None = None
        self.begun_ms, self.ahead = 0.0, False

    def serving(self, question: Question) -> Task | None:
        """The task, if what it says is what is wanted by `question` too."""
        task = self.task
        return task if task is not None and task.snapshot.uri == question.uri and task.agrees(question.place) else None

    def begin(
        self,
        runtime: Runtime,
        pace: Pace,
        question: Question,
        asked_ms: float,
        spans: Spans,
        *,
        ahead: bool = False,
        whole: bool = False,
    ) -> None:
        """A new one for `question`; what the old one had said is outdated. `whole`: by the whole prompt."""
        self.give_up()
        expected = self._outdated.expected(question.uri, question.place)
        request, place, hurried, room = question.request, question.place, question.hurried, first_tokens(question, pace)
        self.task = begin(
            runtime, pace, self._clock, request, place, expected, spans, hurried=hurried, room=room, whole=whole
        )
        self.begun_ms, self.ahead = asked_ms, ahead

    def adopt(self, asked_ms: float, spans: Spans) -> bool:
        """A question is served by it, to which its time belongs from now on; whether it was another question's."""
        assert self.task is not None
        self.task.measured_by(spans)
        if self.ahead:
            self.ahead, self.begun_ms = False, asked_ms
            return False
        return True

    def said(self, suggestion: Suggestion) -> None:
        """The task has said this: where it fits no more it is a guess at what comes."""
        assert self.task is not None
        if suggestion.text:
            self._outdated.keep(self.task.snapshot.uri, replace(suggestion, work=None))

    def count(self) -> None:
        """Tell what was done since it was told last."""
        if self.task is not None:
            counts = self.task.counts()
            self._on_counted(counts - self._counted)
            self._counted = counts

    def rest(self) -> None:
        """Nobody waits for it: what is done for it from now on is nobody's time."""
        if self.task is not None:
            self.count()
            self.task.measured_by(Spans())

    def give_up(self) -> None:
        """What was being said is of no use any more but as a guess."""
        if self.task is not None:
            self.count()
            self.said(Suggestion(self.task.place, self.task.said()))
        self.drop()

    def drop(self) -> None:
        """What was being said is not to be trusted."""
        self.task, self._counted, self.ahead = None, Counts(), False

    def forget(self, uri: str) -> None:
        """A document was closed."""
        if self.task is not None and self.task.snapshot.uri == uri:
            self.give_up()
        self._outdated.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """A document has another name."""
        if self.task is not None and self.task.snapshot.uri == old:
            self.give_up()
        self._outdated.rename(old, new)

    def clear(self) -> None:
        """Another model would say something else."""
        self.drop()
        self._outdated.clear()
