"""Draft trees and their outcomes: one forward pass, its trace, and the counts of many."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import TYPE_CHECKING, Any, TypeAlias

from fastcoder_lsp.core.bounds import Natural

if TYPE_CHECKING:
    from fastcoder_lsp.core.arrays import Float64s, Floats, Int64s

    Ids: TypeAlias = Int64s
    Probabilities: TypeAlias = Float64s
else:  # a server without a model never imports numpy, and reads traces from messages
    Ids = Probabilities = Any

Tokens: TypeAlias = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """The distribution of a sampled draft: `ids` with their `probabilities`, which sum to 1."""

    ids: Ids
    probabilities: Probabilities


@dataclass(frozen=True, slots=True)
class Draw:
    """A sampled guess: its node, and the distribution it was drawn from."""

    node: int
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Rows of one forward pass: first the decided tokens that are not yet in the KV cache, then drafts.

    The first `pending` nodes (at least one) are a chain: node 0 hangs from the cache (parent -1), node i from node i-1.
    Each further node is a guess below a node before it (`parents[i] < i`), and no two children of a node hold the same
    token. The last pending node is the root of the drafts; node i stands at position `cached + depth(i)`. `sources[i]`
    is the source of node i ("" for pending ones), and `matches[i]` the length of its match.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    pending: Natural = 1
    sources: tuple[str, ...] = ()
    matches: tuple[int, ...] = ()
    draws: tuple[Draw, ...] = ()
    """The sampled guesses in the order of drawing; one that was drawn twice below its parent is there twice."""

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
        """Raises AssertionError if the tree breaks a rule of the class docstring."""
        pending, parents, nodes = self.pending, self.parents, len(self.parents)
        assert 1 <= pending <= len(self.tokens) == nodes
        assert parents[:pending] == tuple(range(-1, pending - 1))
        assert min(parents[pending:], default=pending) >= pending - 1
        assert all(map(lt, parents, range(nodes)))
        assert len(set(zip(parents, self.tokens, strict=True))) == nodes


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome of one forward pass."""

    path: tuple[int, ...]  # the accepted draft nodes, root side first
    emitted: tuple[int, ...]
    """Their tokens and the engine's own next token, which is not in the KV cache yet: `pending` in the next tree."""
    top_ids_NK: "Int64s | None" = None
    """The K best next tokens of every node, including rejected ones, if requested; `top_logits_NK`: theirs."""
    top_logits_NK: "Floats | None" = None


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token of an output: its bytes, its source ("" for the model itself), and the length of the match."""

    piece: bytes
    source: str = ""
    match: int = 0


@dataclass(frozen=True, slots=True)
class StepTrace:
    """The trace of one forward pass: the output tokens, drafts first, the model's own one last."""

    tokens: tuple[TracedToken, ...]
    tree: DraftTree
    pieces: tuple[bytes, ...]  # the bytes of the tree's nodes
    path: tuple[int, ...]  # the accepted drafts


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a model's work: forward passes after the prefill, and their output tokens.

    `accepted` drafts are among the tokens, also by source. `prefilled` prompt tokens were computed, `reused` ones were
    in the KV cache.
    """

    steps: int = 0
    tokens: int = 0
    accepted: int = 0
    prefilled: int = 0
    reused: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)
    prefill_ms: float = field(default=0.0, compare=False)  # no two runs take the same time

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
            self.prefill_ms + sign * other.prefill_ms,
        )


NO_COUNTS = Counts()
