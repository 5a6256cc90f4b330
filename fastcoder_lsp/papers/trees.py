"""Building drafts: chains that share their beginnings, continuations with weights, and candidates by place.

Legend: K continuations of D tokens, S slots of a trie.
"""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, Draw
from fastcoder_lsp.core.arrays import Float64s, Int32s, Int64s
from fastcoder_lsp.draft.base import Source
from fastcoder_lsp.draft.matching import GAP
from fastcoder_lsp.kernels import inner_with_arrays, kernel_with_arrays


class Trie:
    """A draft of at most `room` nodes under construction, in which the same token below the same parent is one node."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._sources: list[str] = []
        self._matches: list[int] = []
        self._places: dict[tuple[int, int], int] = {}

    def left(self) -> int:
        """The number of nodes that still fit."""
        return self._room - len(self._tokens)

    def hang(self, parent: int, token: int, source: Source, match: int = 0) -> int | None:
        """The child of `parent` (-1: the root) with `token`, a new one if there is none; None if there is no room."""
        place = self._places.get((parent, token))
        if place is None and self.left():
            place = self._places[parent, token] = len(self._tokens)
            self._tokens.append(token)
            self._parents.append(parent)
            self._sources.append(source.name)
            self._matches.append(match)
        return place

    def chain(self, node: int, tokens: Sequence[int], source: Source, match: int = 0) -> int:
        """Hang `tokens` below `node`, one below the other, as far as there is room; returns the last node."""
        for token in tokens:
            place = self.hang(node, token, source, match)
            if place is None:
                break
            node = place
        return node

    def draft(self, draws: Sequence[Draw] = ()) -> Draft:
        """The draft built so far."""
        names, matches = tuple(self._sources), tuple(self._matches)
        return Draft(tuple(self._tokens), tuple(self._parents), names, matches, tuple(draws))


class Growth:
    """At most `capacity` weighted continuations of `depth` tokens; a draft is the heaviest nodes of their trie."""

    def __init__(self, capacity: int, depth: int) -> None:
        self._rows_KD = np.full((capacity, depth), GAP, np.int32)
        self._weights_K = np.zeros(capacity, np.float64)
        self._nodes_3N = np.zeros((3, 0), np.int32)
        self._sources: list[tuple[int, str, int]] = []
        self._filled = 0

    def clear(self) -> None:
        """Begin another draft."""
        self._filled = 0
        self._sources.clear()

    def add(self, rows_KD: Int32s, weight: float, source: str, match: int) -> None:
        """Add continuations, padded with `GAP`, each with this weight and the length of the match that led to it."""
        room = len(self._rows_KD) - self._filled
        count, columns = min(len(rows_KD), room), rows_KD.shape[1]
        if count < 1:
            return
        start, end = self._filled, self._filled + count
        self._rows_KD[start:end, :columns] = rows_KD[:count]
        self._rows_KD[start:end, columns:] = GAP
        self._weights_K[start:end] = weight
        self._sources.append((end, source, match))
        self._filled = end

    def draft(self, nodes: int) -> Draft:
        """The `nodes` heaviest nodes, heaviest first."""
        if not self._filled or nodes < 1:
            return NO_DRAFT
        if self._nodes_3N.shape[1] != nodes:
            self._nodes_3N = np.zeros((3, nodes), np.int32)
        tokens, parents, rows = self._nodes_3N
        count = grow(self._rows_KD[: self._filled], self._weights_K[: self._filled], tokens, parents, rows)
        names, matches = [], []
        for row in rows[:count].tolist():
            source, match = next((source, match) for end, source, match in self._sources if row < end)
            names.append(source)
            matches.append(match)
        return Draft(tuple(tokens[:count].tolist()), tuple(parents[:count].tolist()), tuple(names), tuple(matches))


@kernel_with_arrays
def grow(rows_KD: Any, weights_K: Any, tokens: Any, parents: Any, rows: Any) -> Any:
    """Merge continuations into a tree (same token, same parent: one node), write its heaviest nodes, return how many.

    A node weighs the sum of the weights of the continuations through it, so no child outweighs its parent and the
    heaviest nodes always form a tree. Of equal nodes the one that was seen first is taken.

    Args:
        rows_KD: continuations, ended by `GAP`.
        weights_K: the weight of each; negative never.
        tokens: out: the nodes' tokens, heaviest first; its length is the number of nodes wanted.
        parents: out: their parents, as places in `tokens`, -1 for the root.
        rows: out: the continuation that each node was first seen in.
    """
    K, D = rows_KD.shape
    size = K * D + 1
    token_S, weight_S = np.empty(size, np.int32), np.zeros(size, np.float64)
    row_S, sibling_S = np.empty(size, np.int32), np.full(size, -1, np.int32)
    child_S, youngest_S = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    used = 1
    for k in range(K):
        node = 0
        for d in range(D):
            token = rows_KD[k, d]
            if token < 0:
                break
            child = child_S[node]
            while child >= 0 and token_S[child] != token:
                child = sibling_S[child]
            if child < 0:
                child = used
                used += 1
                token_S[child], row_S[child] = token, k
                if child_S[node] < 0:
                    child_S[node] = child
                else:
                    sibling_S[youngest_S[node]] = child
                youngest_S[node] = child
            weight_S[child] += weights_K[k]
            node = child
    return _heaviest(token_S, weight_S, row_S, child_S, sibling_S, tokens, parents, rows)


@inner_with_arrays
def _heaviest(
    token_S: Any, weight_S: Any, row_S: Any, child_S: Any, sibling_S: Any, tokens: Any, parents: Any, rows: Any
) -> Any:
    """Take the heaviest nodes below node 0, best first; the frontier holds the children of what was taken."""
    frontier, above = np.empty(len(token_S), np.int32), np.empty(len(token_S), np.int32)
    waiting, taken, node, place = 0, 0, 0, -1
    while taken < len(tokens):
        child = child_S[node]
        while child >= 0:
            frontier[waiting], above[waiting] = child, place
            waiting += 1
            child = sibling_S[child]
        if waiting == 0:
            break
        best = 0
        for other in range(1, waiting):
            heavier = weight_S[frontier[other]] - weight_S[frontier[best]]
            if heavier > 0 or (heavier == 0 and frontier[other] < frontier[best]):
                best = other
        node = frontier[best]
        tokens[taken], parents[taken], rows[taken] = token_S[node], above[best], row_S[node]
        place = taken
        taken += 1
        waiting -= 1
        frontier[best], above[best] = frontier[waiting], above[waiting]
    return taken


def tree_of_places(tokens_KB: Int64s, chances_KB: Float64s | Sequence[Sequence[float]], nodes: int, name: str) -> Draft:
    """The likeliest nodes of a tree in which the candidates of a place do not depend on the tokens before it.

    Heads that look ahead (Medusa) give such candidates [K, B], likeliest first. A node is worth the product of the
    chances along its path. A place ends at its first chance of 0. `name` is the source's.
    """
    tokens: list[int] = []
    parents: list[int] = []
    # (−worth, place, rank, parent, worth of the parent): the next sibling follows when one is taken.
    heap: list[tuple[float, int, int, int, float]] = []

    def offer(place: int, rank: int, parent: int, above: float) -> None:
        known = place < min(len(tokens_KB), len(chances_KB))
        if known and rank < min(len(tokens_KB[place]), len(chances_KB[place])):
            worth = above * float(chances_KB[place][rank])
            if worth > 0:
                heapq.heappush(heap, (-worth, place, rank, parent, above))

    offer(0, 0, -1, 1.0)
    while heap and len(tokens) < nodes:
        worth, place, rank, parent, above = heapq.heappop(heap)
        node = len(tokens)
        tokens.append(int(tokens_KB[place][rank]))
        parents.append(parent)
        offer(place, rank + 1, parent, above)
        offer(place + 1, 0, node, -worth)
    if not tokens:
        return NO_DRAFT
    return Draft(tuple(tokens), tuple(parents), (name,) * len(tokens), (0,) * len(tokens))
