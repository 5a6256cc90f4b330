"""What is done while nobody waits: finishing what was begun, preparing what will probably be asked.

Owns its order; how much of it there is says the last question's `Allowance`. Runs in the scheduler's thread, one piece
at a time, and whoever asks comes first.
"""

import math
from collections.abc import Callable

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.completion.suggestions import Suggestion
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.scheduling.beside import Beside
from fastcoder_lsp.scheduling.budget import CHUNK_MS, Allowance
from fastcoder_lsp.scheduling.current import CurrentTask
from fastcoder_lsp.scheduling.model import Loaded
from fastcoder_lsp.scheduling.task import Prefill, Task


class Background:
    """The work that nobody waits for.

    Args:
        current: what the model was saying when it was last wanted.
        clock: milliseconds.
        idle_ms: after so long without a question the document in view is prepared for the next one.
        on_made: told of every suggestion that it makes, and of an empty one with its reason where somebody waits.
        on_counted: told so many more of a field of `Statistics`.
    """

    def __init__(
        self,
        current: CurrentTask,
        clock: Clock,
        idle_ms: float,
        on_made: Callable[[Suggestion], None],
        on_counted: Callable[[str, int], None],
    ) -> None:
        self._current, self._clock, self._idle_ms = current, clock, idle_ms
        self._on_made, self._on_counted = on_made, on_counted
        self._prefill: tuple[Question, Prefill] | None = None
        self._settled: Question | None = None
        self._beside = Beside(clock)
        self._lead_ms = 0.0
        """By so much finishing is ahead of what is prepared beside, where they take turns."""

    def advance(self, loaded: Loaded, allowance: Allowance, asked_ms: float, *, unserved: bool) -> float:
        """The next piece; returns 0, or for how many milliseconds there will be nothing to do.

        Args:
            loaded: the model.
            allowance: of the last question.
            asked_ms: when somebody asked last.
            unserved: whether nothing was shown for the last question.
        """
        started, task = self._clock(), self._unfinished()
        if task is not None and (room_ms := allowance.room_ms(owed=unserved)) > 0:
            preparing = not unserved and self._beside_first(loaded, allowance, asked_ms)
            if not preparing:
                self._finish(task, allowance, room_ms, owed=unserved)
            took_ms = self._clock() - started
            allowance.charge(took_ms, preparing=preparing)
            self._lead_ms = min(self._lead_ms + (-took_ms if preparing else took_ms), CHUNK_MS)
            return 0.0
        if (room_ms := allowance.preparing_ms()) <= 0:
            return math.inf
        if (wait_ms := self._prepare(loaded, allowance, asked_ms, room_ms)) > 0:
            return wait_ms
        allowance.charge(self._clock() - started, preparing=True)
        return 0.0

    def clear(self) -> None:
        """Another model: what was begun with this one is of no use."""
        self._prefill = self._settled = None
        self._lead_ms = 0.0
        self._beside.clear()

    def _unfinished(self) -> Task | None:
        task = self._current.task
        return task if task is not None and not task.finished else None

    def _finish(self, task: Task, allowance: Allowance, room_ms: float, *, owed: bool) -> None:
        """A piece of what was begun; what comes of it is told where somebody waits for it.

        As long as there is much time, one is done even where none seems to fit: else what was learnt of a stall would
        never be found wrong.
        """
        if not task.advance(room_ms, in_any_case=2 * room_ms > allowance.granted_ms):
            allowance.end()
            return
        made = task.useful() if owed or task.finished else None
        if task.finished:
            self._current.count()
            self._on_counted("ahead" if self._current.ahead else "background", 1)
        if made is None:
            return
        held = not allowance.question.request.invoked and task.doubtful(made)
        if made.text and not held:
            self._on_made(made)
        elif owed and task.finished:
            self._on_made(Suggestion(task.place, "", reason=reasons.unsure() if held else task.why_nothing()))

    def _beside_first(self, loaded: Loaded, allowance: Allowance, asked_ms: float) -> bool:
        """A piece of what is prepared beside, in its turn; False where it is not, or there is none.

        In a pause each has half of the time, once something is shown: the rest of a long text takes a whole pause.
        """
        room_ms, paused = allowance.preparing_ms(), asked_ms + self._idle_ms <= self._clock()
        if not paused or self._lead_ms <= 0 or room_ms <= 0:
            return False
        return self._do_beside(loaded, allowance, room_ms, paused=True, still=False)

    def _do_beside(self, loaded: Loaded, allowance: Allowance, room_ms: float, *, paused: bool, still: bool) -> bool:
        beside, question, before = self._beside, allowance.question, self._beside.prefilled
        done = beside.advance(loaded, question, room_ms, paused=paused, still=still)
        self._on_counted("prefilled", beside.prefilled - before)
        if beside.exchanged is question:
            beside.exchanged = None
            if math.isfinite(question.policy.automatic_ms):  # else the answer was whole, and nobody is told of another
                allowance.again()
                self._current.begin(loaded.runtime, loaded.pace, question, question.asked_ms, Spans(), ahead=True)
        return done

    def _prepare(self, loaded: Loaded, allowance: Allowance, asked_ms: float, room_ms: float) -> float:
        """A piece of what will probably be asked; returns 0, or for how many milliseconds there will be nothing to do.

        What is prepared beside waits for no pause: no key needs to wait for it either.
        """
        question, wait_ms = allowance.question, asked_ms + self._idle_ms - self._clock()
        if wait_ms <= 0 and self._unfinished() is not None:
            self._current.give_up()  # there is no time for the rest, and its KV cache may be taken from here on
        alone = loaded.runtime.slots.beside(question.uri) is None
        if alone and wait_ms <= 0 and self._settled is not question:
            self._settle(loaded, question, room_ms)
            return 0.0
        still = asked_ms <= question.asked_ms and self._unfinished() is None
        if self._do_beside(loaded, allowance, room_ms, paused=wait_ms <= 0, still=still):
            return 0.0
        if wait_ms > 0:
            return min(wait_ms, self._idle_ms)  # a clock that jumped back makes it no longer
        allowance.prepare = False
        return 0.0

    def _settle(self, loaded: Loaded, question: Question, room_ms: float) -> None:
        """The user paused, and there is one cache: move the prompt's anchor here, and bring the cache up to date."""
        runtime = loaded.runtime
        if self._prefill is None or self._prefill[0] is not question:
            prompt = runtime.prompts.settle(question.request.snapshot, question.request.offset)
            engine = runtime.engine_for(question.uri)
            self._prefill = question, Prefill(engine, loaded.pace, self._clock, prompt.tokens[:-1])
        prefill = self._prefill[1]
        if not prefill.advance(room_ms) or prefill.finished:
            self._on_counted("ahead", 1)
            self._on_counted("prefilled", prefill.prefilled)
            self._prefill, self._settled = None, question
