"""Self-speculative decoding: the model drafts by itself with parts of it left out, and verifies with all of it.

Zhang et al. 2024, *Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding*. Section
3.2: attention and inner layers are left out one by one, as `search` finds; 3.3: drafting stops where the drafted token
is less likely than a threshold, which is adjusted so that a given share of the guesses is accepted. `exit` is Elhoushi
et al. 2024, *LayerSkip*: all layers after the first E.

Both passes use one KV cache: a draft pass writes behind the text, where the verification writes over it. The paper
searches the set that makes a token cheapest by Bayesian optimisation; here sets are changed in one or two parts at a
time, and a change stays if it decodes quicker. A set's worth is counted, not timed, so a busy machine finds the same
set.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import (
    NO_DRAFT,
    Draft,
    DraftContext,
    DrafterTraits,
    DraftTree,
    Draw,
    Engines,
    Proposal,
    SkimmingEngine,
    StepCosts,
    Verified,
)
from fastcoder_lsp.draft.base import Drafter, DrafterParts, Source, Specification, chain
from fastcoder_lsp.draft.pricing import BELIEVED, Forecast
from fastcoder_lsp.model.skip_sets import SkipSet
from fastcoder_lsp.papers.smaller import shares

FROM_SELF = Source("self", "other")
BEST = 64  # ids of a row that make up its distribution


@dataclass(frozen=True, slots=True)
class SelfParameters:
    """Parameters of `self`."""

    length: int = 8  # tokens of a draft at most (published code: 8; paper: 12)
    threshold: float = 0.8  # its start (published code: 0.8)
    accepted: float = 0.9  # the share of accepted guesses that it is adjusted to (published code: 0.9)
    step: float = 0.01  # of an adjustment (0.01)
    inertia: tuple[float, ...] = (0.5, 0.9)  # of the counted share (0.5), and of the threshold (0.9)
    exit: int = 0  # E, layers after which the rest is left out; 0: the parts in `skip` are left out instead
    skip: tuple[float, ...] = ()
    """Parts to leave out, attention of layer l as 2l, its inner layer as 2l + 1; empty: those found or usual."""


SELF = Specification(
    "self",
    "the model itself without some of its sublayers",
    SelfParameters(),
    lambda parameters, parts: SelfDrafter(parameters, parts.skipped, parts.skipped_speed),
    paper="Zhang et al. 2024, Draft & Verify, section 3; `exit`: Elhoushi et al. 2024, LayerSkip",
    sources=(FROM_SELF,),
    traits=DrafterTraits(skims=True),
)


def usual_parts(sublayers: int) -> frozenset[int]:
    """The parts left out without a search: every second attention and inner layer of the middle."""
    layers = sublayers // 2
    inner = range(layers // 6 + 1, layers - layers // 6 - 1)
    return frozenset(part for layer in inner if layer % 2 for part in (2 * layer, 2 * layer + 1))


class SelfDrafter(Drafter):
    """Drafts a chain by the engine that will verify it.

    `found`: parts that a search has found; empty: no search was made. `speed`: the speedup over plain decoding that it
    promised; 0: unknown.
    """

    def __init__(
        self, parameters: SelfParameters | None = None, found: frozenset[int] = frozenset(), speed: float = 0.0
    ) -> None:
        super().__init__(SELF)
        self._parameters = parameters or SelfParameters()
        self._found, self._speed = found, speed
        self._threshold = self._parameters.threshold
        self._share = self._parameters.accepted
        self._drafted = 0
        self._noise = np.random.default_rng(0)

    @override
    def begin(self, context: DraftContext) -> None:
        """Restart the noise and the threshold: as it follows a text, another one's would shorten all drafts here."""
        self._drafted = 0
        self._threshold, self._share = self._parameters.threshold, self._parameters.accepted
        self._noise = np.random.default_rng([context.sampler.seed & 0xFFFFFFFF, len(context.tokens), 1])

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Draft token by token with parts left out; the pending tokens are skimmed first."""
        engine, text = context.target, context.tokens
        self._drafted = 0
        if engine is None or not engine.sublayers or nodes < 1 or len(engine.cached()) != context.cached:
            return NO_DRAFT
        skipped, sampler = self._skipped(engine.sublayers), context.sampler
        by_chance = sampler.temperature > 0 and sampler.rule == "rejection"
        pending, after = list(text[context.cached :]), 0
        tokens: list[int] = []
        draws: list[Draw] = []
        room = min(nodes, self._parameters.length, engine.info.context - len(text))
        while len(tokens) < room:
            ids_K, logits_K = engine.skim(pending, after, skipped, BEST)
            after += len(pending)
            chances_K = shares(ids_K, logits_K, sampler, len(text) + len(tokens))
            rank = int(np.argmax(chances_K))
            if by_chance:
                rank = min(int(np.searchsorted(chances_K.cumsum(), self._noise.random(), side="right")), len(ids_K) - 1)
                draws.append(Draw(len(tokens), Proposal(ids_K.copy(), chances_K)))
            tokens.append(int(ids_K[rank]))
            pending = tokens[-1:]
            if chances_K[rank] < self._threshold:
                break
        self._drafted = len(tokens)
        return replace(chain(tokens, FROM_SELF), draws=tuple(draws))

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """Section 3.3: where fewer guesses than wanted are accepted, the threshold rises, otherwise it falls."""
        if not self._drafted:
            return
        params, (of_share, of_threshold) = self._parameters, self._parameters.inertia
        self._share = of_share * self._share + (1 - of_share) * min(len(verified.path) / self._drafted, 1.0)
        wanted = self._threshold + (params.step if self._share < params.accepted else -params.step)
        self._threshold = of_threshold * self._threshold + (1 - of_threshold) * wanted
        self._drafted = 0

    @override
    def forecast(self, costs: StepCosts | None) -> Forecast | None:
        """Time of a draft at the speed that the search promised: 1 + tokens for the time of 1 + draft."""
        if costs is None or self._speed <= 0:
            return None
        return Forecast(max((1 + BELIEVED) / self._speed - 1, 0.0) * costs.step_ms(1))

    def _skipped(self, sublayers: int) -> frozenset[int]:
        params = self._parameters
        if params.exit:
            return frozenset(range(2 * params.exit, sublayers))
        if params.skip:
            return frozenset(int(part) for part in params.skip if 0 <= part < sublayers)
        return self._found or usual_parts(sublayers)


CHAIN = 4  # guesses of one trial


@dataclass(frozen=True, slots=True)
class Trial:
    """A place of a text: an engine, the tokens before it, and the model's continuation."""

    engine: SkimmingEngine
    text: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of a pass with parts left out, as a share of a whole one; the `head` over the vocabulary always runs."""

    sublayers: int
    head: float = 0.0
    attention: float = 0.5

    def share(self, skipped: frozenset[int]) -> float:
        """Cost of a pass without these parts."""
        each = (self.attention, 1 - self.attention)
        left_out = sum(each[part % 2] for part in skipped) / (self.sublayers / 2)
        return self.head + (1 - self.head) * (1 - left_out)


def trials(engines: Engines, texts: Sequence[Sequence[int]], places: int, seed: int = 0) -> list[Trial]:
    """Random places in `texts`, with their plain continuations; each keeps a KV cache."""
    chance = random.Random(seed)  # noqa: S311 a sample is no secret
    long = [text for text in texts if len(text) > 2 * CHAIN]
    made = []
    for number in range(places if long else 0):
        engine = engines.slot(f"place {number}")
        assert isinstance(engine, SkimmingEngine)
        text = tuple(chance.choice(long))
        text = text[: chance.randrange(2 * CHAIN, min(len(text), engine.info.context - CHAIN - 1) + 1)]
        engine.prefill(text[:-1], lambda: False)
        output: list[int] = []
        while len(output) <= CHAIN:
            output += engine.step(DraftTree.chain((output or text)[-1:])).emitted
        made.append(Trial(engine, text, tuple(output)))
    return made


def search(
    costs: Costs,
    places: Sequence[Trial],
    rounds: int,
    *,
    progress: Callable[[int, float], None] = lambda _tried, _speed: None,
    seed: int = 0,
) -> SkipSet:
    """The set, of `rounds` tried, that promises the fastest decoding over `places`, or the usual one without any."""
    chance = random.Random(seed)  # noqa: S311 a change is no secret
    parts = range(costs.sublayers)
    best = usual_parts(costs.sublayers)
    speed = _speed(costs, places, best)
    for tried in range(1, rounds + 1 if places else 1):
        changed = best ^ frozenset(chance.sample(parts, chance.choice((1, 1, 2))))
        if (promised := _speed(costs, places, changed)) > speed:
            best, speed = changed, promised
        progress(tried, speed)
    return SkipSet(best, speed)


def _speed(costs: Costs, places: Sequence[Trial], skipped: frozenset[int]) -> float:
    """Tokens in the time of a plain token; a pass costs as much as the parts that it runs, however many rows it has."""
    share = costs.share(skipped)
    tokens = cost = 0.0
    for trial in places:
        trial.engine.prefill(trial.text[:-1], lambda: False)
        pending, after, accepted = list(trial.text[-1:]), 0, 0
        while accepted < CHAIN:
            ids_K, _ = trial.engine.skim(pending, after, skipped, 1)
            after += 1
            if int(ids_K[0]) != trial.output[accepted]:
                break
            pending, accepted = [int(ids_K[0])], accepted + 1
        tokens += accepted + 1
        cost += after * share + 1
    return tokens / cost if places else 0.0


SPECIFICATIONS = (SELF,)


def for_auto(parts: DrafterParts, _weights: str) -> SelfDrafter:
    """The source of `auto` (`draft.auto.sources.Offer`)."""
    return SelfDrafter(found=parts.skipped, speed=parts.skipped_speed)
