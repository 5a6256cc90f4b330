"""The decoding loop: propose → tree → forward → verify → commit → observe; exact with any drafter."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fastcoder_lsp.core import (
    GREEDY,
    CacheLost,
    Counts,
    DraftContext,
    DrafterTraits,
    DraftTree,
    Engine,
    KeepingEngine,
    LaunchingEngine,
    Rewrite,
    Sampler,
    ShouldStop,
    SkimmingEngine,
    Verified,
)
from fastcoder_lsp.core.arrays import Float64s, Floats, Int64s
from fastcoder_lsp.core.certainty import LIKELY, Certainty, Row
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.decode.tree import Allow, GuardedDrafter, Healing, Piece, allowed_ids, build_tree, unbranched
from fastcoder_lsp.decode.weighing import WEIGHED, Weighing
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.observe import Spans

OnStep = Callable[[DraftTree, Verified], None]  # called after every forward pass with the verified tree and its outcome

PENDING_AT_MOST = 12
"""Most prompt tokens that join the first step: a forward pass of their own would read all weights once more."""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """A request to decode."""

    prompt: tuple[int, ...]
    max_tokens: int
    end_ids: frozenset[int]  # tokens that end the text
    piece: Piece  # gives the bytes of a token
    allow: Allow  # gives the ids that may come next
    cut: Callable[[str], int | None]
    """Gives the length of a text to keep once its end is known, else None; later text never changes its answer."""
    healing: bytes = b""  # bytes that the first tokens must spell; they are not part of the result
    sampler: Sampler = GREEDY
    document: str = ""  # the document's URI, or ""
    nodes: int = 16  # most rows of a verification, including the pending ones
    outdated: tuple[tuple[int, ...], ...] = ()  # an earlier guess at this output (`core.DraftContext`)
    weighed: bool = False  # whether to record the model's confidence (`Decoding.certainty`)
    rewrite: Rewrite | None = None  # the old text, if the output is expected to repeat most of one


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decode's outcome so far: text without the healed bytes, cut by the stop rule, and the emitted tokens."""

    text: str
    tokens: tuple[int, ...]
    counts: Counts
    finish: str  # why it ended: "stop", "eos", "length", "context"; "" while it may go on


@dataclass(slots=True)
class Decoding:
    """One decode, run step by step; it can be paused between steps and abandoned at no cost.

    If the engine's KV cache was freed during a pause, all decided tokens are prefilled again, and the decode goes on
    with the same tokens. `computed`: tokens that the last `prefill` ran. `on_step` is called after each step.
    `text`: as in `Decoded`, so far.
    """

    engine: Engine
    drafter: Drafter
    request: DecodeRequest
    spans: Spans
    on_step: OnStep | None = None
    _tokens: list[int] = field(default_factory=list)
    _pending: list[int] = field(default_factory=list)
    _likely: list[tuple[Int64s, Floats]] = field(default_factory=list)
    """The best ids and logits at each token's position, if the request wants them."""
    _bytes: bytearray = field(default_factory=bytearray)
    _steps: int = 0
    _accepted: Counter[str] = field(default_factory=Counter)
    _prefilled: int = 0
    _prefill_ms: float = 0.0
    _begun: bool = False
    _finish: str = ""
    _launching: LaunchingEngine | None = None
    """The engine, if the drafter observes a step while the device works on the next one."""
    _unobserved: tuple[DraftTree, Verified] | None = None
    _weighing: Weighing | None = None
    """The last step, if its token may still be replaced."""
    computed: int = 0
    text: str = ""

    def prefill(self, should_stop: ShouldStop, at_most: int | None = None) -> bool:
        """Prefill the decided tokens, except the last few, which join the next step.

        These are the prompt, and the output from before the cache was freed. Returns False if it was stopped before the
        end, or computed `at_most` tokens; these stay in the cache, and another call goes on from there.
        """
        decided = self._decided()
        ask_states(self.engine, self.drafter.traits.layers)
        began_ms = self.spans.elapsed_ms()
        cached = self.engine.prefill(decided, lambda: True).reused
        pending = _pending_tokens(len(decided) - cached)
        end = len(decided) - pending
        part = end if at_most is None else min(end, cached + at_most)
        done = self.engine.prefill(decided[:part], should_stop)
        took_ms = self.spans.elapsed_ms() - began_ms
        self.spans.add("prefill", took_ms)
        self._prefill_ms += took_ms
        self.computed = done.computed
        self._prefilled += done.computed
        if not done.done or part < end:
            return False
        self._prefilled += pending
        self._pending = list(decided[-pending:])
        if not self._begun:
            self._begun = True
            if self.drafter.traits.late and isinstance(self.engine, LaunchingEngine):
                self._launching = self.engine
            self.drafter.begin(self._context())
        return True

    @property
    def finish(self) -> str:
        """Why decoding ended, as in `Decoded.finish`."""
        return self._finish

    @property
    def prefilled(self) -> bool:
        """Whether the prefill is done and steps may begin."""
        return bool(self._pending)

    def missing(self) -> int:
        """The tokens that `prefill` has yet to compute: of the prompt, or of everything if the cache was freed."""
        if self._pending and not self._finish and self.engine.cached() != self._decided()[: -len(self._pending)]:
            self._pending = []
        if self._pending:
            return 0
        missing = self._uncached()
        return max(missing - _pending_tokens(missing), 0)

    def rows(self) -> int:
        """Least rows of the next step: tokens that are decided, but not in the KV cache."""
        if self._pending:
            return len(self._pending)
        return _pending_tokens(self._uncached())

    def step(self, nodes: int | None = None) -> bool:
        """Run one forward pass of at most `nodes` rows; returns whether the decode goes on."""
        assert not self._finish, "a finished decode has no next step"
        self._steps += 1
        if self._weighing is not None:
            return self._weigh(self._weighing)
        sampler, is_ranked = self.request.sampler, self.request.weighed or self._may_replace()
        top_k = max(self.drafter.traits.top_k, LIKELY if is_ranked else 0)
        for again in (False, True):
            tree, allowed = self._draft(nodes)
            try:
                with self.spans.measure("verify"):
                    if self._launching is None:
                        verified = self.engine.step(tree, sampler, allowed, top_k)
                    else:  # the drafter updates its tables while the device works
                        self._launching.launch(tree, sampler, allowed, top_k)
                        self._observe()
                        verified = self._launching.collect()
                break
            except CacheLost:
                if again:
                    raise
                self._restore()
        if self._may_replace() and (weighing := Weighing.of(tree, verified, self._healing())) is not None:
            self._weighing = weighing
            self._align()
            return True
        return self._conclude(tree, verified)

    def _conclude(self, tree: DraftTree, verified: Verified) -> bool:
        """Take the tokens of a step, and tell the drafter and the listener; returns whether the decode goes on."""
        self._unobserved = (tree, verified)
        self._pending = [verified.emitted[-1]]
        self._take(tree, verified)
        if self.finish or self._launching is None:
            with self.spans.measure("draft"):
                self._observe()
        if self.on_step is not None:
            self.on_step(tree, verified)
        return not self._finish

    def _may_replace(self) -> bool:
        """Whether the next token may be replaced by one that spells the given bytes in a likelier way.

        That takes a greedy choice, and an engine that can go back.
        """
        greedy = self.request.sampler.temperature <= 0
        return greedy and self.engine.info.drafts and len(self.request.healing) > len(self._bytes)

    def _weigh(self, weighing: Weighing) -> bool:
        """Run a pass over the token that is tried, and settle the step or try another one."""
        try:
            step = self.engine.step(DraftTree.chain(self._pending), top_k=WEIGHED)
        except CacheLost:
            self._restore()
            step = self.engine.step(DraftTree.chain(self._pending), top_k=WEIGHED)
        assert step.top_ids_NK is not None, "asked for ranks, got none"
        assert step.top_logits_NK is not None, "asked for ranks, got none"
        weighing.tried(weighing.best, step.top_ids_NK[-1], step.top_logits_NK[-1])
        if weighing.settled:
            self._weighing = None
            self._conclude(weighing.tree, weighing.outcome())
        self._align()
        return not self._finish

    def _align(self) -> None:
        """Drop what the KV cache holds beyond the decided tokens, whose last one is pending."""
        *cached, last = self._decided()
        self._pending = [last]
        if self.engine.cached() != tuple(cached):
            self.engine.prefill(cached, lambda: False)

    def _restore(self) -> None:
        """Prefill again what the KV cache lost."""
        self._pending = []
        self.prefill(lambda: False)

    def _draft(self, nodes: int | None) -> tuple[DraftTree, Mapping[int, Int64s]]:
        """The tree for the next step, of at most `nodes` rows, and the ids that healing allows behind its nodes."""
        request, info = self.request, self.engine.info
        nodes = request.nodes if nodes is None else min(nodes, request.nodes)
        room = min(nodes, info.max_nodes) - len(self._pending) if info.drafts else 0
        room = min(room, info.context - len(request.prompt) - len(self._tokens))
        healing = self._healing()
        with self.spans.measure("draft"):
            draft = self.drafter.propose(self._context(), max(room, 0))
            tree = build_tree(self._pending, draft, room=room, vocabulary=info.vocabulary, healing=healing)
            if not info.trees:
                tree = unbranched(tree)
            return tree, allowed_ids(tree, healing)

    def _healing(self) -> Healing:
        request = self.request
        return Healing(request.healing[len(self._bytes) :], request.piece, request.allow)

    def _observe(self) -> None:
        if self._unobserved is not None:
            self.drafter.observe(*self._unobserved)
            self._unobserved = None

    def result(self) -> Decoded:
        """The outcome so far."""
        return Decoded(
            self.text,
            tuple(self._tokens),
            Counts(
                self._steps,
                len(self._tokens),
                self._accepted.total(),
                self._prefilled,
                max(len(self.request.prompt) - self._prefilled, 0),
                dict(self._accepted),
                self._prefill_ms,
            ),
            self._finish,
        )

    def certainty(self) -> Certainty:
        """The model's confidence in the text so far; empty unless the request is `weighed`."""
        piece = self.request.piece
        rows = [
            Row(piece(token), tuple(zip(map(piece, ids_K.tolist()), _probabilities(logits_K).tolist(), strict=True)))
            for token, (ids_K, logits_K) in zip(self._tokens, self._likely, strict=False)
        ]
        return Certainty(rows, self.request.healing)

    def _decided(self) -> tuple[int, ...]:
        """All tokens so far, with the one that is tried."""
        tried = () if self._weighing is None else (self._weighing.best,)
        return (*self.request.prompt, *self._tokens, *tried)

    def _uncached(self) -> int:
        decided = self._decided()
        return len(decided) - common_prefix(self.engine.cached(), decided)

    def _context(self) -> DraftContext:
        request, traits = self.request, self.drafter.traits
        tokens = [*request.prompt, *self._tokens]
        cached = len(tokens) - len(self._pending)
        lent = _states_of(self.engine, traits.layers, cached), request.sampler, _skimming(self.engine, traits)
        known = request.document, request.outdated, cached
        return DraftContext(tokens, len(request.prompt), *known, *lent, rewrite=request.rewrite)

    def _take(self, tree: DraftTree, verified: Verified) -> None:
        request = self.request
        full = self.engine.info.context - len(request.prompt)
        for index, token in enumerate(verified.emitted):
            if token in request.end_ids:
                self._finish = "eos"
                break
            self._tokens.append(token)
            if request.weighed and verified.top_ids_NK is not None and verified.top_logits_NK is not None:
                node = verified.path[index - 1] if index else tree.pending - 1
                best = verified.top_ids_NK[node, :LIKELY], verified.top_logits_NK[node, :LIKELY]
                self._likely.append((best[0].copy(), best[1].copy()))
            self._bytes += request.piece(token)
            if index < len(verified.path):
                self._accepted[tree.sources[verified.path[index]]] += 1
            # Hold back the bytes of an incomplete character until the next token.
            self.text = self._bytes[len(request.healing) :].decode("utf-8", errors="ignore")
            if (length := request.cut(self.text)) is not None:
                self.text, self._finish = self.text[:length], "stop"
            elif len(self._tokens) >= request.max_tokens:
                self._finish = "length"
            elif len(self._tokens) >= full:
                self._finish = "context"
            if self._finish:
                break


def decode(
    engine: Engine,
    drafter: Drafter,
    request: DecodeRequest,
    should_stop: ShouldStop,
    spans: Spans | None = None,
    on_step: OnStep | None = None,
) -> Decoded:
    """Decode `request` to its end, or until `should_stop` returns True between prefill chunks or steps."""
    decoding = Decoding(engine, GuardedDrafter(drafter), request, spans or Spans(), on_step)
    going = decoding.prefill(should_stop)
    while going and not should_stop():
        going = decoding.step()
    return decoding.result()


def ask_states(engine: Engine, layers: Sequence[int]) -> None:
    """Let the engine keep the hidden states behind `layers`, if it can; does nothing for no layers."""
    if layers and isinstance(engine, KeepingEngine):
        engine.keep_states(layers)


def _states_of(engine: Engine, layers: Sequence[int], cached: int) -> KeepingEngine | None:
    """The engine, if it has the hidden states of `cached` tokens; None if it has none, or its cache is gone."""
    if not layers or not isinstance(engine, KeepingEngine) or not engine.keep_states(layers):
        return None
    return engine if len(engine.cached()) == cached else None


def _skimming(engine: Engine, traits: DrafterTraits) -> SkimmingEngine | None:
    """The engine, if the drafter drafts by a part of its layers and the engine can run that part; else None."""
    return engine if traits.skims and isinstance(engine, SkimmingEngine) else None


def _pending_tokens(missing: int) -> int:
    """How many of a prompt's last tokens join the first step, if `missing` of its tokens are not in the cache."""
    return missing if 1 <= missing <= PENDING_AT_MOST else 1


def _probabilities(logits_K: Floats) -> Float64s:
    weights_K = np.exp(logits_K.astype(np.float64) - float(logits_K[0]))
    shares_K: Float64s = weights_K / weights_K.sum()
    return shares_K
