"""A model on a device, as all layers above see it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Meta

from fastcoder_lsp.core.bounds import Natural, Seed
from fastcoder_lsp.core.trees import DraftTree, Draw, Tokens, Verified

if TYPE_CHECKING:
    from fastcoder_lsp.core.arrays import Floats, Int64s

Progress: TypeAlias = Callable[[float, str], None]
"""Receives the share done (0…1) and the current work, for anything that may take over a second."""
ShouldStop: TypeAlias = Callable[[], bool]
"""Called between units of work (a prefill chunk, a step); `True` means: keep the results and return."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """How one token is chosen from logits. `temperature` 0 is greedy; ties go to the lowest id.

    The temperature comes first, then `top_k` (0: all), `top_p`, and `min_p`, a share of the best token's probability.
    Noise is a function of (seed, position) alone, so speculative sampling emits what plain sampling emits. That is the
    rule "keyed". By the rule "rejection" (Leviathan et al. 2023; Chen et al. 2023; of several guesses in one place Miao
    et al. 2024) guesses are accepted by chance, so that what is emitted has the same distribution, not the same tokens.
    """

    temperature: Annotated[float, Meta(ge=0, le=100)] = 0.0
    top_k: Natural = 0
    top_p: Annotated[float, Meta(ge=0, le=1)] = 1.0
    seed: Seed = 0
    rule: Literal["keyed", "rejection"] = "keyed"
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn; otherwise decoding is greedy."""
        return self.temperature > 0

    @property
    def trims(self) -> bool:
        """Whether it may leave out tokens of a row."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def least(self) -> float:
        """How far a token's scaled logit may be from the best one's by `min_p`: its logarithm."""
        return math.log(self.min_p) if self.min_p > 0 else -math.inf


GREEDY = Sampler()


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Tokens of a prefill that were in the cache already, and those computed now; `done` is False if it was stopped."""

    reused: int
    computed: int
    done: bool


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Facts of an engine: `name` as in "cpu-int8", the model's name, the origin of its files, and limits in tokens."""

    name: str
    model: str
    source: str
    device: str
    vocabulary: int
    context: int
    max_nodes: int
    notes: tuple[str, ...] = ()
    drafts: bool = True  # whether a rejected draft can be taken back
    trees: bool = True  # whether drafts may branch


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The costs of an engine's work on this machine: `ms[i]` for a step of `widths[i]` rows (ascending, from 1)."""

    widths: tuple[int, ...]
    ms: tuple[float, ...]
    prefill_ms: float  # milliseconds for one more prompt token in a prefill chunk

    def step_ms(self, rows: int) -> float:
        """Milliseconds of a step of `rows` rows: linear between the timed widths, and beyond the last."""
        import numpy as np  # noqa: PLC0415 processes without an engine save 15 MB and a fifth of a second

        return float(np.interp(rows, self.widths, self.ms)) * max(1.0, rows / self.widths[-1])

    def prompt_ms(self, tokens: int) -> float:
        """Milliseconds of so many prompt tokens: a pass reads all weights and works on every token, as a step does."""
        return min(self.step_ms(tokens), self.step_ms(1) + tokens * self.prefill_ms)

    def times(self, factor: float) -> "StepCosts":
        """The costs where all work takes so many times as long."""
        return StepCosts(self.widths, tuple(factor * ms for ms in self.ms), factor * self.prefill_ms)


class CacheLost(Exception):  # noqa: N818 no error: another slot needed the memory
    """A step needs a KV cache that was freed; a `prefill` computes it again, with the same bits."""


class Engine(Protocol):
    """A model on a device with its KV cache. One caller at a time; plain values in and out, so it may live elsewhere.

    The cache remembers the tokens it holds. `prefill` makes it hold exactly `tokens` by keeping the longest common
    prefix and computing the rest; `step` appends to it. An engine that is a slot of several (`Engines`) may lose its
    cache while others are used, never while it computes.
    """

    @property
    def info(self) -> EngineInfo:
        """Facts of the engine."""

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        """Make the cache hold `tokens`, chunk by chunk; results before a stop are kept for the next call."""

    def step(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: "Mapping[int, Int64s] | None" = None, top_k: int = 0
    ) -> Verified:
        """One forward pass over `tree` after the cached tokens, verification, and commit of the accepted path.

        Args:
            tree: pending tokens and drafts; at most `info.max_nodes`.
            sampler: how the next token of a row is chosen.
            allowed: node → the only ids that may follow it (never empty); absent nodes allow all.
            top_k: the number of best ids and logits to return for every row, of those that may follow; 0: none.

        Raises:
            CacheLost: the cache was freed since the last `prefill`.
            ResourceError: the context is full or memory is out.
        """

    def cached(self) -> tuple[int, ...]:
        """The tokens in the cache; none if it was freed."""

    def close(self) -> None:
        """Free the memory; the engine may not be used afterwards."""


@runtime_checkable
class LaunchingEngine(Engine, Protocol):
    """An engine whose step may be launched and collected separately; the CPU is free in between. `step` does both."""

    def launch(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: "Mapping[int, Int64s] | None" = None, top_k: int = 0
    ) -> None:
        """Begin a step; the next call must be `collect`. Arguments and errors as of `step`."""

    def collect(self) -> Verified:
        """Wait for the step that was launched, and end it."""


class Preparing(ABC):
    """An engine, or its owner, with work that can wait until no request is there, such as programs to capture.

    A base class, so that no other method of that name is called for it.
    """

    __slots__ = ()

    @abstractmethod
    def prepare(self) -> bool:
        """Do a piece of that work, some tens of milliseconds; False where there is none."""


@runtime_checkable
class SkimmingEngine(Engine, Protocol):
    """An engine that can run a part of its model over a few tokens, to guess what the whole of it will say."""

    @property
    def sublayers(self) -> int:
        """The number of parts that may be left out: 2l is layer l's attention, 2l + 1 its inner layer; 0: none."""

    def skim(self, tokens: Tokens, after: int, skipped: "frozenset[int]", top_k: int) -> "tuple[Int64s, Floats]":
        """Run `tokens`, a chain, behind the cached tokens and `after` tokens that were skimmed since the last step.

        Leaves out the parts `skipped`; returns the best `top_k` ids [K] to follow the last token, and their logits.
        They are not kept: the next step overwrites them. The context must have room. Raises CacheLost if the cache was
        freed since the last `prefill`.
        """


NORMED = -1  # as a layer: the last layer's hidden state after the final norm, before the head


@runtime_checkable
class KeepingEngine(Engine, Protocol):
    """An engine that can keep the hidden states of the tokens in its KV cache."""

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep the hidden states after these layers (from 1, or `NORMED`); False if this engine cannot.

        If it kept fewer before, the KV cache is freed: the next `prefill` computes all of it again.
        """

    def states(self, layers: Sequence[int], start: int, stop: int) -> "Floats":
        """The hidden states of the cached tokens `start`…`stop`, [tokens, layers, E]; the layers must be kept ones."""

    def embed(self, tokens: Tokens) -> "Floats":
        """The embeddings of tokens, [tokens, E]."""


class Engines(Protocol):
    """One set of weights with a KV cache for each of several texts. One caller at a time, over all of its slots.

    A slot's results are those of a separate engine, bit for bit if the engine promises bits, whatever the other slots
    do. The memory limits the number of caches: the least recently used one is freed first, never the one in use.
    """

    @property
    def info(self) -> EngineInfo:
        """Facts of the engine."""

    def slot(self, name: str) -> Engine:
        """The engine whose KV cache has this name, created empty if needed; the same object every time.

        It stays usable when its memory is freed. Its `close` only frees the memory.
        """

    def second_cache(self, name: str) -> Engine | None:
        """A second KV cache for this name, for the text's next prompt; None if all names share a single cache.

        It never evicts a recently used cache: without room its `prefill` computes nothing and is not done, and it is
        freed first if others need room. It is forgotten and renamed with the slot of its name.
        """

    def exchange(self, name: str) -> None:
        """Replace the first cache of this name by the second, and free the first one's memory."""

    def swap(self, name: str) -> None:
        """Swap the two caches of this name."""

    def forget(self, name: str) -> None:
        """Free this slot's memory, if there is such a slot."""

    def rename(self, old: str, new: str) -> None:
        """Rename a slot, if there is one, and free the one that had the new name."""

    def close(self) -> None:
        """Free all memory, including the weights'; nothing may be used afterwards."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An answer that repeats most of an old text: the tokens of the answer that changes nothing, without its end."""

    old: tuple[int, ...]
    ends: tuple[int, ...] = ()  # tokens that may end it, the likeliest first
    changes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    """The user's earlier ones, oldest first: old side, new side."""


@dataclass(frozen=True, slots=True)
class DraftContext:
    """A drafter's input before a step."""

    tokens: Sequence[int]  # prompt and output so far, including the pending ones
    prompt_length: int
    document: str = ""  # the document's URI, for caches that live as long as the document
    outdated: tuple[tuple[int, ...], ...] = ()
    """Earlier guesses at this output, from its first token: suggestions typed past, rejected or cut."""
    cached: int = 0  # the number of tokens in the KV cache: those before the pending ones
    engine: KeepingEngine | None = None
    """Gives the hidden states of cached tokens, if the drafter asked for some and the engine keeps them."""
    sampler: Sampler = GREEDY
    target: SkimmingEngine | None = None
    """The engine, if it can run a part of its model; its cache holds the text before the pending tokens, or nothing."""
    rewrite: Rewrite | None = None  # the old text, if the answer is expected to repeat most of one


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses below the last pending token: parents index this draft's own nodes, -1 is the root; `draws` as a tree's.

    In a sampled draft the number of guesses must not depend on the guesses, so such a draft is taken as a whole or not
    at all.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    matches: tuple[int, ...] = ()
    draws: tuple[Draw, ...] = ()


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class DrafterTraits:
    """Properties of a drafter for the decoding loop."""

    top_k: int = 0  # the number of best ids that it observes for every verified row, including rejected ones; 0: none
    late: bool = False  # whether it may observe a step after it proposed the next draft
    weighs_costs: bool = False
    """Whether it ends its drafts where a row costs more than it gains; other drafters use all rows they get."""
    layers: tuple[int, ...] = ()
    """The layers whose hidden states it reads, for all decided tokens (`KeepingEngine.keep_states`)."""
    skims: bool = False  # whether it drafts with a part of the model itself (`DraftContext.target`)
