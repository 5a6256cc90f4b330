"""The scheduler's state of one connected editor: its newest request, its likely next question, and its generation.

Any thread may send commands; the scheduler's thread runs them in their order.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.open_questions import OpenQuestions
from fastcoder_lsp.completion.question import Answer, Clock, Question
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.core import EngineInfo
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.budget import CHUNK_MS, BackgroundBudget, Budgets
from fastcoder_lsp.scheduling.current import CurrentGeneration
from fastcoder_lsp.scheduling.edits import EditRequest
from fastcoder_lsp.scheduling.generation import Generation
from fastcoder_lsp.scheduling.model import ClientModel, Loaded
from fastcoder_lsp.scheduling.prefetch import Prefetch
from fastcoder_lsp.scheduling.request import ActiveRequest


class Arrival(NamedTuple):
    """A command or call in the scheduler's inbox; it fails for its client alone. None: the scheduler's own call."""

    client: "Client | None"
    what: "protocol.Command | Callable[[], None]"


class Client:
    """One editor's client; the scheduler works only on its newest request.

    Args:
        inbox: puts a message or a call of the client into the scheduler's inbox, from any thread.
        changed: the scheduler's; called when the client is switched off, or leaves.
        clock: milliseconds.
        idle_ms: a pause begins after so long without a request.
    """

    def __init__(
        self,
        emit: protocol.HostListener,
        model: ClientModel,
        inbox: "Callable[[Arrival], None]",
        ready: "Callable[[Client], Loaded | None]",
        changed: "Callable[[Client], None]",
        clock: Clock,
        idle_ms: float,
        *,
        enabled: bool,
    ) -> None:
        self.emit, self.model, self.inbox, self.enabled, self.gone = emit, model, inbox, enabled, False
        self._ready, self._changed, self._clock = ready, changed, clock
        self.request: ActiveRequest | None = None  # for `questions.completion`
        self.questions = OpenQuestions()
        self.current = CurrentGeneration(model, self.questions, emit, clock)
        self.edits = EditRequest(self.questions, emit, clock)  # the work for the newest question for an edit
        self._prefetch = Prefetch(self.current, clock, idle_ms)
        self._background: BackgroundBudget | None = None
        self._asked_ms = clock()
        self.budgets: Budgets | None = None  # of the last request; None before the first one

    @property
    def generation(self) -> Generation | None:
        """The generation that it works on."""
        return self.current.generation

    # From any thread, in the order of arrival ------------------------------------------------------------------------

    def switch(self, *, enabled: bool) -> None:
        """Switch the client on or off; what the scheduler begins from now on follows it."""
        self.enabled = enabled
        self.inbox(Arrival(self, protocol.Enable(enabled)))

    def leave(self) -> None:
        """The client disconnects: free its state within a piece of work."""
        self.gone, self.enabled = True, False
        self.inbox(Arrival(self, self._left))

    def info(self) -> EngineInfo | None:
        """The running engine; None while none is loaded."""
        return loaded.info if (loaded := self.model.loaded) is not None else None

    # Work, in the scheduler's thread ---------------------------------------------------------------------------------

    def take_prompt(self) -> None:
        """Go on from a prompt that is built by now."""
        if self.generation is not None and (begun := self.generation.begun()) is not self.generation:
            self.current.generation = begun
            if self.request is not None:
                self.request.pieces = 0  # its first pieces are those with the model

    def serve(self, others_ms: float) -> float:
        """Do one piece of work for the request, or answer it; returns 0, or how many milliseconds to wait.

        `others_ms`: the time that other clients take before the next turn; 0 where no other has a request.
        """
        request = self.request
        assert request is not None, "there is a request"
        if not self._serving:
            self._take(request)
            if not others_ms or self.request is not request or not self._serving:
                return 0.0  # read the inbox first
        generation, budgets = self.generation, self.budgets
        assert generation is not None and budgets is not None, "it is worked on"  # noqa: PT018
        time = request.time(generation, budgets, self._clock())
        answer = request.early(generation, time)
        if generation.finished:
            answer = request.finished(generation, time.room_ms)
        elif answer is None and generation.work(time.room_ms):
            request.worked(generation)
        elif answer is None:
            answer = request.out_of_time(generation, time)
        if answer is None and others_ms and self.generation is generation:
            answer = request.before_others(generation, request.time(generation, budgets, self._clock() + others_ms))
        if answer is not None:
            self._answer(request, answer)
            return 0.0
        if self.generation is not generation:
            return 0.0
        if lines := request.new_lines(generation):
            self.emit(protocol.Grew(request.question.number, lines))
        return time.wait_ms if generation.waits else 0.0

    def serve_edit(self) -> float:
        """Do one piece of work for an edit, or answer it; returns 0, or how many milliseconds to wait."""
        # A completion may be asked for at any time: the code model is loaded first.
        loaded = (self.model.loaded or self._ready(self)) if self.enabled else None
        return self.edits.serve(loaded, self.model.failed, enabled=self.enabled)

    def spent(self, cpu_s: float, *, edit: bool) -> None:
        """Book the CPU seconds of a piece of its work; `edit`: of one for an edit."""
        if edit:
            self.current.cpu.doing("edits")
        self.current.cpu.spent(cpu_s, self.generation)

    @property
    def awaits_model(self) -> bool:
        """Whether the request waits for a model that another thread loads."""
        return self.request is not None and self.model.awaits(self.request.question)

    def works_on(self) -> Generation | None:
        """The generation that gets the next piece of work."""
        return (self.request.branch if self.request is not None else None) or self.generation

    def piece_ms(self) -> float:
        """How long the next piece for the request usually takes."""
        generation = self.generation
        return generation.piece_ms() if generation is not None and self._serving else CHUNK_MS

    def prefetch(self) -> float:
        """Begin the likely next question, for example the one after an accepted suggestion; returns 0."""
        expected = self.questions.take_expected()
        assert expected is not None, "something is expected"
        question, known = expected.question, expected.known
        loaded = self.model.loaded or (self._ready(self) if question is self.questions.unserved else None)
        if loaded is not None:
            self._background = loaded.background(question)
            if not known and self.current.serving(question) is None:
                self.current.begin(question, question.asked_ms, Spans(), ahead=True)
        return 0.0

    @property
    def finishes(self) -> bool:
        """Whether background work has a suggestion to finish, which comes before an edit."""
        budget, generation, unserved = self._background, self.generation, self.questions.unserved
        if self.model.loaded is None or budget is None or budget.room_ms(owed=unserved is not None) <= 0:
            return False
        if unserved is not None and self.current.serving(unserved) is None:
            return True
        if generation is None or generation.finished or generation.waits:
            return False
        return not generation.is_enough(budget.question)

    def work_ahead(self) -> float:
        """Do one piece of background work; returns 0, or how many milliseconds to wait."""
        loaded, budget, unserved = self.model.loaded, self._background, self.questions.unserved
        if loaded is None or budget is None:
            return math.inf
        if unserved is not None and budget.room_ms(owed=True) > 0 and self.current.serving(unserved) is None:
            # The generation that this question adopted differs from what the user typed.
            self.current.begin(unserved, unserved.asked_ms, Spans())
        return self._prefetch.work(loaded, budget, self._asked_ms, unserved=unserved is not None)

    # Its state -------------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Fail the request, if it is served, and drop the generation."""
        request, loaded = self.request, self.model.loaded
        if request is not None and not request.served:
            request = None
        self.current.drop()
        self._prefetch.clear()
        self._background = None
        if loaded is not None and loaded.took_over(None if request is None else request.question, error):
            if request is not None:
                self.request = self.questions.completion = None
            return
        status = failure("An internal error occurred", error)
        if request is not None:
            request.served = False
            self._answer(request, Answer.failed(status))
        self.emit(protocol.StatusChanged(status))

    def replace(self, make: Callable[[], Loaded] | None = None) -> None:
        """Replace the client's part of the model from now on; None: the shared model is replaced."""
        self.unload()
        self.model.replace(make)
        if self.enabled:
            self.emit(protocol.StatusChanged(Status("starting")))

    def unload(self) -> None:
        """Free the client's part of the model, and forget its suggestions."""
        try:
            self._leave(self.request)
            self.emit(protocol.Forgotten(None))
        finally:  # even if the listener is gone
            self.current.clear()
            self._background = None
            self._prefetch.clear()
            self.edits.unload()
            self.model.unload()

    @property
    def _serving(self) -> bool:
        """Whether the request is being served. Its generation may be gone, for example after a rename."""
        there = None not in (self.generation, self.model.loaded, self.budgets)
        return there and self.request is not None and self.request.served

    def _take(self, request: ActiveRequest) -> None:
        request.served = True  # from here on an error of ours fails the request
        request.spans.add("queue", request.spans.elapsed_ms())
        loaded = self.model.loaded or self._ready(self)
        if self.request is not request:  # withdrawn or superseded while the model loaded
            return
        failed = self.model.failed if loaded is None else loaded.refuses(request.question)
        if loaded is None or failed is not None or self.awaits_model:
            request.served = False
            if failed is not None or not self.enabled:
                self._answer(request, Answer.failed(failed))
            return  # it was replaced while it loaded, or another one loads: a later turn goes on
        self.emit(protocol.StatusChanged(Status("thinking")))
        self.budgets = loaded.budgets(request.question.policy)
        self._background = loaded.background(request.question)
        request.take()

    def _answer(self, request: ActiveRequest, answer: Answer) -> None:
        self.questions.unserved = request.question if answer.outcome == "empty" else None
        self.questions.completion = self.request = None
        self.emit(protocol.Answered(request.question.number, answer))
        self._leave(request)

    def _close(self) -> None:
        """The request was withdrawn or superseded."""
        request, self.request = self.request, None
        self._leave(request)

    def _leave(self, request: ActiveRequest | None) -> None:
        """Stop serving a request; its generation stays."""
        if request is None or not request.served:
            return
        alternatives = request.leave()
        if self.generation is not None:
            self.current.count()
            self.generation.measured_by(Spans())
        self.emit(protocol.Worked(alternatives, self.current.cpu.take()))
        self.emit(protocol.StatusChanged(Status("ready")))

    def handle(self, command: protocol.Command) -> None:
        """Run a command now, on the scheduler's thread."""
        if self.gone and not isinstance(command, protocol.Load):
            return
        self.questions.apply(command)
        match command:
            case protocol.Load(ticket):
                self._load(ticket)
            case protocol.Ask(Question() as question):
                self._close()
                self._asked_ms, self.request = question.asked_ms, ActiveRequest(self.current, question, self._clock)
            case protocol.UserActive(asked_ms) | protocol.Expect(Question(asked_ms=asked_ms)):
                self._asked_ms = asked_ms
            case protocol.Withdraw() if self.questions.completion is None:
                self._close()
            case protocol.Shown(uri, start, length):
                self.current.cpu.shown(uri, start, length)
            case protocol.Forget(uri):
                self._forget(uri)
            case protocol.Rename(old, new):
                self._rename(old, new)
            case protocol.Enable():
                self._settle_switch()

    def _forget(self, uri: str) -> None:
        self._stop_preparing(uri)
        self.emit(protocol.Forgotten(uri))  # once more, for suggestions made since
        self.current.forget(uri)
        self.edits.forget(uri)
        self.model.forget(uri)

    def _rename(self, old: str, new: str) -> None:
        if self.request is not None and self.questions.completion is not None:
            self.request.question = self.questions.completion
        self._stop_preparing(old)
        self.current.rename(old, new)
        self.edits.rename(old, new)
        self.model.rename(old, new)

    def _stop_preparing(self, uri: str) -> None:
        """The document was closed or renamed: prepare nothing there."""
        if self._background is not None and self._background.question.uri == uri:
            self._background.prepare = False

    def _load(self, ticket: int) -> None:
        there = False
        try:
            there = self.enabled and self._ready(self) is not None
        finally:
            self.emit(protocol.LoadFinished(ticket, there))

    def _left(self) -> None:
        self.questions.clear()
        try:
            self.unload()
        finally:
            self.request = None
            self._changed(self)

    def _settle_switch(self) -> None:
        if self.enabled:
            self.emit(protocol.StatusChanged(Status("ready" if self.model.loaded else "starting")))
        else:
            self.unload()
            self._changed(self)
            self.emit(protocol.StatusChanged(Status("off")))
