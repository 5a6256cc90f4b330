"""SDSAT decoding: adaptive tokens appended to the text give guesses for what comes; the next pass verifies them.

Liu et al. 2024, *SDSAT: Accelerating LLM Inference through Speculative Decoding with Semantic Adaptive Tokens* (arXiv
2403.18647v2), section 2.1. An adaptive token stands in the place of a token that is not known yet, and the model was
taught to predict after it the token after that one. The paper alternates two passes: the last token with k adaptive
tokens, then the guesses they gave; `two_step` does so. Here one pass does both: chains of adaptive tokens hang below
the guesses, so that wherever the model leaves the guesses, the next ones are there already. Adaptive tokens are never
accepted, unless the model itself would say them.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, StepCosts, Verified
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.draft.auto.evidence import SOURCES, TRAINED
from fastcoder_lsp.draft.auto.sources import FoundContinuations, TailSource
from fastcoder_lsp.draft.base import FROM_ADAPTIVE, Drafter, DrafterParts, Pinned, Source, Specification

FROM_SDSAT = Source("sdsat", "other")
PUBLISHED_LONGEST = 5  # L of the 7B model
SEEN = 8  # best ids of a row that its probabilities are estimated from
PRIOR = 4.0  # guesses that the calibration starts with, which came true as often as the model predicts
REMEMBERED = 0.9  # the factor by which the calibration's counts decay at each step


@dataclass(frozen=True, slots=True)
class SdsatParameters:
    """Parameters of `sdsat`."""

    k: int = 0
    """Adaptive tokens, and so guesses, in a row (published: 5 to 13; more than L needs one id for all); 0: L."""
    branch: int = 2  # candidates of a place (published for sampling: 10; one for greedy decoding)
    top_p: float = 0.95  # candidates are taken up to this share of the place's probability
    least: float = 0.03  # expected tokens that a row must bring
    two_step: bool = False  # whether the passes alternate as in the paper


SDSAT = Specification(
    "sdsat",
    "the model's own guesses behind adaptive tokens",
    SdsatParameters(),
    lambda parameters, parts: SdsatDrafter(parts.trained.adaptive, parameters, parts.trained.longest),
    paper="Liu et al. 2024, SDSAT (arXiv 2403.18647v2), section 2.1",
    sources=(FROM_SDSAT, FROM_ADAPTIVE),
    traits=DrafterTraits(top_k=SEEN),
    tuned_by="sdsat",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token for one place, and its probability by the model."""

    token: int
    probability: float


@dataclass(slots=True)
class PositionCalibration:
    """How often first candidates came true of late, by place, against the model's own probabilities."""

    came_true: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)

    def factor(self, place: int) -> float:
        """The factor of a probability at `place`."""
        if place >= len(self.expected):
            return 1.0
        return min(1.5, (PRIOR + self.came_true[place]) / (PRIOR + self.expected[place]))

    def learn(self, place: int, probability: float, *, came_true: bool) -> None:
        """Count a first candidate that was verified."""
        while place >= len(self.expected):
            self.expected.append(0.0)
            self.came_true.append(0.0)
        self.expected[place] += probability
        self.came_true[place] += came_true

    def fade(self) -> None:
        """Forget a part of what was counted, so that a text where guesses failed does not stop them for good."""
        self.came_true = [REMEMBERED * count for count in self.came_true]
        self.expected = [REMEMBERED * count for count in self.expected]

    def survival(self, place: int) -> float:
        """The chance that first candidates up to `place` all come true."""
        chance = 1.0
        for earlier in range(place + 1):
            known = earlier < len(self.expected)
            tried = PRIOR + (self.expected[earlier] if known else 0.0)
            chance *= min(1.0, (0.7 * PRIOR + (self.came_true[earlier] if known else 0.0)) / tried)
        return chance


class SdsatDrafter(Drafter):
    """Drafts on a model tuned by `train sdsat` with the ids `adaptive`: one, or L different ones, which bound k."""

    def __init__(self, adaptive: Sequence[int], parameters: SdsatParameters | None = None, longest: int = 0) -> None:
        super().__init__(SDSAT)
        self.parameters = parameters or SdsatParameters()
        self.traits = DrafterTraits(top_k=max(self.parameters.branch, SEEN))
        self.calibration = PositionCalibration()
        self._adaptive, self._longest = tuple(adaptive), longest or PUBLISHED_LONGEST
        self._candidates: list[list[Candidate]] = []

    @property
    def k(self) -> int:
        """Guesses at most; SDSAT-D has at most as many as ids."""
        k = self.parameters.k or self._longest
        return min(k, len(self._adaptive)) if len(self._adaptive) > 1 else k

    def candidates(self) -> list[list[Candidate]]:
        """The candidates for each place after the last token, likeliest first."""
        return self._candidates

    def begin(self, context: DraftContext) -> None:  # noqa: ARG002 the interface
        """Drop the candidates; the calibration fades by itself."""
        self._candidates = []

    def propose(self, context: DraftContext, nodes: int) -> Draft:  # noqa: ARG002 the interface
        """Guesses from the last pass's adaptive tokens, and adaptive tokens for the next ones."""
        if nodes < 1 or not self._adaptive:
            return NO_DRAFT
        growth = _BestFirstTree(self, nodes)
        growth.grow()
        return growth.draft()

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Calibrate by the outcome, and read the chain below the last accepted token."""
        if not self._adaptive:
            return
        assert verified.top_ids_NK is not None
        assert verified.top_logits_NK is not None
        self.calibration.fade()
        self._learn(verified)
        below = tree.children()
        node: int | None = verified.path[-1] if verified.path else tree.pending - 1
        self._candidates = []
        for place in range(self.k):
            node = below.get(node, {}).get(self.adaptive_id(place)) if node is not None else None
            if node is None:
                return
            self._candidates.append(self._read(verified.top_ids_NK[node], verified.top_logits_NK[node]))

    def adaptive_id(self, place: int) -> int:
        """The adaptive token at a place of a chain."""
        return self._adaptive[min(place, len(self._adaptive) - 1)]

    def _read(self, ids_K: Int64s, logits_K: Floats) -> list[Candidate]:
        """The candidates of a row, with probabilities among the best few ids."""
        weights = np.exp(logits_K[:SEEN].astype(np.float64) - float(logits_K[0]))
        shares = weights / weights.sum()
        found, held = list[Candidate](), 0.0
        for token, share in zip(ids_K.tolist(), shares.tolist(), strict=False):
            if len(found) == self.parameters.branch or held >= self.parameters.top_p:
                break
            held += share
            if token not in self._adaptive:
                found.append(Candidate(token, share))
        return found

    def _learn(self, verified: Verified) -> None:
        for place, token in enumerate(verified.emitted):
            if place >= len(self._candidates) or not self._candidates[place]:
                return
            first = self._candidates[place][0]
            self.calibration.learn(place, first.probability, came_true=first.token == token)
            if first.token != token:
                return


class _BestFirstTree:
    """One draft, grown node by node; the node with the most expected tokens comes first."""

    def __init__(self, drafter: SdsatDrafter, room: int) -> None:
        self._drafter, self._room = drafter, room
        self._nodes: list[tuple[int, int, str]] = []
        self._order = count()
        self._heap: list[tuple[float, int, int, int, int, float, bool]] = []
        """(−worth, order, token, parent, place, chance, whether it is adaptive): see `_offer`."""

    def grow(self) -> None:
        candidates = self._drafter.candidates()
        two_step = self._drafter.parameters.two_step
        self._below(-1, 0, 1.0, guess=True, adapt=not (two_step and candidates))
        while self._heap and len(self._nodes) < self._room:
            _, _, token, parent, place, chance, adaptive = heapq.heappop(self._heap)
            node = len(self._nodes)
            self._nodes.append((token, parent, (FROM_ADAPTIVE if adaptive else FROM_SDSAT).name))
            if adaptive:
                self._adapt(node, place + 1, chance)
            else:
                self._below(node, place + 1, chance, guess=True, adapt=not two_step)

    def draft(self) -> Draft:
        if not self._nodes:
            return NO_DRAFT
        tokens, parents, sources = zip(*self._nodes, strict=True)
        return Draft(tokens, parents, sources, (0,) * len(tokens))

    def _below(self, node: int, place: int, chance: float, *, guess: bool, adapt: bool) -> None:
        """Offer the children of a guess (or the root) that is reached with `chance`."""
        drafter, ends_here = self._drafter, chance
        candidates = drafter.candidates()
        if guess and place < min(len(candidates), drafter.k):
            for candidate in candidates[place]:
                share = min(1.0, candidate.probability * drafter.calibration.factor(place))
                ends_here -= chance * share
                self._offer(chance * share, candidate.token, node, place, chance * share, adaptive=False)
        if adapt:
            self._adapt(node, 0, max(ends_here, 0.0))

    def _adapt(self, node: int, place: int, chance: float) -> None:
        drafter = self._drafter
        if place < drafter.k:
            worth = chance * drafter.calibration.survival(place)
            self._offer(worth, drafter.adaptive_id(place), node, place, chance, adaptive=True)

    def _offer(self, worth: float, token: int, parent: int, place: int, chance: float, *, adaptive: bool) -> None:
        """Queue a node; `worth`: the tokens that it is expected to bring, now or in the next pass."""
        if worth >= self._drafter.parameters.least:
            heapq.heappush(self._heap, (-worth, next(self._order), token, parent, place, chance, adaptive))


_BELIEVED, _FADE = 5.0, 0.98
"""Prior for the tokens that adaptive rows brought, and were expected to bring; old counts decay at each step."""


class SdsatSource(TailSource):
    """On a model tuned by SDSAT, its guesses as continuations, and the adaptive tokens that give the next ones."""

    name = SOURCES[TRAINED]

    def __init__(self, drafter: SdsatDrafter) -> None:
        self._drafter = drafter
        self.top_k, self.depth = drafter.traits.top_k, drafter.k
        self._hoped = self._gained = _BELIEVED

    @override
    def begin(self, context: DraftContext, stores: Pinned) -> None:
        self._drafter.begin(context)

    def find(self, context: DraftContext, found: FoundContinuations) -> None:  # noqa: ARG002 as above
        """Add the likeliest tokens in a row, and at each place its other candidates."""
        candidates = [places for places in self._drafter.candidates() if places]
        firsts = [places[0].token for places in candidates][: found.depth]
        for place in range(len(firsts)):
            for candidate in candidates[place][1 if place else 0 :]:
                first = candidate is candidates[0][0]
                found.add_row(firsts if first else [*firsts[:place], candidate.token], TRAINED, 1)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Count the accepted tokens of this source, and read the next guesses."""
        self._gained += accepted.count(TRAINED)
        self._drafter.observe(tree, verified)

    def extended(self, draft: Draft, likely: Sequence[float], nodes: int, costs: StepCosts | None) -> Draft:
        """`draft` with adaptive tokens below it, as many as are worth their rows.

        The gain of rows is counted by the tokens accepted on this source's evidence, since a draft that other sources
        propose too is no gain. A row is worth the recent ratio of tokens brought to tokens expected.

        Args:
            draft: the tree that `auto` grew.
            likely: the probability of each of its nodes' paths.
            nodes: nodes at most, in all.
            costs: of the engine's steps; None: a row must bring `SdsatParameters.least` tokens.
        """
        drafter = self._drafter
        stops = [1.0, *likely]
        for parent, chance in zip(draft.parents, likely, strict=True):
            stops[parent + 1] -= chance
        came = self._gained / self._hoped
        offers = sorted(
            (
                (came * max(stop, 0.0) * drafter.calibration.survival(place), -place, node - 1)
                for node, stop in enumerate(stops)
                for place in range(drafter.k)
            ),
            reverse=True,
        )
        tokens, parents, sources = list(draft.tokens), list(draft.parents), list(draft.sources)
        ends = {node: node for node in range(-1, len(draft.tokens))}
        for worth, place, below in offers:
            if len(tokens) >= nodes or worth < self._least(len(tokens), costs):
                break
            self._hoped += worth / came
            parents.append(ends[below])
            ends[below] = len(tokens)
            tokens.append(drafter.adaptive_id(-place))
            sources.append(FROM_ADAPTIVE.name)
        self._hoped, self._gained = (_FADE * value + (1 - _FADE) * _BELIEVED for value in (self._hoped, self._gained))
        matches = (*draft.matches, *(0 for _ in range(len(tokens) - len(draft.tokens))))
        return Draft(tuple(tokens), tuple(parents), tuple(sources), matches)

    def _least(self, drafts: int, costs: StepCosts | None) -> float:
        """The tokens that one more row must bring for its time: half of a plain step's time would bring one."""
        if costs is None:
            return self._drafter.parameters.least
        more = costs.step_ms(drafts + 2) - costs.step_ms(drafts + 1)
        return max(self._drafter.parameters.least, 2 * more / costs.step_ms(1))


SPECIFICATIONS = (SDSAT,)


def for_auto(parts: DrafterParts, _weights: str) -> SdsatSource:
    """The source of `auto` (`draft.auto.sources.Offer`), on a model tuned by SDSAT."""
    return SdsatSource(SdsatDrafter(parts.trained.adaptive, longest=parts.trained.longest))
