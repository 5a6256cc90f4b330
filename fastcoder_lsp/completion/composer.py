"""The one completion that is in the making, and what becomes of it.

Owns the task that the model works on: how it begins, that its work is counted, that what it said is remembered, whole
for those who type along it, in pieces as a guess for those who do not. Runs in the service's worker.
"""

from fastcoder_lsp.completion.desk import Desk
from fastcoder_lsp.completion.host import Host
from fastcoder_lsp.completion.outdated import Outdated
from fastcoder_lsp.completion.place import Place, place_of
from fastcoder_lsp.completion.reuse import Suggestion
from fastcoder_lsp.completion.task import Task, Work, begin
from fastcoder_lsp.core import CompletionRequest
from fastcoder_lsp.observe import Spans


class Composer:
    """What the model is saying.

    `task`: that, if anything. `begun_ms`: when the first question was asked that the task goes back to. `ahead`: nobody
    has asked for it.
    """

    def __init__(self, desk: Desk, host: Host) -> None:
        self._desk, self._host = desk, host
        self._outdated = Outdated()
        self._counted = Work()
        self.task: Task | None = None
        self.begun_ms = 0.0
        self.ahead = False

    def serving(self, uri: str, place: Place) -> Task | None:
        """The task, if what it says is what is wanted at `place` too."""
        task = self.task
        return task if task is not None and task.snapshot.uri == uri and task.agrees(place) else None

    def begin(self, request: CompletionRequest, asked_ms: float, spans: Spans, *, ahead: bool = False) -> None:
        """A new task; what the old one had said is outdated."""
        loaded = self._host.loaded
        assert loaded is not None
        self.give_up()
        place, uri = place_of(request), request.snapshot.uri
        self.task = begin(
            loaded.runtime,
            loaded.pace,
            self._desk.clock,
            request.snapshot,
            place,
            max_tokens=request.max_tokens,
            expected=self._outdated.expected(uri, place),
            spans=spans,
        )
        self.begun_ms, self.ahead = asked_ms, ahead

    def remember(self, suggestion: Suggestion) -> None:
        """The task has said this: it is suggested from now on wherever it fits."""
        assert self.task is not None
        uri = self.task.snapshot.uri
        self._outdated.keep(uri, suggestion)
        with self._desk.changed:
            self._desk.memory.remember(uri, suggestion)

    def count(self) -> None:
        """Count what was done since it was counted last."""
        if self.task is not None:
            work = self.task.work()
            with self._desk.changed:
                self._desk.tally.worked(work.since(self._counted))
            self._counted = work

    def rest(self) -> None:
        """Nobody waits for the task: what is done for it from now on is nobody's time."""
        if self.task is not None:
            self.count()
            self.task.measured_by(Spans())

    def give_up(self) -> None:
        """What was being said is of no use any more but as a guess."""
        task = self.task
        if task is not None:
            self.count()
            self._outdated.keep(task.snapshot.uri, Suggestion(task.place.before, task.place.after, task.said()))
        self.drop()

    def drop(self) -> None:
        """What was being said is not to be trusted."""
        self.task, self._counted, self.ahead = None, Work(), False

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
