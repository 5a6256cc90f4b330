"""A model on a device, as everybody above it sees it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from fastcoder_lsp.core.trees import DraftTree, Tokens, Verified

Progress: TypeAlias = Callable[[float, str], None]
"""Told the share done (0…1) and what is being done, for anything that may take over a second."""
ShouldStop: TypeAlias = Callable[[], bool]
"""Asked between units of work (a prefill chunk, a step); `True` means: keep what is done and return."""


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Sampler:
    """How one token is chosen from logits. `temperature` 0 is greedy; ties go to the lowest id.

    Noise is a function of (seed, position) alone, so speculative sampling emits what plain sampling emits. That is the
    rule "keyed". By the rule "rejection" (Leviathan et al. 2023; Chen et al. 2023; of several guesses in one place Miao
    et al. 2024) guesses are accepted by chance, so that what is emitted has the same distribution, not the same tokens.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    rule: Literal["keyed", "rejection"] = "keyed"


GREEDY = Sampler()


@dataclass(frozen=True, slots=True)
class Prefilled:
    """What a prefill did.

    Attributes:
        reused: tokens that were in the cache already.
        computed: tokens that were run now.
        done: whether all are in the cache; False where it was stopped.
    """

    reused: int
    computed: int
    done: bool


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What runs: `name` as in "cpu-int8", the model's name, where its files came from, and its limits in tokens."""

    name: str
    model: str
    source: str
    device: str
    vocabulary: int
    context: int
    max_nodes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What an engine's work costs on this machine: `ms[i]` for a step of `widths[i]` rows (ascending, from 1).

    `prefill_ms`: milliseconds that one more prompt token costs in a prefill chunk.
    """

    widths: tuple[int, ...]
    ms: tuple[float, ...]
    prefill_ms: float

    def step_ms(self, rows: int) -> float:
        """Milliseconds of a step of `rows` rows: linear between the widths that were timed, and beyond the last."""
        import numpy as np  # noqa: PLC0415 who runs no engine needs none of it: 15 MB, a fifth of a second

        return float(np.interp(rows, self.widths, self.ms)) * max(1.0, rows / self.widths[-1])


class CacheLost(Exception):  # noqa: N818 nothing went wrong: it is how a slot says that another one needed its memory
    """A step was asked of a KV cache that is not there any more; a `prefill` makes it anew, with the same bits."""


class Engine(Protocol):
    """A model on a device with its KV cache. One caller at a time; plain values in and out, so it may live elsewhere.

    The cache remembers the tokens it holds. `prefill` makes it hold exactly `tokens` by keeping the longest common
    prefix and computing the rest; `step` appends to it. An engine that is a slot of several (`Engines`) may lose its
    cache while others are used, never while it computes.
    """

    @property
    def info(self) -> EngineInfo:
        """What engine this is, and what it can do."""
        ...

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        """Make the cache hold `tokens`, chunk by chunk; what was computed before a stop is kept for the next call."""
        ...

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: "Mapping[int, npt.NDArray[np.int64]] | None" = None,
        top_k: int = 0,
    ) -> Verified:
        """One forward pass over `tree` after the cached tokens, verification, and commit of the accepted path.

        Args:
            tree: pending tokens and drafts; at most `info.max_nodes`.
            sampler: how the next token of a row is chosen.
            allowed: node → the only ids that may follow it (never empty); absent nodes allow all.
            top_k: how many best ids and logits to return for every row; 0 for none.

        Raises:
            CacheLost: the cache was given up since the last `prefill`.
            ResourceError: the context is full or memory is out.
        """
        ...

    def cached(self) -> tuple[int, ...]:
        """The tokens in the cache; none where it was given up."""
        ...

    def close(self) -> None:
        """Give the memory back; the engine is not to be used after."""
        ...


@runtime_checkable
class LaunchingEngine(Engine, Protocol):
    """An engine whose step may be launched and collected apart; `step` is both. In between the host is free."""

    def launch(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: "Mapping[int, npt.NDArray[np.int64]] | None" = None,
        top_k: int = 0,
    ) -> None:
        """Begin a step; nothing but `collect` may be asked for then. Arguments and errors as of `step`."""
        ...

    def collect(self) -> Verified:
        """Wait for the step that was launched, and end it."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """An engine, or its owner, with work that can wait until no request is there, such as programs to capture."""

    def prepare(self) -> bool:
        """Do a piece of that work, some tens of milliseconds; False where there is none."""
        ...


@runtime_checkable
class SkimmingEngine(Engine, Protocol):
    """An engine that can run a part of its model over a few tokens, to guess what the whole of it will say."""

    @property
    def sublayers(self) -> int:
        """Parts that may be left out: of layer l its attention is 2l, its inner layer 2l + 1; 0: it cannot."""
        ...

    def skim(
        self, tokens: Tokens, after: int, skipped: "frozenset[int]", top_k: int
    ) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]":
        """Run `tokens` behind what is cached and behind `after` tokens that were skimmed since the last step.

        Nothing of it is kept: the next step writes over it. There must be room in the context.

        Args:
            tokens: a chain, at least one.
            after: how many tokens were skimmed before them.
            skipped: parts that are left out.
            top_k: how many best ids to tell.

        Returns:
            The best ids [K] to follow the last token, and their logits.

        Raises:
            CacheLost: the cache was given up since the last `prefill`.
        """
        ...


NORMED = -1
"""As a layer: the last one's hidden state behind the norm that stands before the head."""


@runtime_checkable
class KeepingEngine(Engine, Protocol):
    """An engine that can keep the hidden states of what is in its KV cache."""

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep those behind these layers (from 1 on, or `NORMED`); False where this engine cannot.

        Where it kept fewer before, the KV cache is given up: the next `prefill` makes all of it anew.
        """
        ...

    def states(self, layers: Sequence[int], start: int, stop: int) -> "npt.NDArray[np.float32]":
        """Those of the cached tokens `start`…`stop`, [tokens, layers, E]; of layers that are kept."""
        ...

    def embed(self, tokens: Tokens) -> "npt.NDArray[np.float32]":
        """The embeddings of tokens, [tokens, E]."""
        ...


class Engines(Protocol):
    """One set of weights with a KV cache for each of several texts. One caller at a time, over all of its slots.

    What a slot says is what an engine by itself would say, bit for bit where the engine promises bits, whatever the
    other slots do. How many are kept is a matter of memory: the one that was used least recently is given up first,
    never the one that is used.
    """

    @property
    def info(self) -> EngineInfo:
        """What engine this is, and what it can do."""
        ...

    def slot(self, name: str) -> Engine:
        """The engine whose KV cache goes by this name, an empty one where there is none; the same one every time.

        It stays usable whatever becomes of its memory. Its `close` gives the memory back, and no more.
        """
        ...

    def beside(self, name: str) -> Engine | None:
        """A second KV cache for the text of this name, for its next prompt; None where one cache goes round.

        Nobody that was used lately gives way to it: where it finds no room its `prefill` does nothing and is not done,
        and where others need room it is given up first. It is forgotten and renamed with the slot of its name.
        """
        ...

    def exchange(self, name: str) -> None:
        """The second cache of this name takes the place of the first, whose memory is given back."""
        ...

    def swap(self, name: str) -> None:
        """The two caches of this name exchange their places."""
        ...

    def forget(self, name: str) -> None:
        """Give back the memory of this slot; nothing where there is none."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Carry a slot over to another name, and give up what went by that; nothing where there is none."""
        ...

    def close(self) -> None:
        """Give all memory back, the weights' too; nothing is to be used after."""
        ...
