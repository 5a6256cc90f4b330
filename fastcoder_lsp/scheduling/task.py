"""One completion in the making, for one place: prompt → decode → post-processing, one piece of work at a time.

Owns the order of these parts; what it has said so far; and whether that serves another place. It is paused between any
two pieces; others' work goes to other KV caches. Runs in the scheduler's thread.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Clock
from fastcoder_lsp.completion.suggestions import Place, Suggestion, Work, are_closers
from fastcoder_lsp.core import (
    CompletionRequest,
    Counts,
    DraftTree,
    Engine,
    Reason,
    Snapshot,
    StepTrace,
    Tokens,
    Verified,
)
from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.decode.guard import GuardedDrafter
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.decode.trace import Tracer
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.postprocess import TextAround, doubt, finish_at, useful_at, whole_lines, written_over
from fastcoder_lsp.runtime.exchange import is_interim, prompt_for, whole_prompt_for
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import LINE_STEPS, Pace


class Task:
    """What is being said between `place.before` and `place.after` of a document.

    Args:
        runtime: the model and its parts.
        pace: what its work will take; learns from what it takes.
        clock: for that.
        snapshot: the document; its text is that of `place`.
        place: where.
        request: what the model is asked.
        head: what the text begins with before the model says anything.
    """

    def __init__(
        self,
        runtime: Runtime,
        pace: Pace,
        clock: Clock,
        snapshot: Snapshot,
        place: Place,
        request: DecodeRequest,
        head: str = "",
    ) -> None:
        self.snapshot, self.place = snapshot, place
        self.context = runtime.prompts.context_of(snapshot.uri)
        self.interim = is_interim(runtime, snapshot.uri)
        self._pace, self._clock, self._head = pace, clock, head
        self._tracer = Tracer(runtime.tokenizer.piece, len(request.healing))
        self._rows = 1
        self._decoding = Decoding(
            runtime.engine_for(snapshot.uri),
            GuardedDrafter(runtime.drafter),
            request,
            Spans(),
            on_step=self._stepped,
        )
        self._most = min(request.nodes, runtime.info.max_nodes)
        self._cached = 0  # tokens in its KV cache after the last piece
        self._useful: tuple[str, Suggestion] | None = None
        self._made: Suggestion | None = None

    @property
    def finished(self) -> bool:
        """Whether the model has said all that it will say."""
        return bool(self.finish)

    @property
    def finish(self) -> str:
        """Why it ended (`decode.loop.Decoded.finish`), "" while it may go on."""
        return self._decoding.finish

    @property
    def request(self) -> DecodeRequest:
        """What the model is asked."""
        return self._decoding.request

    def goes_on(self, runtime: Runtime) -> bool:
        """Whether its document has the prompt still that it was asked with, or its beginning; not after an exchange."""
        return self._decoding.engine is runtime.engine_for(self.snapshot.uri)

    def measured_by(self, spans: Spans) -> None:
        """Count times to `spans` from now on."""
        self._decoding.spans = spans

    def advance(self, room_ms: float, *, in_any_case: bool = False) -> bool:
        """One piece of work, a stretch of the prefill or a step; False where none fits into `room_ms`.

        `in_any_case`: a small one is done even where it seems not to fit.
        """
        assert not self.finished, "all is said"
        done = self._advance(room_ms, in_any_case=in_any_case)
        self._cached = len(self._decoding.engine.cached())
        return done

    def fits(self, room_ms: float) -> bool:
        """Whether the next piece of work fits into `room_ms`."""
        decoding, pace = self._decoding, self._pace
        if missing := decoding.missing():
            return pace.stretch_within(room_ms, missing) > 0
        least = decoding.rows()
        return pace.rows_within(room_ms, least) >= least

    def piece_ms(self) -> float:
        """What the next piece of work will take, as a rule."""
        if self.finished:
            return 0.0
        pace = self._pace
        if missing := self._decoding.missing():
            return pace.prefill_ms(pace.stretch_within(math.inf, missing))
        return pace.step_ms(max(self._rows, self._decoding.rows()))

    def robbed(self) -> bool:
        """Whether others' work has cost it its KV cache since its last piece."""
        return not self.finished and len(self._decoding.engine.cached()) < self._cached

    def line_ms(self) -> float:
        """What it takes from here until a line is said, as a rule."""
        missing, steps = self._decoding.missing(), self.counts().steps
        prefill_ms = self._pace.prefill_ms(missing) if missing else 0.0
        return prefill_ms + max(LINE_STEPS - steps, 1) * self._pace.step_ms(1)

    def why_nothing(self) -> Reason:
        """Why there is nothing to show, where that is so."""
        if not self.finished:
            return reasons.cancelled()
        return reasons.nothing_worth_showing() if self.said().strip() else reasons.models_end()

    def agrees(self, place: Place) -> bool:
        """Whether what it says serves `place` too, as far as is known: the user has typed along it, or nothing."""
        if self.finished:
            return place == self.place or self.made().rest(place) is not None
        if not place.before.startswith(self.place.before) or not place.after.endswith(self.place.after):
            return False
        typed, said = place.before[len(self.place.before) :], self.said()
        closers = place.after[: len(place.after) - len(self.place.after)]
        if closers and not (are_closers(closers) and len(closers) <= len(typed)):
            return False
        return said.startswith(typed) or typed.startswith(said)

    def said(self) -> str:
        """What the model has said so far, as it said it."""
        return self._head + self._decoding.text

    def made(self) -> Suggestion:
        """All that was said, as it is shown."""
        assert self.finished, "it is still being said"
        if self._made is None:
            said = self.said()
            if self.finish in {"length", "context"}:
                said = whole_lines(said, self.place.before)
            self._made = self._suggestion(finish_at(said, self._around))
        return self._made

    def useful(self) -> Suggestion:
        """What can be shown of it now: all, or a beginning that will stay; its text is empty where there is none."""
        if self.finished:
            return self.made()
        said = self.said()
        if self._useful is None or self._useful[0].count("\n") != said.count("\n"):
            cut = stop_rule(self.place.before, self.place.after, self.snapshot.language).cut
            self._useful = said, self._suggestion(useful_at(said, self._around, cut))
        return self._useful[1]

    def doubtful(self, suggestion: Suggestion) -> bool:
        """Whether the model was so unsure of what it said here that it is shown by a key alone."""
        return doubt.held_back(suggestion.text, *self._weighed(suggestion.text))

    def counts(self) -> Counts:
        """What was done for it so far; `reused` is known once the prompt is in the KV cache."""
        counts = self._decoding.result().counts
        return counts if self._decoding.prefilled else replace(counts, reused=0)

    def tokens(self) -> tuple[int, ...]:
        """What the model has said, in tokens, the healed ones included."""
        return self._decoding.result().tokens

    def trace(self) -> tuple[StepTrace, ...]:
        """The trace of every step so far."""
        return self._tracer.trace(len(self.tokens()))

    def _advance(self, room_ms: float, *, in_any_case: bool) -> bool:
        decoding, pace = self._decoding, self._pace
        started = self._clock()
        if missing := decoding.missing():
            tokens = pace.stretch_within(math.inf if in_any_case else room_ms, missing)
            if tokens:
                decoding.prefill(lambda: False, tokens)
                if decoding.computed:  # none where all was copied from another text's beginning
                    pace.prefilled(decoding.computed, self._clock() - started)
            return tokens > 0
        least = decoding.rows()
        rows = max(pace.rows_within(room_ms, max(self._most, least)), least if in_any_case else 0)
        if rows < least:
            return False
        if not decoding.prefilled:
            decoding.prefill(lambda: False)
        decoding.step(rows)
        pace.stepped(self._rows, self._clock() - started)
        return True

    @cached_property
    def _around(self) -> TextAround:
        """The text around the place, lexed once for everything that is shown of this task."""
        return TextAround(self.place.before, self.place.after, self.snapshot.language)

    def _weighed(self, text: str) -> tuple[Certainty, TextAround]:
        """How sure it was of what it said; that tells nothing of a text that is not letter by letter what it said."""
        said = not self._head and self.said().startswith(text.rstrip())
        return self._decoding.certainty() if said else Certainty((), b""), self._around

    def _suggestion(self, text: str) -> Suggestion:
        text = doubt.without_unsure_closers(text, *self._weighed(text))
        replaces = written_over(text, self._around) if text else 0
        work = Work(self.counts(), self.trace(), self.context)
        return Suggestion(self.place, text, replaces, work=work, interim=self.interim)

    def _stepped(self, tree: DraftTree, verified: Verified) -> None:
        self._rows = len(tree)
        self._tracer(tree, verified)


class Prefill:
    """Tokens on their way into the KV cache; `prefilled` of them were computed for that."""

    def __init__(self, engine: Engine, pace: Pace, clock: Clock, prompt: Tokens) -> None:
        self._engine, self._pace, self._clock = engine, pace, clock
        self._prompt = prompt
        self.finished = False
        self.prefilled = 0

    def advance(self, room_ms: float) -> bool:
        """One stretch of the prefill; False where none fits into `room_ms`."""
        started = self._clock()
        cached = self._engine.prefill(self._prompt, lambda: True).reused
        missing = len(self._prompt) - cached
        tokens = self._pace.stretch_within(room_ms, missing)
        if tokens:
            if not self._engine.prefill(self._prompt[: cached + tokens], lambda: False).done:
                return False  # a cache beside, and nobody gives way to it
            self._pace.prefilled(tokens, self._clock() - started)
            self.prefilled += tokens
        self.finished = tokens == missing
        return self.finished or tokens > 0


def begin(
    runtime: Runtime,
    pace: Pace,
    clock: Clock,
    request: CompletionRequest,
    place: Place,
    expected: Sequence[str],
    spans: Spans,
    *,
    hurried: bool = False,
    room: int | None = None,
    whole: bool = False,
) -> Task:
    """A task for `request`, which asks at `place`.

    `expected`: likely beginnings. `hurried`, `room`: see `prompt_for`. `whole`: by `whole_prompt_for`.
    """
    snapshot = replace(request.snapshot, text=place.before + place.after)
    with spans.measure("prompt"):
        prompt_of = whole_prompt_for if whole else partial(prompt_for, hurried=hurried, room=room)
        prompt = prompt_of(runtime, snapshot, len(place.before))
        healing = prompt.healing.decode()
        asked = DecodeRequest(
            prompt=prompt.tokens,
            max_tokens=request.max_tokens or runtime.limits.max_tokens,
            end_ids=runtime.tokenizer.end_ids,
            piece=runtime.tokenizer.piece,
            allow=runtime.allow,
            cut=stop_rule(place.before, place.after, snapshot.language).cut,
            healing=prompt.healing,
            document=snapshot.uri,
            nodes=runtime.limits.nodes,
            weighed=True,
            outdated=tuple(tuple(runtime.tokenizer.encode(healing + text)) for text in expected),
        )
    task = Task(runtime, pace, clock, snapshot, place, asked)
    task.measured_by(spans)
    return task
