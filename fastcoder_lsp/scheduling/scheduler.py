"""The scheduler: one thread that touches the model, and does the most urgent piece of work first.

A question arrives by `ask`, from any thread, and waits in the inbox. Between any two pieces of work, a stretch of a
prefill or a step, all that has arrived is looked at; the newest question takes the one slot. `turn` is the whole cycle:
what arrived, then a piece for the question in the slot, and while there is none, a piece of what nobody waits for. The
state belongs to this thread: others leave messages in the inbox. What comes of it is told to a `Listener`.
"""

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from queue import Empty, SimpleQueue
from typing import Concatenate, ParamSpec

from fastcoder_lsp.completion.question import Answer, Listener, Question
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.background import Background
from fastcoder_lsp.scheduling.budget import Allowance, Budgets, Clock
from fastcoder_lsp.scheduling.model import LazyModel, Loaded, LoadRuntime
from fastcoder_lsp.scheduling.running import CurrentTask, Running

Params = ParamSpec("Params")


def _posted(verb: "Callable[Concatenate[Scheduler, Params], None]") -> "Callable[Concatenate[Scheduler, Params], None]":
    """A verb that may be called from any thread; it is done in the scheduler's, between two pieces of work."""

    @wraps(verb)
    def post(scheduler: "Scheduler", /, *arguments: Params.args, **named: Params.kwargs) -> None:
        scheduler.inbox.put(partial(verb, scheduler, *arguments, **named))

    return post


class Scheduler:
    """Works on one question at a time, the latest.

    Attributes:
        current: what the model is saying.
        budgets: of the last question; None before the first one.

    Args:
        load: makes the model ready; called in the scheduler's thread, when it is first needed.
        listener: told what comes of it.
        clock: milliseconds.
        idle_ms: after so long without a question the document in view is prepared for the next one.
        enabled: while False no model is loaded.
    """

    def __init__(
        self, load: LoadRuntime, listener: Listener, clock: Clock, idle_ms: float, *, enabled: bool = True
    ) -> None:
        self._listener, self._clock = listener, clock
        self._enabled, self._closing = enabled, False
        self.inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._arrived: deque[Callable[[], None]] = deque()
        self._model = LazyModel(load, listener.told, clock)
        self.current = CurrentTask(clock, listener.worked)
        self._background = Background(self.current, clock, idle_ms, self._made, listener.counted)
        self._slot: Running | None = None  # the question whose answer somebody waits for
        self._running: Running | None = None  # the one that is worked on
        self._upcoming: tuple[Question, bool] | None = None
        """What will be asked next, as it seems, and whether the answer is known."""
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
        self._asked_ms, self._unserved, self._upcoming = question.asked_ms, None, None
        self._slot = Running(question, self._clock, self.current, self._made, self._listener.counted)

    @_posted
    def noticed(self, asked_ms: float, *, answered: bool) -> None:
        """Somebody asked, which needs no model; `answered`: nobody waits at the last place."""
        self._asked_ms = asked_ms
        if answered:
            self._unserved = None

    @_posted
    def withdraw(self, number: int) -> None:
        """Nobody waits for the answer to a question; what was begun for it may serve the next one."""
        if self._slot is not None and self._slot.question.number == number:
            self._slot = None

    @_posted
    def expect(self, question: Question, *, known: bool, unserved: bool) -> None:
        """What will be asked next; `known`: what follows there is; `unserved`: somebody waits there for a late text."""
        self._asked_ms, self._upcoming = question.asked_ms, (question, known)
        if unserved:
            self._unserved = question

    @_posted
    def forget(self, uri: str) -> None:
        """A document was closed."""
        if self._upcoming is not None and self._upcoming[0].uri == uri:
            self._upcoming = None
        self._drop_traces(uri)
        self._listener.forgotten(uri)  # once more: what was made since is about it, too
        self.current.forget(uri)
        self._model.forget(uri)

    @_posted
    def rename(self, old: str, new: str) -> None:
        """A document has another name: whoever waits for an answer in it goes on waiting."""
        if self._slot is not None:
            self._slot.renamed(old, new)
        if self._upcoming is not None and self._upcoming[0].uri == old:
            self._upcoming = self._upcoming[0].renamed(new), self._upcoming[1]
        self._drop_traces(old)
        self.current.rename(old, new)
        self._model.rename(old, new)

    @_posted
    def load(self, reply: Callable[[bool], object]) -> None:
        """Load the model now; `reply` is told whether that went well, whatever happens."""
        there = False
        try:
            there = self._enabled and not self._closing and self._ready() is not None
        finally:
            reply(there)

    @_posted
    def use(self, load: LoadRuntime) -> None:
        """Another model, or other settings of it, from the next question on."""
        self._unload()
        self._model.replace(load)
        if self._enabled:
            self._listener.told(Status("starting"))

    def enable(self, *, enabled: bool) -> None:
        """Off unloads the model; on loads it at the next question."""
        self._enabled = enabled
        self._settle_switch()

    def close(self) -> None:
        """End within a piece of work, and give the model's memory back."""
        self._closing = True
        self.inbox.put(lambda: None)

    def info(self) -> EngineInfo | None:
        """What engine runs, or None while none is loaded."""
        return loaded.runtime.engine.info if (loaded := self._model.loaded) is not None else None

    # The cycle ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until it is closed."""
        while not self._closing:
            try:
                wait_ms = self.turn()
            except BaseException as error:  # noqa: BLE001 libraries written in Rust raise what is no Exception; the thread goes on
                self._fail(failure("An internal error occurred", error))
                wait_ms = 0.0
            if wait_ms > 0 and not self._closing:
                with suppress(Empty):
                    self._arrived.append(self.inbox.get(timeout=None if wait_ms == math.inf else wait_ms / 1e3))
        self._unload()
        while not self.inbox.empty() or self._arrived:
            with suppress(BaseException):  # somebody may wait for a reply
                self._receive()

    def turn(self) -> float:
        """Do the most urgent piece of work; returns 0, or for how many milliseconds there will be nothing to do."""
        try:
            self._receive()
            if self._running is not None and self._running is not self._slot:
                self._leave(self._running)
            if self._slot is not None:
                self._serve(self._slot)
            elif self._upcoming is not None:
                self._foresee(self._upcoming)
            elif self._model.loaded is not None and self._allowance is not None:
                unserved = self._unserved is not None
                return self._background.advance(self._model.loaded, self._allowance, self._asked_ms, unserved=unserved)
            else:
                return math.inf
        except Exception as error:  # noqa: BLE001 a bug of ours must not cost the user every later completion
            self._fail(failure("An internal error occurred", error))
        return 0.0

    def _receive(self) -> None:
        """Take in all that has arrived, in its order."""
        while True:
            with suppress(Empty):
                while True:
                    self._arrived.append(self.inbox.get_nowait())
            if not self._arrived:
                return
            self._arrived.popleft()()

    def _serve(self, slot: Running) -> None:
        """One piece of work for the question, or its answer."""
        task, loaded, budgets = self.current.task, self._model.loaded, self.budgets
        # What was said for it may be gone: its document was renamed, or the model was exchanged.
        if self._running is None or task is None or loaded is None or budgets is None:
            self._take(slot)
        elif (answer := slot.advance(loaded, task, budgets)) is not None:
            self._answer(slot, answer)

    def _take(self, slot: Running) -> None:
        self._running = slot  # from here on a failure of ours is its answer
        slot.queued()
        loaded = self._model.loaded or self._ready()
        if self._slot is not slot:  # taken back, or overtaken, while the model was loaded
            self._running = None
            return
        if loaded is None:
            self._running = None
            self._answer(slot, Answer.failed(self._model.failed))
            return
        self._listener.told(Status("thinking"))
        self.budgets = Budgets.of(slot.question.policy, loaded.pace.costs)
        self._allowance = Allowance.of(slot.question, self.budgets)
        slot.take(loaded)

    def _answer(self, running: Running, answer: Answer) -> None:
        question = running.question
        if self._slot is running:
            self._slot = None
            self._unserved = question if answer.outcome == "empty" else None
        self._listener.answered(question.number, answer)

    def _leave(self, running: Running) -> None:
        """It is answered, or nobody wants the answer any more; what was begun for it stays."""
        self._running = None
        self._listener.worked(running.leave())
        self._listener.told(Status("ready"))

    def _fail(self, status: Status) -> None:
        """Whoever waits is told; what was being said is not to be trusted."""
        running, self._running, self._allowance = self._running, None, None
        self.current.drop()
        if running is not None:
            self._answer(running, Answer.failed(status))
        self._listener.told(status)

    def _made(self, suggestion: Suggestion) -> None:
        """The current task has said this."""
        task, unserved = self.current.task, self._unserved
        assert task is not None, "nothing is made without a task"
        self.current.said(suggestion)
        if unserved is not None and unserved.uri == task.snapshot.uri and suggestion.rest(unserved.place) is not None:
            self._unserved = None
        self._listener.made(task.snapshot.uri, suggestion)

    def _foresee(self, upcoming: tuple[Question, bool]) -> None:
        """Make what nobody waits for yet, or any more: what follows a suggestion that was taken whole, for one."""
        (question, known), self._upcoming = upcoming, None
        loaded = self._model.loaded or (self._ready() if question is self._unserved else None)
        if loaded is None:
            return
        self._allowance = Allowance.of(question, Budgets.of(question.policy, loaded.pace.costs))
        if not known and self.current.serving(question) is None:
            self.current.begin(loaded.runtime, loaded.pace, question, question.asked_ms, Spans(), ahead=True)

    def _ready(self) -> Loaded | None:
        """The model, loaded if need be; from then on runs the time of whoever waits for it."""
        before = self._model.loaded
        if self._model.ready() is not before:
            self._receive()
            if self._slot is not None:
                self._slot.waited_for_model()
        return self._model.loaded  # perhaps it was exchanged or switched off meanwhile

    def _unload(self) -> None:
        """The model goes, and all that it said."""
        if self._running is not None:
            self._leave(self._running)
        self._listener.forgotten(None)
        self.current.clear()
        self._background.clear()
        self._allowance = None
        self._model.unload()

    def _drop_traces(self, uri: str) -> None:
        """The document goes on under another name, or not at all: nobody waits there, nothing is prepared."""
        if self._unserved is not None and self._unserved.uri == uri:
            self._unserved = None
        if self._allowance is not None and self._allowance.question.uri == uri:
            self._allowance.prepare = False

    @_posted
    def _settle_switch(self) -> None:
        if self._enabled:
            self._listener.told(Status("ready") if self._model.loaded else Status("starting"))
        else:
            self._unload()
            self._listener.told(Status("off"))
