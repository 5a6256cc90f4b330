"""Growing one tree over all sources, best first: the node whose whole path is the most probable is taken next.

What may follow a node, and how probably, is `auto_branches`' part. As no child is more probable than its parent, the
nodes come in falling order of probability, so that the best tree of n nodes is the first n; the tree ends where one
more row in the verification would cost more time than it gains.

Owns no state. Legend: N nodes, F entries of the frontier, S sources.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.auto.branches import TAIL, Branches, S, expand, new_branches
from fastcoder_lsp.index.entry import FixedTypes
from fastcoder_lsp.kernels import NONE, inlined, kernel

DEEPEST = 32
_FRONTIER = 2048
_LEAST = 1e-3
"""Paths less probable than this are not followed."""


class Grown(NamedTuple):
    """The tree's nodes, likeliest first: tokens, parents (-1: the root), probabilities of their paths.

    `cell_NS`: what each source said of a node (`evidence`, -1: nothing). `source_N`, `match_N`: who made it most
    probable, from how long a match.
    """

    token_N: npt.NDArray[np.int32]
    parent_N: npt.NDArray[np.int32]
    likely_N: npt.NDArray[np.float64]
    cell_NS: npt.NDArray[np.int32]
    source_N: npt.NDArray[np.int32]
    match_N: npt.NDArray[np.int32]


def new_grown(nodes: int) -> Grown:
    """Room for a tree."""
    ints = (np.zeros(nodes, np.int32) for _ in range(4))
    token_N, parent_N, source_N, match_N = ints
    return Grown(token_N, parent_N, np.zeros(nodes), np.full((nodes, S), -1, np.int32), source_N, match_N)


class Frontier(NamedTuple):
    """Nodes that may be taken next, and a heap over those that still wait, the likeliest first."""

    token_F: npt.NDArray[np.int32]
    parent_F: npt.NDArray[np.int32]
    rows_F: npt.NDArray[np.int32]
    source_F: npt.NDArray[np.int32]
    match_F: npt.NDArray[np.int32]
    heap_F: npt.NDArray[np.int32]
    cell_FS: npt.NDArray[np.int32]
    likely_F: npt.NDArray[np.float64]


class Scratch(NamedTuple):
    """What growing writes to and nobody reads after: children, frontier, and the parts of one path.

    `following_K`: for each of the root's continuations, the next one in the list that it is in. `depth_N`: of each
    node. `context`: the path to a node and the text before it, backwards.
    """

    branches: Branches
    frontier: Frontier
    following_K: npt.NDArray[np.int32]
    depth_N: npt.NDArray[np.int32]
    context: npt.NDArray[np.int32]


def new_scratch(nodes: int, continuations: int) -> Scratch:
    """Scratch memory for trees of so many nodes, over at most so many continuations of the root."""
    token_F, parent_F, rows_F, source_F, match_F, heap_F = (np.zeros(_FRONTIER, np.int32) for _ in range(6))
    cell_FS, likely_F = np.zeros((_FRONTIER, S), np.int32), np.zeros(_FRONTIER)
    frontier = Frontier(token_F, parent_F, rows_F, source_F, match_F, heap_F, cell_FS, likely_F)
    following_K, depth_N, context = (np.zeros(size, np.int32) for size in (continuations, nodes, TAIL))
    return Scratch(new_branches(), frontier, following_K, depth_N, context)


@FixedTypes
@kernel
def grow(tail: Any, said: Any, ms_N: Any, scratch: Any, grown: Any) -> Any:
    """Take the likeliest nodes until no more pay, or fit.

    Args:
        tail: the text's last tokens, backwards.
        said: `auto_branches.Said`.
        ms_N: milliseconds of a step with so many drafts, from 0; empty: take as many as fit.
        scratch: `Scratch`, of no fewer nodes and continuations.
        grown: out: `Grown`.

    Returns:
        How many nodes were taken, and how many of them make the fastest step.
    """
    branches, frontier, following, depth_N, context = scratch
    N, K = len(grown.token_N), len(said.asked.source_K)
    for k in range(K):
        following[k] = k - 1
    used, waiting, taken, best = NONE, NONE, NONE, NONE
    node, head, likely, depth = np.int64(-1), np.int32(K - 1), 1.0, np.int32(0)
    expected, fastest = 1.0, 1.0 / ms_N[0] if len(ms_N) > 0 else 0.0
    while True:
        if depth < DEEPEST:
            length = _path(tail, grown, node, context)
            count = expand(context[:length], said, following, head, depth, branches)
            for b in range(count):
                if likely * branches.likely_B[b] >= _LEAST and used < _FRONTIER:
                    _wait(frontier, used, waiting, branches, b, node, likely)
                    used, waiting = used + 1, waiting + 1
        if waiting == 0 or taken == N:
            break
        entry = _pop(frontier.heap_F, waiting, frontier.likely_F)
        waiting -= 1
        likely, head, parent = frontier.likely_F[entry], frontier.rows_F[entry], frontier.parent_F[entry]
        _take(frontier, entry, grown, taken)
        depth = np.int32(1) if parent < 0 else np.int32(depth_N[parent] + 1)
        depth_N[taken], node = depth, np.int64(taken)
        taken += 1
        expected += likely
        if len(ms_N) == 0:
            best = taken
        elif expected / ms_N[taken] > fastest:
            fastest, best = expected / ms_N[taken], taken
        if taken == N or _no_more_pays(expected, likely, fastest, ms_N, taken):
            break
    return taken, best


@inlined
def _path(tail: Any, grown: Any, node: Any, context: Any) -> Any:
    """The path to `node` and the text before it, backwards; returns how many tokens that is."""
    length = 0
    while node >= 0 and length < len(context):
        context[length] = grown.token_N[node]
        length += 1
        node = np.int64(grown.parent_N[node])
    kept = min(len(context) - length, len(tail))
    for place in range(kept):  # numba compiles more for a slice that is put in a slice than for all the rest
        context[length + place] = tail[place]
    return length + kept


@inlined
def _wait(frontier: Any, used: Any, waiting: Any, branches: Any, b: Any, node: Any, likely: Any) -> None:
    """Put child `b` of `node`, whose path is `likely`, on the frontier."""
    source = branches.source_B[b]
    frontier.token_F[used], frontier.parent_F[used] = branches.token_B[b], node
    frontier.rows_F[used], frontier.source_F[used] = branches.rows_B[b], source
    frontier.match_F[used] = branches.match_BS[b, source]
    frontier.likely_F[used] = likely * branches.likely_B[b]
    for s in range(S):
        frontier.cell_FS[used, s] = branches.cell_BS[b, s]
    _push(frontier.heap_F, waiting, frontier.likely_F, used)


@inlined
def _take(frontier: Any, entry: Any, grown: Any, taken: Any) -> None:
    """Make an entry of the frontier the tree's node `taken`."""
    grown.token_N[taken], grown.parent_N[taken] = frontier.token_F[entry], frontier.parent_F[entry]
    grown.source_N[taken], grown.match_N[taken] = frontier.source_F[entry], frontier.match_F[entry]
    grown.likely_N[taken] = frontier.likely_F[entry]
    for s in range(S):
        grown.cell_NS[taken, s] = frontier.cell_FS[entry, s]


@inlined
def _no_more_pays(expected: Any, likely: Any, fastest: Any, ms_N: Any, taken: Any) -> Any:
    """Whether no wider tree can be faster, even if all its other nodes were as likely as the last one."""
    for drafts in range(taken + 1, len(ms_N)):
        if (expected + (drafts - taken) * likely) / ms_N[drafts] > fastest:
            return False
    return len(ms_N) > 0


@inlined
def _push(heap: Any, size: Any, likely_F: Any, entry: Any) -> None:
    """A binary heap, the likeliest entry first, of equals the earliest."""
    place = size
    heap[place] = entry
    while place > 0:
        above = (place - 1) >> 1
        if likely_F[heap[above]] >= likely_F[entry]:
            break
        heap[place], heap[above] = heap[above], entry
        place = above


@inlined
def _pop(heap: Any, size: Any, likely_F: Any) -> Any:
    first = heap[0]
    entry, place, size = heap[size - 1], 0, size - 1
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and likely_F[heap[child + 1]] > likely_F[heap[child]]:
            child += 1
        if likely_F[heap[child]] <= likely_F[entry]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = entry
    return first
