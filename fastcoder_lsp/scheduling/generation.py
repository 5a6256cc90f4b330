"""What the model says at one place: prompt, decoding and post-processing, one piece of work at a time.

A generation can pause between any two pieces; other generations use other KV caches. It outlives the question it began
with, and serves any later one whose text agrees with it. Runs in the scheduler's thread.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Clock
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion, Work, are_closers
from fastcoder_lsp.core import (
    CompletionRequest,
    Counts,
    DraftTree,
    Reason,
    Snapshot,
    StepTrace,
    Verified,
)
from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.decode.stop import stop_rule
from fastcoder_lsp.decode.trace import Tracer
from fastcoder_lsp.decode.tree import GuardedDrafter
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.postprocess import TextAround, doubt, finish_at, useful_at, whole_lines, written_over
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import LINE_STEPS, LatencyEstimator


class Generation:
    """The text between `place.before` and `place.after` of a document, as far as the model has said it.

    Attributes:
        begun_ms: when the first question it served was asked.
        ahead: whether nobody has asked for it yet.
        shown: whether an answer has shown some of it.
        told: the work that its client was told of.

    Args:
        runtime: the model and its parts.
        latency: estimates what its pieces take, and learns from them.
        clock: milliseconds.
        snapshot: the document, with the text of `place`.
        place: the cursor.
        request: what the model is asked.
        head: what the text begins with before the model says anything.
    """

    def __init__(
        self,
        runtime: Runtime,
        latency: LatencyEstimator,
        clock: Clock,
        snapshot: Snapshot,
        place: CursorContext,
        request: DecodeRequest,
        head: str = "",
    ) -> None:
        self.runtime, self.latency, self.clock = runtime, latency, clock
        self.snapshot, self.place = snapshot, place
        self.context = runtime.prompts.context_of(snapshot.uri)
        self.interim = runtime.is_interim(snapshot.uri)
        self.begun_ms, self.ahead, self.shown, self.told = 0.0, False, False, Counts()
        self._head = head
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

    # Its work ---------------------------------------------------------------------------------------------------------

    def work(self, room_ms: float, *, in_any_case: bool = False) -> bool:
        """One piece of work, a stretch of the prefill or a step; False where none fits into `room_ms`.

        `in_any_case`: a small piece runs even where it seems not to fit.
        """
        assert not self.finished, "all is said"
        decoding, latency, started = self._decoding, self.latency, self.clock()
        if missing := decoding.missing():
            tokens = latency.stretch_within(math.inf if in_any_case else room_ms, missing)
            fits = tokens > 0
            if fits:
                decoding.prefill(lambda: False, tokens)
                if decoding.computed:  # none where all was copied from another text's beginning
                    latency.prefilled(decoding.computed, self.clock() - started)
        else:
            least = decoding.rows()
            rows = max(latency.rows_within(room_ms, max(self._most, least)), least if in_any_case else 0)
            fits = rows >= least
            if fits:
                if not decoding.prefilled:
                    decoding.prefill(lambda: False)
                decoding.step(rows)
                latency.stepped(self._rows, self.clock() - started)
        self._cached = len(decoding.engine.cached())
        return fits

    def fits(self, room_ms: float) -> bool:
        """Whether the next piece fits into `room_ms`."""
        decoding, latency = self._decoding, self.latency
        if missing := decoding.missing():
            return latency.stretch_within(room_ms, missing) > 0
        least = decoding.rows()
        return latency.rows_within(room_ms, least) >= least

    def piece_ms(self) -> float:
        """What the next piece usually takes."""
        if self.finished:
            return 0.0
        latency = self.latency
        if missing := self._decoding.missing():
            return latency.prefill_ms(latency.stretch_within(math.inf, missing))
        return latency.step_ms(max(self._rows, self._decoding.rows()))

    def line_ms(self) -> float:
        """What it usually takes from here until a line is said."""
        missing, steps = self._decoding.missing(), self.counts().steps
        prefill_ms = self.latency.prefill_ms(missing) if missing else 0.0
        return prefill_ms + max(LINE_STEPS - steps, 1) * self.latency.step_ms(1)

    def lost_cache(self) -> bool:
        """Whether other work has evicted its KV cache since its last piece."""
        return not self.finished and len(self._decoding.engine.cached()) < self._cached

    def is_cached(self) -> bool:
        """Whether its document's KV cache still holds its prompt, or a beginning of it; not after an exchange."""
        return self._decoding.engine is self.runtime.engine_for(self.snapshot.uri)

    def measured_by(self, spans: Spans) -> None:
        """Add its times to `spans` from now on."""
        self._decoding.spans = spans

    def adopt(self, asked_ms: float, spans: Spans) -> bool:
        """A question is served by it, and its times are that question's; whether it was another question's before."""
        self.measured_by(spans)
        if self.ahead:
            self.ahead, self.begun_ms = False, asked_ms
            return False
        return True

    # What it says -----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the model has said all that it will say."""
        return bool(self._decoding.finish)

    @property
    def finish(self) -> str:
        """Why it ended (`decode.loop.Decoded.finish`), "" while it may go on."""
        return self._decoding.finish

    @property
    def request(self) -> DecodeRequest:
        """What the model is asked."""
        return self._decoding.request

    def agrees(self, place: CursorContext) -> bool:
        """Whether it serves `place` too, as far as is known: the user typed along it, or nothing."""
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
        """The text so far, as the model said it."""
        return self._head + self._decoding.text

    def made(self) -> Suggestion:
        """The whole text of a finished generation, as it is shown."""
        assert self.finished, "it is still being said"
        if self._made is None:
            said = self.said()
            if self.finish in {"length", "context"}:
                said = whole_lines(said, self.place.before)
            self._made = self._suggestion(finish_at(said, self._around))
        return self._made

    def useful(self) -> Suggestion:
        """What can be shown now: all, or a beginning that will stay; its text is empty where there is none."""
        if self.finished:
            return self.made()
        said = self.said()
        if self._useful is None or self._useful[0].count("\n") != said.count("\n"):
            cut = stop_rule(self.place.before, self.place.after, self.snapshot.language).cut
            self._useful = said, self._suggestion(useful_at(said, self._around, cut))
        return self._useful[1]

    def why_nothing(self) -> Reason:
        """Why there is nothing to show, where that is so."""
        if not self.finished:
            return reasons.cancelled()
        return reasons.nothing_worth_showing() if self.said().strip() else reasons.models_end()

    def counts(self) -> Counts:
        """The work so far; `reused` is known once the prompt is in the KV cache."""
        counts = self._decoding.result().counts
        return counts if self._decoding.prefilled else replace(counts, reused=0)

    def tokens(self) -> tuple[int, ...]:
        """The model's tokens, the healed ones included."""
        return self._decoding.result().tokens

    def trace(self) -> tuple[StepTrace, ...]:
        """The trace of every step so far."""
        return self._tracer.trace(len(self.tokens()))

    @cached_property
    def _around(self) -> TextAround:
        """The text around the place, lexed once for all that is shown of this generation."""
        return TextAround(self.place.before, self.place.after, self.snapshot.language)

    def _weighed(self, text: str) -> tuple[Certainty, TextAround]:
        """How sure the model was of `text`; unknown where post-processing changed a letter of it."""
        said = not self._head and self.said().startswith(text.rstrip())
        return self._decoding.certainty() if said else Certainty((), b""), self._around

    def _suggestion(self, text: str) -> Suggestion:
        certainty, around = self._weighed(text)
        text = doubt.without_unsure_closers(text, certainty, around)
        replaces = written_over(text, around) if text else 0
        work = Work(self.counts(), self.trace(), self.context)
        unsure = doubt.unsure_at(text, certainty, around)
        return Suggestion(self.place, text, replaces, work=work, interim=self.interim, unsure=unsure)

    def _stepped(self, tree: DraftTree, verified: Verified) -> None:
        self._rows = len(tree)
        self._tracer(tree, verified)


def begin(
    runtime: Runtime,
    latency: LatencyEstimator,
    clock: Clock,
    request: CompletionRequest,
    place: CursorContext,
    expected: Sequence[str],
    spans: Spans,
    *,
    hurried: bool = False,
    room: int | None = None,
    whole: bool = False,
) -> Generation:
    """A generation for `request`, which asks at `place`.

    `expected`: likely beginnings. `hurried`, `room`, `whole`: as for `Runtime.prompt_for` and `whole_prompt_for`.
    """
    snapshot = replace(request.snapshot, text=place.before + place.after)
    with spans.measure("prompt"):
        prompt_of = runtime.whole_prompt_for if whole else partial(runtime.prompt_for, hurried=hurried, room=room)
        prompt = prompt_of(snapshot, len(place.before))
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
    generation = Generation(runtime, latency, clock, snapshot, place, asked)
    generation.measured_by(spans)
    return generation
