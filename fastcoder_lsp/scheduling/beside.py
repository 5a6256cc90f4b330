"""Code of other files, prepared beside: in a second KV cache of its document, while keys go on with the first.

Owns when such code is looked for, and what of its prompt is computed next; when that takes the old one's place says
`runtime/exchange`. What was computed outlives the questions that come between. Runs in the scheduler's thread, a piece
at a time; where there is one cache that goes round, there is nothing to do.
"""

from dataclasses import dataclass

from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.core import Engine
from fastcoder_lsp.prompt.build import begun
from fastcoder_lsp.runtime.exchange import FEW, exchange_computed, missing
from fastcoder_lsp.scheduling.model import Loaded
from fastcoder_lsp.scheduling.task import Prefill


@dataclass(slots=True)
class _Work:
    """What is done for one question.

    Attributes:
        question: that.
        looked: whether code was looked for, as in a pause.
        prefill: of the planned prompt; None where nothing is to be computed.
    """

    question: Question
    looked: bool
    prefill: Prefill | None


class Beside:
    """The next prompt of the document that was asked about last, on its way into a second cache.

    Attributes:
        prefilled: tokens that were computed for such prompts.
        exchanged: the question whose prompt was exchanged while nothing was typed since: its text is made anew.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._work: _Work | None = None
        self.prefilled = 0
        self.exchanged: Question | None = None

    def advance(self, loaded: Loaded, question: Question, room_ms: float, *, paused: bool, still: bool) -> bool:
        """One piece of work; False where there is none for this question.

        Args:
            loaded: the model.
            question: the last one that the model was asked.
            room_ms: what may be done.
            paused: whether nobody has asked for a while: code is looked for anew.
            still: whether nothing was typed since the question, and nothing is being said: what is computed may take
                the old one's place. In the middle of a line it does so after a pause, or if the old one is short.
        """
        engine = loaded.runtime.slots.beside(question.uri)
        if engine is None:
            return False
        work = self._work
        if work is None or work.question is not question or (paused and not work.looked):
            self._work = self._planned(loaded, engine, question, paused=paused)
            return True
        if work.prefill is None:
            return False
        if not work.prefill.finished:
            before = work.prefill.prefilled
            done = work.prefill.advance(room_ms)
            self.prefilled += work.prefill.prefilled - before
            return done
        if still:
            work.prefill = None
            snapshot, offset = question.request.snapshot, question.request.offset
            may = paused or not begun(snapshot.text, offset) or loaded.runtime.prompts.is_short(question.uri)
            if may and exchange_computed(loaded.runtime, snapshot, offset):
                self.exchanged = question
                return True
        return False

    def clear(self) -> None:
        """Another model: what was begun with this one is of no use."""
        self._work = self.exchanged = None

    def _planned(self, loaded: Loaded, engine: Engine, question: Question, *, paused: bool) -> _Work:
        prompts, snapshot, offset = loaded.runtime.prompts, question.request.snapshot, question.request.offset
        planned = prompts.planned(snapshot, offset)
        if paused or (planned is None and prompts.is_partial(question.uri)):
            prompts.plan(snapshot, offset)
            planned = prompts.planned(snapshot, offset)
        if planned is None:
            return _Work(question, paused, None)
        stays = not paused and begun(snapshot.text, offset) and not prompts.is_short(question.uri)
        if stays and missing(engine, planned.tokens) <= FEW:
            return _Work(question, paused, None)  # a line is not computed key by key: each would cost a pass of its own
        return _Work(question, paused, Prefill(engine, loaded.pace, self._clock, planned.tokens[:-1]))
