"""Background work: finish the current generation, and prepare the next prompt.

The last request's `BackgroundBudget` limits it, and any request interrupts it between two pieces. The whole prompt of
a user who stays is prefilled in a second KV cache of its document, while keystrokes use the first; `Runtime` decides
when the second replaces the first. Prefilled tokens survive intervening requests. Runs in the scheduler's thread.
"""

import math
from dataclasses import dataclass

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.protocol import Counted
from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.core import Engine, Pieces, Tokens
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.prompt.build import Prompt, begun
from fastcoder_lsp.runtime.parts import FEW, missing
from fastcoder_lsp.scheduling.budget import CHUNK_MS, BackgroundBudget, LatencyEstimator, slice_of
from fastcoder_lsp.scheduling.current import CurrentGeneration
from fastcoder_lsp.scheduling.generation import Generation
from fastcoder_lsp.scheduling.model import Loaded, LocalModel

STAYS = 32
"""A first prompt's rest is read once the user typed so many characters at its place, or in a pause: most edits end
before it would be read."""
_NEAR = 400  # characters between two questions at one place: a taken suggestion is longer than a few keys


class Prefill:
    """A prefill of a KV cache in progress; `prefilled` tokens were computed for it."""

    def __init__(self, engine: Engine, latency: LatencyEstimator, clock: Clock, prompt: Tokens) -> None:
        self._engine, self._latency, self._clock = engine, latency, clock
        self.finished = False
        self.prefilled = 0
        self.prompt, self.stretch = prompt, (0, 0)  # the stretch that the last piece prefilled

    def work(self, room_ms: float) -> bool:
        """Prefill one stretch; returns False where none fits into `room_ms`."""
        started = self._clock()
        cached = self._engine.prefill(self.prompt, lambda: True).reused
        left = len(self.prompt) - cached
        tokens = self._latency.stretch_within(room_ms, left)
        if tokens:
            if not self._engine.prefill(self.prompt[: cached + tokens], lambda: False).done:
                return False  # a second cache evicts no cache in use
            self._latency.prefilled(tokens, self._clock() - started)
            self.prefilled += tokens
            self.stretch = cached, cached + tokens
        self.finished = tokens == left
        return self.finished or tokens > 0


@dataclass(slots=True)
class _Planned:
    """The prompt for a question that goes into the second cache.

    `looked`: it was retrieved anew from other files, as in a pause. `prefill` is None where there is nothing to
    compute.
    """

    question: Question
    looked: bool
    prefill: Prefill | None


class Prefetch:
    """Background work for a client, whose pauses begin `idle_ms` after its last request."""

    def __init__(self, current: CurrentGeneration, clock: Clock, idle_ms: float) -> None:
        self._current, self._clock, self._idle_ms = current, clock, idle_ms
        self._settling: tuple[Question, Prefill] | None = None
        self._building: tuple[Question, Pieces[Prompt]] | None = None  # builds the prompt for `_settling`
        self._planning: tuple[Question, Pieces[_Planned]] | None = None
        self._settled: Question | None = None
        self._planned: _Planned | None = None
        self._typed: tuple[str, str, int] | None = None  # the last question's URI and text before; where typing began
        self._lead_ms = 0.0  # how far finishing is ahead of preparing, while they take turns

    def work(self, loaded: Loaded, budget: BackgroundBudget, asked_ms: float, *, unserved: bool) -> float:
        """Do one piece of work; returns 0, or how many milliseconds to wait.

        `asked_ms`: the time of the last question; `unserved`: nothing was shown for it.
        """
        started, generation = self._clock(), self._unfinished(budget)
        if generation is not None and (room_ms := budget.room_ms(owed=unserved)) > 0:
            preparing = not unserved and self._takes_turn(loaded, budget, asked_ms)
            if not preparing:
                self._finish(generation, budget, room_ms, owed=unserved)
            took_ms = self._clock() - started
            budget.charge(took_ms, preparing=preparing)
            self._lead_ms = min(self._lead_ms + (-took_ms if preparing else took_ms), CHUNK_MS)
            return room_ms if generation.waits else 0.0
        if generation is not None and generation.waits:
            self._current.give_up()
        if not isinstance(loaded, LocalModel) or (room_ms := budget.preparing_ms()) <= 0:
            return math.inf
        if (wait_ms := self._prepare(loaded, budget, asked_ms, room_ms)) > 0:
            return wait_ms
        budget.charge(self._clock() - started, preparing=True)
        return 0.0

    def clear(self) -> None:
        """Forget unfinished work: the model changes."""
        self._settling = self._settled = self._planned = self._building = self._planning = None
        self._lead_ms = 0.0

    def _unfinished(self, budget: BackgroundBudget) -> Generation | None:
        generation = self._current.generation
        if generation is None or generation.finished or generation.is_enough(budget.question):
            return None
        return generation

    def _finish(self, generation: Generation, budget: BackgroundBudget, room_ms: float, *, owed: bool) -> None:
        """Do a piece of the generation; publish its suggestion once finished, or as it grows for a waiting client.

        While much time is left, a piece runs even where none seems to fit: only that corrects an estimate from a stall.
        """
        if not generation.work(room_ms, in_any_case=2 * room_ms > budget.granted_ms):
            budget.end()
            return
        made = None
        if owed or generation.finished or generation.is_enough(budget.question):
            made = generation.enough(budget.question)
        if generation.finished:
            self._current.count()
            self._current.emit(Counted("ahead" if generation.ahead else "background", 1))
        if made is None:
            return
        question, rest = budget.question, made.rest(made.place)
        held = not question.request.invoked and rest is not None and rest.is_unsure(question.policy.quiet.limits)
        if made.text and not held:
            self._current.made(made)
        elif owed and (generation.finished or generation.is_unsure(question)):
            reason = reasons.unsure() if held else generation.why_nothing()
            self._current.made(Suggestion(generation.place, "", reason=reason))

    def _takes_turn(self, loaded: Loaded, budget: BackgroundBudget, asked_ms: float) -> bool:
        """Prefill a piece in the second cache, if it is its turn; returns False if it is not, or there is none.

        In a pause preparing and finishing share the time equally once something is shown: the rest of a long text takes
        a whole pause.
        """
        room_ms, paused = budget.preparing_ms(), asked_ms + self._idle_ms <= self._clock()
        if not isinstance(loaded, LocalModel) or not paused or self._lead_ms <= 0 or room_ms <= 0:
            return False
        return self._fill_second_cache(loaded, budget, room_ms, paused=True, may_swap=False)

    def _prepare(self, loaded: LocalModel, budget: BackgroundBudget, asked_ms: float, room_ms: float) -> float:
        """Prefill a piece of the next prompt in the second cache; returns 0, or how many milliseconds to wait."""
        question, wait_ms = budget.question, asked_ms + self._idle_ms - self._clock()
        if wait_ms <= 0 and self._unfinished(budget) is not None:
            self._current.give_up()  # no time is left, and its KV cache may be taken from here on
        if loaded.runtime.slots.second_cache(question.uri) is None and wait_ms <= 0 and self._settled is not question:
            self._settle(loaded, question, room_ms)
            return 0.0
        may_swap = asked_ms <= question.asked_ms and self._unfinished(budget) is None
        if self._fill_second_cache(loaded, budget, room_ms, paused=wait_ms <= 0, may_swap=may_swap):
            return 0.0
        if wait_ms > 0:
            return min(wait_ms, self._idle_ms)  # a clock that jumped back makes it no longer
        budget.prepare = False
        return 0.0

    def _settle(self, loaded: LocalModel, question: Question, room_ms: float) -> None:
        """In a pause, with a single cache: move the prompt's anchor to the cursor, and bring the cache up to date."""
        runtime = loaded.runtime
        if self._settling is None or self._settling[0] is not question:
            if self._building is None or self._building[0] is not question:
                settling = runtime.prompts.move_anchor(question.request.snapshot, question.request.offset)
                self._building = question, settling
            self._current.cpu.doing("prompt")
            if (prompt := slice_of(self._building[1], self._clock)) is None:
                return
            engine, self._building = runtime.engine_for(question.uri), None
            self._settling = question, Prefill(engine, loaded.latency, self._clock, prompt.result.tokens[:-1])
        prefill = self._settling[1]
        done = prefill.work(room_ms)
        self._current.cpu.prefetching(question.uri, prefill.prompt, *prefill.stretch)
        if not done or prefill.finished:
            self._current.emit(Counted("ahead", 1))
            self._current.emit(Counted("prefilled", prefill.prefilled))
            self._settling, self._settled = None, question

    def _fill_second_cache(
        self, loaded: LocalModel, budget: BackgroundBudget, room_ms: float, *, paused: bool, may_swap: bool
    ) -> bool:
        """Do one piece of the question's next prompt, within `room_ms`; returns False where there is none.

        `paused`: the user has paused, so other files are searched again. `may_swap`: the user has typed nothing since
        the question and nothing is being generated, so the second cache may replace the first. In the middle of a line
        it does so after a pause, or if the old prompt is short.
        """
        question, planned = budget.question, self._planned
        if loaded.runtime.slots.second_cache(question.uri) is None:
            return False
        if planned is None or planned.question is not question or (paused and not planned.looked):
            if self._planning is None or self._planning[0] is not question:
                self._planning = question, self._plan(loaded, question, paused=paused)
            self._current.cpu.doing("prompt")
            if (found := slice_of(self._planning[1], self._clock)) is not None:
                self._planned, self._planning = found.result, None
            return True
        if planned.prefill is None:
            return False
        if not planned.prefill.finished:
            before = planned.prefill.prefilled
            done = planned.prefill.work(room_ms)
            self._current.cpu.prefetching(question.uri, planned.prefill.prompt, *planned.prefill.stretch)
            self._current.emit(Counted("prefilled", planned.prefill.prefilled - before))
            return done
        if not may_swap:
            return False
        planned.prefill = None
        snapshot, offset = question.request.snapshot, question.request.offset
        may = paused or not begun(snapshot.text, offset) or loaded.runtime.prompts.is_short(question.uri)
        if not may or not loaded.runtime.exchange_computed(snapshot, offset):
            return False
        if math.isfinite(question.policy.automatic_ms):  # else the answer was whole, with no late text
            budget.again()
            self._current.begin(question, question.asked_ms, Spans(), ahead=True)
        return True

    def _plan(self, loaded: LocalModel, question: Question, *, paused: bool) -> Pieces[_Planned]:
        prompts, snapshot, offset = loaded.runtime.prompts, question.request.snapshot, question.request.offset
        planned = prompts.planned(snapshot, offset)
        stays = self._stays(question)
        if paused or (stays and planned is None and prompts.is_partial(question.uri)):
            yield from prompts.plan(snapshot, offset)
            planned = prompts.planned(snapshot, offset)
        engine = loaded.runtime.slots.second_cache(question.uri)
        if planned is None or engine is None:
            return _Planned(question, paused, None)
        keeps = not paused and begun(snapshot.text, offset) and not prompts.is_short(question.uri)
        if keeps and missing(engine, planned.tokens) <= FEW:
            return _Planned(question, paused, None)  # prefilling a line key by key would cost a pass each
        return _Planned(question, paused, Prefill(engine, loaded.latency, self._clock, planned.tokens[:-1]))

    def _stays(self, question: Question) -> bool:
        """Whether the user has typed for a while at the question's place."""
        before = question.place.before
        uri, last, began = self._typed or ("", "", 0)
        shorter, longer = sorted((last, before), key=len)
        if uri != question.uri or len(longer) - len(shorter) > _NEAR or not longer.startswith(shorter):
            began = len(before)
        self._typed = question.uri, before, began
        return len(before) - began >= STAYS
