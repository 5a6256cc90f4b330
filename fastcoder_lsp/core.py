"""Values and protocols that several layers share; the bottom of the import order.

Everything here is plain data that could cross a process boundary: tuples, numpy arrays, strings. No torch, no LSP
types, no I/O. A token id is an `int`; an offset counts characters (Unicode code points) from the start of a text.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Tokens: TypeAlias = Sequence[int]
ShouldStop: TypeAlias = Callable[[], bool]
"""Asked between units of work (a prefill chunk, a step); `True` means: keep what is done and return."""
Progress: TypeAlias = Callable[[float, str], None]
"""Told the share done (0…1) and what is being done, for anything that may take over a second."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    r"""One version of one document, never changing: what slow work reads while the user types on.

    Attributes:
        uri: the document's URI.
        path: its absolute path; None for untitled documents.
        language: its LSP language id.
        version: the client's number of this version.
        text: has `\n` line ends only; the front normalises them.
        neighbours: texts that belong to the same whole, the nearest last (a notebook's cells above this one).
    """

    uri: str
    path: str | None
    language: str
    version: int
    text: str
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Rows of one forward pass: first the tokens that are decided but not yet in the KV cache, then drafts.

    The first `pending` nodes (at least one) are a chain: node 0 hangs from the cache (parent -1), node i from node i-1.
    Each further node is a guess below a node before it (`parents[i] < i`), and no two children of a node hold the same
    token. The last pending node is the root of the drafts; node i stands at position `cached + depth(i)`.
    `sources[i]` says who guessed node i ("" for pending ones), `matches[i]` from how long a match.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    pending: int = 1
    sources: tuple[str, ...] = ()
    matches: tuple[int, ...] = ()

    @classmethod
    def chain(cls, pending: Tokens) -> "DraftTree":
        """The tree without drafts: plain decoding."""
        return cls(tuple(pending), tuple(range(-1, len(pending) - 1)), len(pending))

    def __len__(self) -> int:
        return len(self.tokens)

    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the cache's end; node 0 has depth 0."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    def children(self) -> dict[int, dict[int, int]]:
        """node → {token: child node}, for the nodes that have children."""
        below: dict[int, dict[int, int]] = {}
        for node, (token, parent) in enumerate(zip(self.tokens, self.parents, strict=True)):
            if parent >= 0:
                below.setdefault(parent, {})[token] = node
        return below

    def check(self) -> None:
        """Raises AssertionError where a rule of the class docstring is broken."""
        pending, parents, nodes = self.pending, self.parents, len(self.parents)
        assert 1 <= pending <= len(self.tokens) == nodes
        assert parents[:pending] == tuple(range(-1, pending - 1))
        assert min(parents[pending:], default=pending) >= pending - 1
        assert all(map(lt, parents, range(nodes)))
        assert len(set(zip(parents, self.tokens, strict=True))) == nodes


@dataclass(frozen=True, slots=True)
class Sampler:
    """How one token is chosen from logits. `temperature` 0 is greedy; ties go to the lowest id.

    Noise is a function of (seed, position) alone, so speculative sampling emits what plain sampling emits.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


GREEDY = Sampler()


@dataclass(frozen=True, slots=True)
class Verified:
    """What one forward pass decided.

    Attributes:
        path: the accepted draft nodes, root side first.
        emitted: their tokens and one more, the engine's own next token. That one is not in the KV cache yet, and is
            `pending` in the next tree.
        top_ids_NK: the K best next tokens of every node, rejected ones too, where the caller asked for them.
        top_logits_NK: the logits of these.
    """

    path: tuple[int, ...]
    emitted: tuple[int, ...]
    top_ids_NK: npt.NDArray[np.int64] | None = None
    top_logits_NK: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token of an output: its bytes, who guessed it ("" where the model said it itself), from how long a match."""

    piece: bytes
    source: str = ""
    match: int = 0


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What one forward pass gave.

    Attributes:
        tokens: of the output, drafts first, the model's own one last.
        tree: what it verified.
        pieces: the bytes of the tree's nodes.
        path: the drafts that were accepted.
    """

    tokens: tuple[TracedToken, ...]
    tree: DraftTree
    pieces: tuple[bytes, ...]
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a model did.

    Attributes:
        steps: forward passes after the prefill.
        tokens: what they gave.
        accepted: drafts among these.
        prefilled: prompt tokens that were computed.
        reused: prompt tokens that the KV cache held already.
        by_source: `accepted` by who guessed them.
    """

    steps: int = 0
    tokens: int = 0
    accepted: int = 0
    prefilled: int = 0
    reused: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, more: "Counts") -> "Counts":
        return self._with(more, 1)

    def __sub__(self, before: "Counts") -> "Counts":
        return self._with(before, -1)

    def _with(self, other: "Counts", sign: int) -> "Counts":
        sources = Counter(self.by_source)
        sources.update({source: sign * count for source, count in other.by_source.items()})
        return Counts(
            self.steps + sign * other.steps,
            self.tokens + sign * other.tokens,
            self.accepted + sign * other.accepted,
            self.prefilled + sign * other.prefilled,
            self.reused + sign * other.reused,
            dict(+sources),
        )


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
        return float(np.interp(rows, self.widths, self.ms)) * max(1.0, rows / self.widths[-1])


class Engine(Protocol):
    """A model on a device with its KV cache. One caller at a time; plain values in and out, so it may live elsewhere.

    The cache remembers the tokens it holds. `prefill` makes it hold exactly `tokens` by keeping the longest common
    prefix and computing the rest; `step` appends to it.
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
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        """One forward pass over `tree` after the cached tokens, verification, and commit of the accepted path.

        Args:
            tree: pending tokens and drafts; at most `info.max_nodes`.
            sampler: how the next token of a row is chosen.
            allowed: node → the only ids that may follow it (never empty); absent nodes allow all.
            top_k: how many best ids and logits to return for every row; 0 for none.

        Raises:
            ResourceError: the context is full or memory is out.
        """
        ...

    def cached(self) -> tuple[int, ...]:
        """The tokens in the cache."""
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
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> None:
        """Begin a step; nothing but `collect` may be asked for then. Arguments and errors as of `step`."""
        ...

    def collect(self) -> Verified:
        """Wait for the step that was launched, and end it."""
        ...


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may look at before a step.

    Attributes:
        tokens: prompt and output so far, the pending ones included.
        prompt_length: how many of them are the prompt's.
        document: the document's URI, for caches that live as long as it does.
        outdated: what this output was expected to be, from its first token, before the text around changed (suggestions
            that were typed past, rejected, or cut).
    """

    tokens: Sequence[int]
    prompt_length: int
    document: str = ""
    outdated: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses below the last pending token: parents index this draft's own nodes, -1 is the root."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    matches: tuple[int, ...] = ()


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class DrafterTraits:
    """What must be known of a drafter by those who drive it.

    Attributes:
        top_k: how many best ids of every verified row it wants to observe, rejected rows too; 0 for none.
        late: whether it may be told of a step after it was asked for the next draft.
        weighs_costs: whether it ends its drafts where one more row costs more than it gains, so that it may be offered
            many rows; other drafters fill what they are offered.
    """

    top_k: int = 0
    late: bool = False
    weighs_costs: bool = False


class Drafter(Protocol):
    """Guesses what the model will say. It can change the speed only, never the output."""

    name: str
    traits: DrafterTraits

    def begin(self, context: DraftContext) -> None:
        """A new decode starts with this prompt."""
        ...

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """At most `nodes` guesses; `NO_DRAFT` where it has none."""
        ...

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """What became of the last tree (its own nodes and others')."""
        ...

    def forget(self, document: str) -> None:
        """The document is closed: drop what is kept for it."""
        ...

    def rename(self, old: str, new: str) -> None:
        """The document has another URI: what is kept for it follows."""
        ...

    def keep(self) -> None:
        """Write what was learnt to the disk, where it keeps that: milliseconds, for when nobody waits."""
        ...

    def warm_up(self) -> None:
        """Run what only some texts lead to, so that it is compiled; nothing is learnt of it."""
        ...

    def figures(self) -> Mapping[str, float]:
        """What it has counted of its own work, for reports; most count nothing."""
        ...


@dataclass(frozen=True, slots=True)
class SelectedCompletion:
    """The entry selected in the editor's popup: a suggestion must continue `text`, which replaces start…end."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One question to the service: what comes at `offset` of this snapshot?

    Attributes:
        snapshot: the document.
        offset: the cursor, in characters of the snapshot's text.
        invoked: whether the user asked by a key.
        selected: the entry of the completion menu that is selected.
        max_tokens: the longest answer; None for the model's own limit.
    """

    snapshot: Snapshot
    offset: int
    invoked: bool = False
    selected: SelectedCompletion | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why nothing is shown at a place. The codes, and who is the reason, stand in `completion/reasons.py`.

    Attributes:
        code: for programs.
        text: for people.
        hint: what to do about it.
    """

    code: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Late:
    """A suggestion made after its question had to be answered empty: who asks again at `offset` gets it now."""

    uri: str
    version: int
    offset: int


@dataclass(frozen=True, slots=True)
class Completion:
    """One suggestion.

    Attributes:
        text: replaces start…end of the snapshot; empty where nothing is worth showing.
        start: the first character that it replaces.
        end: the character behind the last one that it replaces.
        model: the model's name.
        engine: the engine's name.
        counts: the work that was done for it.
        finish: why decoding ended ("stop", "eos", "length", "context", "cancelled", "typed-through", …).
        ms: milliseconds by span (`observe.SPANS`).
        trace: every step; empty where no model was asked.
        others: more candidates for the same place, the likeliest first.
        reason: why the text is empty, where it is.
    """

    text: str
    start: int
    end: int
    model: str = ""
    engine: str = ""
    counts: Counts = Counts()
    finish: str = ""
    ms: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[StepTrace, ...] = ()
    others: tuple["Completion", ...] = ()
    reason: Reason | None = None
