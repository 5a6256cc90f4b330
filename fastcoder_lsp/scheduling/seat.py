"""A seat: one front's place at the model, and all that is known of what it wants.

Owns the front's newest question, what the model is saying for it, and what it will probably ask. The verbs may be
called from any thread; they are done in the scheduler's, in their order. Whose turn it is, is the scheduler's business.
"""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec

from fastcoder_lsp.completion.question import Answer, Clock, Listener, Question
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.background import Background
from fastcoder_lsp.scheduling.budget import CHUNK_MS, Allowance, Budgets
from fastcoder_lsp.scheduling.current import CurrentTask
from fastcoder_lsp.scheduling.model import Loaded, SeatModel
from fastcoder_lsp.scheduling.running import Running

Params = ParamSpec("Params")


def _posted(verb: "Callable[Concatenate[Seat, Params], None]") -> "Callable[Concatenate[Seat, Params], None]":
    """A verb that may be called from any thread; it is done in the scheduler's, unless the front has left by then."""

    def do(seat: "Seat", *arguments: Params.args, **named: Params.kwargs) -> None:
        if not seat.gone:
            verb(seat, *arguments, **named)

    @wraps(verb)
    def post(seat: "Seat", /, *arguments: Params.args, **named: Params.kwargs) -> None:
        seat.post(seat, partial(do, seat, *arguments, **named))

    return post


class Seat:
    """One front at the model: its newest question alone is worked on.

    Attributes:
        model: the model as this seat has it.
        post: leaves the scheduler a message of a seat's.
        enabled, gone: whether the front wants the model at all, and whether it has left.
        slot: the question whose answer somebody waits for.
        upcoming: what will be asked next, as it seems, and whether the answer is known.
        current: what the model is saying.
        budgets: of the last question; None before the first one.

    Args:
        listener: told what comes of it.
        model: made ready when it is first needed.
        post, ready, changed: of the scheduler: takes a message; makes the model ready; is told of one off, or gone.
        clock: milliseconds.
        idle_ms: after so long without a question the document in view is prepared for the next one.
    """

    def __init__(
        self,
        listener: Listener,
        model: SeatModel,
        post: "Callable[[Seat, Callable[[], None]], None]",
        ready: "Callable[[Seat], Loaded | None]",
        changed: "Callable[[Seat], None]",
        clock: Clock,
        idle_ms: float,
        *,
        enabled: bool,
    ) -> None:
        self.listener, self.model, self.post, self.enabled, self.gone = listener, model, post, enabled, False
        self._ready, self._changed, self._clock = ready, changed, clock
        self.slot: Running | None = None
        self._running: Running | None = None  # the question that is worked on
        self.upcoming: tuple[Question, bool] | None = None
        self.current = CurrentTask(clock, listener.worked)
        self._background = Background(self.current, clock, idle_ms, self._made, listener.counted)
        self._unserved: Question | None = None
        """The last question, where nothing could be shown for it: its text is made for whoever waits there."""
        self._allowance: Allowance | None = None
        """What may be done once the last question is answered."""
        self._asked_ms = clock()
        self.budgets: Budgets | None = None

    # From any thread, in the order of arrival ------------------------------------------------------------------------

    @_posted
    def ask(self, question: Question) -> None:
        """The newest question; nobody waits for an older one any more."""
        self._asked_ms, self._unserved, self.upcoming = question.asked_ms, None, None
        self.slot = Running(question, self._clock, self.current, self._made, self.listener.counted)

    @_posted
    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """Somebody asked, which needs no model; `answered`: nobody waits at the last place."""
        self._asked_ms = asked_ms
        if answered:
            self._unserved = None

    @_posted
    def withdraw(self, number: int) -> None:
        """Nobody waits for the answer to a question; what was begun for it may serve the next one."""
        if self.slot is not None and self.slot.question.number == number:
            self.slot = None

    @_posted
    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """What will be asked next; `known`: what follows there is; `unserved`: somebody waits there for a late text."""
        self._asked_ms, self.upcoming = question.asked_ms, (question, known)
        if unserved or known:
            self._unserved = question if unserved else None

    @_posted
    def forget(self, uri: str) -> None:
        """A document was closed."""
        if self.upcoming is not None and self.upcoming[0].uri == uri:
            self.upcoming = None
        self._drop_traces(uri)
        self.listener.forgotten(uri)  # once more: what was made since is about it, too
        self.current.forget(uri)
        self.model.forget(uri)

    @_posted
    def rename(self, old: str, new: str) -> None:
        """A document has another name: whoever waits for an answer in it goes on waiting."""
        if self.slot is not None:
            self.slot.renamed(old, new)
        if self.upcoming is not None and self.upcoming[0].uri == old:
            self.upcoming = self.upcoming[0].renamed(new), self.upcoming[1]
        self._drop_traces(old)
        self.current.rename(old, new)
        self.model.rename(old, new)

    def load(self, reply: Callable[[bool], object]) -> None:
        """Load the model now; `reply` is told whether that went well, whatever happens."""
        self.post(self, partial(self._load, reply))

    def enable(self, *, enabled: bool) -> None:
        """Off gives back what this front has of the model, and that itself once no front wants it."""
        self.enabled = enabled
        self._settle_switch()

    def leave(self) -> None:
        """The front is gone: what it has is given back within a piece of work."""
        self.gone, self.enabled = True, False
        self.post(self, self._left)

    def info(self) -> EngineInfo | None:
        """What engine runs, or None while none is loaded."""
        return loaded.runtime.info if (loaded := self.model.loaded) is not None else None

    # In the scheduler's thread ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Leave what nobody waits for any more."""
        if self._running is not None and self._running is not self.slot:
            self._leave(self._running)

    def serve(self, others_ms: float) -> None:
        """One piece of work for the question, or its answer.

        `others_ms`: what other seats do until it is this one's turn again; 0 where no other has a question.
        """
        slot = self.slot
        assert slot is not None, "there is a question"
        if not self._taken():
            self._take(slot)
            if not others_ms or self.slot is not slot or not self._taken():
                return  # what has arrived meanwhile is looked at first
        task, loaded, budgets = self.current.task, self.model.loaded, self.budgets
        assert task is not None and loaded is not None and budgets is not None, "it is worked on"  # noqa: PT018
        if (answer := slot.advance(loaded, task, budgets, others_ms)) is not None:
            self._answer(slot, answer)

    def piece_ms(self) -> float:
        """What the next piece for the question will take, as a rule."""
        task = self.current.task
        return task.piece_ms() if task is not None and self._taken() else CHUNK_MS

    def foresee(self) -> None:
        """Make what nobody waits for yet, or any more: what follows a suggestion that was taken whole, for one."""
        assert self.upcoming is not None, "something is expected"
        (question, known), self.upcoming = self.upcoming, None
        loaded = self.model.loaded or (self._ready(self) if question is self._unserved else None)
        if loaded is None:
            return
        self._allowance = Allowance.of(question, Budgets.of(question.policy, loaded.pace.costs))
        if not known and self.current.serving(question) is None:
            self.current.begin(loaded.runtime, loaded.pace, question, question.asked_ms, Spans(), ahead=True)

    def work_ahead(self) -> float:
        """One piece of what nobody waits for; returns 0, or for how many milliseconds there will be nothing to do."""
        loaded, allowance, unserved = self.model.loaded, self._allowance, self._unserved
        if loaded is None or allowance is None:
            return math.inf
        if unserved is not None and allowance.room_ms(owed=True) > 0 and self.current.serving(unserved) is None:
            # What an earlier question left, and this one took over, has gone another way than the user.
            self.current.begin(loaded.runtime, loaded.pace, unserved, unserved.asked_ms, Spans())
        return self._background.advance(loaded, allowance, self._asked_ms, unserved=unserved is not None)

    def fail(self, error: BaseException) -> None:
        """Whoever waits is told; what was being said is not to be trusted."""
        status = failure("An internal error occurred", error)
        running, self._running, self._allowance = self._running, None, None
        self.current.drop()
        if running is not None:
            self._answer(running, Answer.failed(status))
        self.listener.told(status)

    def replace(self, make: Callable[[], Loaded] | None = None) -> None:
        """The seat's part is made otherwise from now on; None: it is the model that is exchanged."""
        self.unload()
        self.model.replace(make)
        if self.enabled:
            self.listener.told(Status("starting"))

    def unload(self) -> None:
        """What the seat has of the model goes, and all that was said."""
        try:
            if self._running is not None:
                self._leave(self._running)
            self.listener.forgotten(None)
        finally:  # whether anybody is there to be told or not
            self.current.clear()
            self._background.clear()
            self._allowance = None
            self.model.unload()

    def _taken(self) -> bool:
        """Whether the question is worked on. What was said for it may be gone: its document was renamed, for one."""
        there = None not in (self._running, self.current.task, self.model.loaded, self.budgets)
        return there and self._running is self.slot

    def _take(self, slot: Running) -> None:
        self._running = slot  # from here on a failure of ours is its answer
        slot.queued()
        loaded = self.model.loaded or self._ready(self)
        if self.slot is not slot:  # taken back, or overtaken, while the model was loaded
            self._running = None
            return
        if loaded is None:
            self._running = None
            if self.model.failed is not None or not self.enabled:
                self._answer(slot, Answer.failed(self.model.failed))
            return  # it was exchanged while it was loaded: the other one is loaded at the next turn
        self.listener.told(Status("thinking"))
        self.budgets = Budgets.of(slot.question.policy, loaded.pace.costs)
        self._allowance = Allowance.of(slot.question, self.budgets)
        slot.take(loaded)

    def _answer(self, running: Running, answer: Answer) -> None:
        if self.slot is running:
            self.slot, self._unserved = None, running.question if answer.outcome == "empty" else None
        self.listener.answered(running.question.number, answer)

    def _leave(self, running: Running) -> None:
        """It is answered, or nobody wants the answer any more; what was begun for it stays."""
        self._running = None
        self.listener.worked(running.leave())
        self.listener.told(Status("ready"))

    def _made(self, suggestion: Suggestion) -> None:
        """The current task has said this."""
        task, unserved = self.current.task, self._unserved
        assert task is not None, "nothing is made without a task"
        self.current.said(suggestion)
        if unserved is not None and unserved.uri == task.snapshot.uri and suggestion.rest(unserved.place) is not None:
            self._unserved = None
        self.listener.made(task.snapshot.uri, suggestion)

    def _drop_traces(self, uri: str) -> None:
        """The document goes on under another name, or not at all: nobody waits there, nothing is prepared."""
        if self._unserved is not None and self._unserved.uri == uri:
            self._unserved = None
        if self._allowance is not None and self._allowance.question.uri == uri:
            self._allowance.prepare = False

    def _load(self, reply: Callable[[bool], object]) -> None:
        there = False
        try:
            there = self.enabled and self._ready(self) is not None
        finally:
            reply(there)

    def _left(self) -> None:
        self.slot = self.upcoming = self._unserved = None
        try:
            self.unload()
        finally:
            self._changed(self)

    @_posted
    def _settle_switch(self) -> None:
        if self.enabled:
            self.listener.told(Status("ready" if self.model.loaded else "starting"))
        else:
            self.unload()
            self._changed(self)
            self.listener.told(Status("off"))
