"""The text at one place, as it grows: the shown part of it, and the model's prompt, decoding and post-processing.

It can pause between any two pieces of work; other generations use other KV caches. It outlives its first question, and
serves any later one whose text agrees with it. Runs in the scheduler's thread.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from typing_extensions import override

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.question import Clock, Question
from fastcoder_lsp.completion.suggestions import CursorContext, Suggestion, Work, inserted
from fastcoder_lsp.core import (
    GREEDY,
    CompletionRequest,
    Counts,
    DraftTree,
    Engine,
    EngineInfo,
    Pieces,
    RawPrompt,
    Reason,
    Snapshot,
    StepTrace,
    Verified,
)
from fastcoder_lsp.core.certainty import Certainty
from fastcoder_lsp.core.chances import UNKNOWN, Doubts, LeastChances, chances_of
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.decode.stop import StopRule, stop_rule
from fastcoder_lsp.decode.trace import Tracer
from fastcoder_lsp.decode.tree import GuardedDrafter
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.postprocess import (
    TextAround,
    covered,
    dropped_by,
    finish,
    useful,
    whole_lines,
    without_header,
)
from fastcoder_lsp.postprocess.part import begun_line, may_end
from fastcoder_lsp.postprocess.useful import unsure_at, without_unsure_closers
from fastcoder_lsp.runtime.parts import Runtime
from fastcoder_lsp.scheduling.budget import ANSWER_MS, LINE_STEPS, SLICE_MS, LatencyEstimator, slice_of

_HEARD = 200_000  # characters on each side of the cursor in which a word is looked for


class Generation(ABC):
    """The text between `place.before` and `place.after` of a document, as far as it is generated.

    Attributes:
        begun_ms: when the first question it served was asked.
        ahead: whether no request has asked for it yet.
        reported: the work that its client was told of.
        interim: whether the prompt is only a part of the whole one.
        grows: whether its text is usable as it grows; otherwise it serves no other place before it is whole.
        sampler: how its tokens are chosen.
    """

    context: tuple[str, ...] = ()  # the other files whose code is in the prompt (`core.Completion.context`)
    interim = False
    raw: RawPrompt | None = None  # the request, if the text answers a raw prompt
    grows = True
    exact = False  # of the request (`CompletionRequest.exact`)
    sampler = GREEDY

    def __init__(self, snapshot: Snapshot, place: CursorContext) -> None:
        self.snapshot, self.place = snapshot, place
        self.begun_ms, self.ahead, self.reported = 0.0, False, Counts()
        self._useful: tuple[str, Suggestion] | None = None
        self._made: Suggestion | None = None

    @abstractmethod
    def work(self, room_ms: float, *, in_any_case: bool = False) -> bool:
        """Do one piece of work; False where none fits into `room_ms`, unless a small one runs `in_any_case`."""

    @property
    def waits(self) -> bool:
        """Whether the next piece comes from elsewhere, so that there is nothing to do until then."""
        return False

    def fits(self, room_ms: float) -> bool:
        """Whether the next piece fits into `room_ms`."""
        return room_ms > 0

    def piece_ms(self) -> float:
        """How long the next piece usually takes."""
        return 0.0

    def begun(self) -> "Generation":
        """The generation that goes on with this one's work: mostly itself."""
        return self

    def lost_cache(self) -> bool:
        """Whether other work has evicted its KV cache since its last piece."""
        return False

    def answer_ms(self) -> float:
        """The part of a budget that the answer itself needs."""
        return ANSWER_MS

    def answered(self, took_ms: float) -> None:  # noqa: B027 only an estimator learns
        """Learn how long it took to find a beginning worth showing."""

    @abstractmethod
    def can_branch(self) -> bool:
        """Whether alternatives for its place are available."""

    @abstractmethod
    def measured_by(self, spans: Spans) -> None:
        """Add its times to `spans` from now on."""

    def adopt(self, asked_ms: float, spans: Spans) -> bool:
        """Serve a question, and record times in its spans, no longer in an earlier question's."""
        self.measured_by(spans)
        if self.ahead:
            self.ahead, self.begun_ms = False, asked_ms
            return False
        return True

    @property
    def allowed(self) -> bool:
        """Whether the reading rules still allow its prompt; they may have changed since."""
        return True

    def close(self) -> None:  # noqa: B027 a local model needs no notice
        """End the work: the text is no longer needed."""

    @property
    @abstractmethod
    def info(self) -> EngineInfo:
        """The engine that generates it."""

    @property
    @abstractmethod
    def finish(self) -> str:
        """Why the text ended (`decode.loop.Decoded.finish`), "" while it may continue."""

    @property
    def finished(self) -> bool:
        """Whether the work is done."""
        return bool(self.finish)

    @abstractmethod
    def said(self) -> str:
        """The text so far, before post-processing."""

    @abstractmethod
    def counts(self) -> Counts:
        """The work so far; `reused` is known once the prompt is in the KV cache."""

    def trace(self) -> tuple[StepTrace, ...]:
        """The trace of every step so far."""
        return ()

    @property
    def alone(self) -> bool:
        """Whether its text answers its own question alone: it is drawn, or answers a raw prompt."""
        return self.sampler.draws or self.raw is not None

    def serves(self, question: Question) -> bool:
        """Whether its text is, as far as is known, what `question` asks for."""
        asked, snapshot = question.request, self.snapshot
        if question.uri != snapshot.uri or self.raw != asked.raw or self.sampler != asked.sampler:
            return False
        if self.sampler.draws and asked.snapshot.version != snapshot.version:
            return False  # a second text is another draw
        return self.agrees(question.place)

    def agrees(self, place: CursorContext) -> bool:
        """Whether it serves `place` too, as far as is known: the user typed along it, or nothing."""
        if self.finish:
            return place == self.place or self.made().rest(place) is not None
        if place == self.place:
            return True
        goes_on = place.before.startswith(self.place.before) and inserted(self.place, place) is not None
        if not (self.grows and goes_on):
            return False
        typed, said = place.before[len(self.place.before) :], self.said()
        return said.startswith(typed) or typed.startswith(said)

    def made(self) -> Suggestion:
        """The whole text, post-processed."""
        assert self.finish, "it is still being said"
        if self._made is None:
            said = self.said()
            full = self.finish in {"length", "context"}
            keeps = self.exact and "\n" not in said.strip()
            if full and not keeps:
                said = whole_lines(said, self.place.before)
            said = said if keeps else without_header(said, self._around)
            self._made = self._suggestion(said if full and keeps and said.isspace() else self._finished(said))
        return self._made

    def useful(self) -> Suggestion:
        """The text to show now: the whole one, or a beginning that will stay; its text may be empty."""
        if self.finish:
            return self.made()
        said = self.said()
        if self._useful is None or self._useful[0].count("\n") != said.count("\n"):
            self._useful = said, self._suggestion(useful(said, self._around, self._rule.cut))
        return self._useful[1]

    def enough(self, question: Question) -> Suggestion:  # noqa: ARG002 a server's text comes whole
        """The text to show where it `is_enough`."""
        return self.useful()

    def is_enough(self, question: Question) -> bool:  # noqa: ARG002 a server's text comes whole
        """Whether the question's rules would hold back all that it has not said yet: more words, or the whole text."""
        return False

    def is_unsure(self, question: Question) -> bool:  # noqa: ARG002 a server's text comes whole
        """Whether the question's rules hold back its text, however it goes on."""
        return False

    def settled(self) -> str:
        """Whole lines of a text that nothing will change, if its client reads them as they are made."""
        return ""

    def why_nothing(self) -> Reason:
        """Why there is nothing to show."""
        ended = self.finish and not self.said().strip()
        if ended:
            return reasons.models_end()
        return reasons.nothing_worth_showing(dropped_by(self.said(), self._around))

    @abstractmethod
    def why_slow(self, allowed_ms: float, over_ms: float, *, invoked: bool) -> Reason:
        """Why no text was ready within `allowed_ms`, `over_ms` after the deadline."""

    def _finished(self, said: str) -> str:
        """A whole text, post-processed."""
        return finish(said, self._around)

    def _suggestion(self, text: str) -> Suggestion:
        return Suggestion(self.place, text, covered(text, self._around) if text else 0, finish=self.finish)

    @cached_property
    def _around(self) -> TextAround:
        snapshot = self.snapshot
        return TextAround(self.place.before, self.place.after, snapshot.language, snapshot.indentation)

    @cached_property
    def _rule(self) -> StopRule:
        return stop_rule(self.place.before, self.place.after, self.snapshot.language)


class PacedDecoding:
    """A decoding in pieces of `clock`'s milliseconds. `latency` estimates their time, and learns from them."""

    def __init__(
        self, engine: Engine, drafter: Drafter, request: DecodeRequest, latency: LatencyEstimator, clock: Clock
    ) -> None:
        self.latency, self.clock = latency, clock
        self._decoding = Decoding(engine, GuardedDrafter(drafter), request, Spans(), on_step=self._stepped)
        self._most = min(request.nodes, engine.info.max_nodes)
        self._rows = 1
        self._cached = 0

    def work(self, room_ms: float, *, in_any_case: bool = False) -> bool:
        """Prefill a stretch, or do a step; False where neither fits into `room_ms`, unless it runs `in_any_case`."""
        assert not self._decoding.finish, "all is said"
        decoding, latency, started = self._decoding, self.latency, self.clock()
        if missing := decoding.missing():
            tokens = latency.stretch_within(math.inf if in_any_case else room_ms, missing)
            fits = tokens > 0
            if fits:
                decoding.prefill(lambda: False, tokens)
                if decoding.computed:  # none if all was copied from another cache
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

    @property
    def cached(self) -> int:
        """Tokens in its KV cache after the last piece."""
        return self._cached

    def fits(self, room_ms: float) -> bool:
        """Whether the next piece fits into `room_ms`."""
        decoding, latency = self._decoding, self.latency
        if missing := decoding.missing():
            return latency.stretch_within(room_ms, missing) > 0
        least = decoding.rows()
        return latency.rows_within(room_ms, least) >= least

    def piece_ms(self) -> float:
        """How long the next piece usually takes."""
        if self._decoding.finish:
            return 0.0
        latency = self.latency
        if missing := self._decoding.missing():
            return latency.prefill_ms(latency.stretch_within(math.inf, missing))
        return latency.step_ms(max(self._rows, self._decoding.rows()))

    def lost_cache(self) -> bool:
        """Whether other work has evicted its KV cache since its last piece."""
        return not self._decoding.finish and len(self._decoding.engine.cached()) < self._cached

    def measured_by(self, spans: Spans) -> None:
        """Add its times to `spans` from now on."""
        self._decoding.spans = spans

    def _stepped(self, tree: DraftTree, verified: Verified) -> None:  # noqa: ARG002 others trace it
        self._rows = len(tree)


class LocalGeneration(PacedDecoding, Generation):
    """A text that the model on this machine generates.

    `snapshot` has the text of `place`. `head`: a beginning of the text that the model does not generate.
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
        Generation.__init__(self, snapshot, place)
        PacedDecoding.__init__(self, runtime.engine_for(snapshot.uri), runtime.drafter, request, latency, clock)
        self.runtime = runtime
        self.context = runtime.prompts.context_of(snapshot.uri)
        self.interim = runtime.is_interim(snapshot.uri)
        self._head = head
        self._tracer = Tracer(runtime.tokenizer.piece, len(request.healing))
        self._heard = dict[str, bool]()
        self._judged: tuple[object, _Judgement] = (None, _Judgement())  # what was judged, and how

    @override
    def answer_ms(self) -> float:
        return self.latency.answer_ms()

    @override
    def answered(self, took_ms: float) -> None:
        self.latency.answered(took_ms)

    @override
    def can_branch(self) -> bool:
        """Whether its KV cache is still its document's, and so holds its prompt; not after the caches were swapped."""
        return self._decoding.engine is self.runtime.engine_for(self.snapshot.uri)

    @property
    @override
    def info(self) -> EngineInfo:
        return self.runtime.info

    @property
    @override
    def finish(self) -> str:
        return self._decoding.finish

    @property
    def request(self) -> DecodeRequest:
        """The decoding request."""
        return self._decoding.request

    @property
    @override
    def allowed(self) -> bool:
        return self.finished or self.runtime.prompts.may_show(self.snapshot.uri)

    @override
    def said(self) -> str:
        return self._head + self._decoding.text

    @override
    def enough(self, question: Question) -> Suggestion:
        return (None if self.finish else self._judge(question).part) or self.useful()

    @override
    def is_enough(self, question: Question) -> bool:
        return self._judge(question).enough

    @override
    def is_unsure(self, question: Question) -> bool:
        return self._judge(question).unsure

    def _judge(self, question: Question) -> "_Judgement":
        limits, typed, said = question.policy.quiet.limits, self._typed(question.place), self.said()
        if question.request.invoked or not limits.words or self._head or not said[typed:].strip():
            return _Judgement()
        what = typed, limits, len(said)
        if self._judged[0] != what:
            self._judged = what, self._judgement(said, typed, limits)
        return self._judged[1]

    def _judgement(self, said: str, typed: int, limits: LeastChances) -> "_Judgement":
        rest, doubts = said[typed:], replace(self._doubts, grows=True)
        several = "\n" in rest.lstrip()
        parts = may_end(said, self._around) if several else _anywhere  # the first word alone needs no lexer
        chances = chances_of(said, self._decoding.certainty(), parts, doubts, typed + 1)
        length, part = chances.sure_length(rest, typed, limits), None
        if 0 < length < len(rest) and not several:
            chances = chances_of(said, self._decoding.certainty(), may_end(said, self._around), doubts, typed + 1)
            length = chances.sure_length(rest, typed, limits)
            begun = begun_line(said[: typed + length], self._around) if length else ""
            part = self._suggestion(begun) if begun else None
        ended = said.find("\n", max(typed + length, len(said) - len(rest.lstrip()))) >= 0
        return _Judgement(ended or part is not None or not length, not length, part)

    @cached_property
    def _doubts(self) -> Doubts:
        head = self._around.head
        return Doubts(self._around.left, self._hears, prose=bool(head.comment or head.quote))

    def _hears(self, word: str) -> bool:
        """Whether the document or the prompt has a word; of a huge document, the part around the cursor counts."""
        if word not in self._heard:
            begin = re.escape(word)  # a pattern that begins with plain text is searched some sixty times as fast
            whole = re.compile(rf"{begin}(?!\w)(?<!\w{begin})")
            near = (self.place.before[-_HEARD:], self.place.after[:_HEARD], self._prompt_text)
            self._heard[word] = any(map(whole.search, near))
        return self._heard[word]

    @cached_property
    def _prompt_text(self) -> str:
        return b"".join(map(self.runtime.tokenizer.piece, self.request.prompt)).decode(errors="ignore")

    def _typed(self, place: CursorContext) -> int:
        """How many characters were typed along it until `place`."""
        return max(len(place.before) - len(self.place.before), 0)

    @override
    def why_slow(self, allowed_ms: float, over_ms: float, *, invoked: bool) -> Reason:
        """With the usual time from here to the end of a line."""
        missing, steps = self._decoding.missing(), self.counts().steps
        prefill_ms = self.latency.prefill_ms(missing) if missing else 0.0
        line_ms = prefill_ms + max(LINE_STEPS - steps, 1) * self.latency.step_ms(1)
        return reasons.slow("", allowed_ms, over_ms + line_ms, invoked=invoked)

    @override
    def counts(self) -> Counts:
        counts = self._decoding.result().counts
        return counts if self._decoding.prefilled else replace(counts, reused=0)

    def tokens(self) -> tuple[int, ...]:
        """The model's tokens, the healed ones included."""
        return self._decoding.result().tokens

    @override
    def trace(self) -> tuple[StepTrace, ...]:
        return self._tracer.trace(len(self.tokens()))

    def _weighed(self, text: str) -> tuple[Certainty, TextAround]:
        """The model's certainty of `text`; unknown where post-processing changed a character of it."""
        said = not self._head and self.said().startswith(text.rstrip())
        return self._decoding.certainty() if said else Certainty((), b""), self._around

    @override
    def _suggestion(self, text: str) -> Suggestion:
        certainty, around = self._weighed(text)
        suggestion = super()._suggestion(without_unsure_closers(text, certainty, around))
        work = Work(self.counts(), self.trace(), self.context)
        unsure = unsure_at(suggestion.text, certainty, around)
        parts = may_end(suggestion.text, around)
        chances = UNKNOWN
        if not self._head:
            chances = chances_of(suggestion.text, self._decoding.certainty(), parts, self._doubts)
        return replace(suggestion, work=work, interim=self.interim, unsure=unsure, chances=chances)

    @override
    def _stepped(self, tree: DraftTree, verified: Verified) -> None:
        super()._stepped(tree, verified)
        self._tracer(tree, verified)


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What a question's rules hold back: all that is not said yet, or the whole text; `part`: of a line, to show."""

    enough: bool = False
    unsure: bool = False
    part: Suggestion | None = None


def _anywhere(end: int) -> bool:  # noqa: ARG001 as `may_end` gives one
    return True


class SearchingGeneration(Generation):
    """A text whose prompt is being built: a piece of its work is a slice of the search for code of other files.

    `building` gives the generation that has the prompt, by the model of `info`, which `latency` knows.
    """

    def __init__(
        self,
        building: Pieces[LocalGeneration],
        info: EngineInfo,
        latency: LatencyEstimator,
        clock: Clock,
        snapshot: Snapshot,
        place: CursorContext,
        spans: Spans,
    ) -> None:
        super().__init__(snapshot, place)
        self._building, self._info, self._latency, self._clock, self._spans = building, info, latency, clock, spans
        self._built: LocalGeneration | None = None

    @override
    def begun(self) -> Generation:
        built = self._built
        if built is None:
            return self
        built.begun_ms, built.ahead = self.begun_ms, self.ahead
        built.measured_by(self._spans)
        return built

    @override
    def work(self, room_ms: float, *, in_any_case: bool = False) -> bool:
        """Search for about `SLICE_MS`."""
        if not in_any_case and not self.fits(room_ms):
            return False
        with self._spans.measure("prompt"):
            done = slice_of(self._building, self._clock)
        self._built = done.result if done is not None else None
        return True

    @override
    def fits(self, room_ms: float) -> bool:
        return room_ms >= SLICE_MS

    @override
    def piece_ms(self) -> float:
        return SLICE_MS

    @override
    def can_branch(self) -> bool:
        """Once its prompt is built."""
        return True

    @override
    def measured_by(self, spans: Spans) -> None:
        self._spans = spans

    @property
    @override
    def info(self) -> EngineInfo:
        return self._info

    @property
    @override
    def finish(self) -> str:
        return ""

    @override
    def said(self) -> str:
        return ""

    @override
    def counts(self) -> Counts:
        return Counts()

    @override
    def why_slow(self, allowed_ms: float, over_ms: float, *, invoked: bool) -> Reason:
        """With the usual time of a line, without its prompt's."""
        return reasons.slow("", allowed_ms, over_ms + LINE_STEPS * self._latency.step_ms(1), invoked=invoked)


def begin(
    runtime: Runtime,
    latency: LatencyEstimator,
    clock: Clock,
    request: CompletionRequest,
    place: CursorContext,
    expected: Sequence[str],
    *,
    hurried: bool = False,
    room: int | None = None,
    whole: bool = False,
) -> Pieces[LocalGeneration]:
    """A generation for `request`, which asks at `place`, once its prompt is built.

    `expected`: likely beginnings. `hurried`, `room`, `whole`: as for `Runtime.prompt_for` and `whole_prompt_for`. A
    drawn text's prompt follows from the request alone, so that a seed gives one text.
    """
    snapshot = replace(request.snapshot, text=place.before + place.after)
    some = partial(runtime.prompt_for, hurried=hurried, room=room, by_key=request.invoked)
    prompt_of = runtime.whole_prompt_for if whole else some
    if request.sampler.draws:
        runtime.prompts.forget(snapshot.uri)
        prompt_of = runtime.prompt_for
    prompt = yield from prompt_of(snapshot, len(place.before))
    healing = prompt.healing.decode()
    asked = DecodeRequest(
        prompt=prompt.tokens,
        max_tokens=request.max_tokens or runtime.limits.max_tokens,
        end_ids=runtime.tokenizer.end_ids,
        piece=runtime.tokenizer.piece,
        allow=runtime.allow,
        cut=stop_rule(place.before, place.after, snapshot.language).cut,
        healing=prompt.healing,
        sampler=request.sampler,
        document=snapshot.uri,
        nodes=runtime.limits.nodes,
        weighed=True,
        outdated=tuple(tuple(runtime.tokenizer.encode(healing + text)) for text in expected),
    )
    generation = LocalGeneration(runtime, latency, clock, snapshot, place, asked)
    generation.exact, generation.sampler = request.exact, request.sampler
    return generation
