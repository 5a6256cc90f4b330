"""One tree over all sources, grown best first and sized by measured cost; compiled.

Every node asks all sources for its next tokens, given the whole path to it: running text and history by all their
places with the same last tokens, continuations of the root as far as they agree with the path, tables by the last one
or two tokens. The log odds of their evidence (`evidence`) add up to one probability. The node with the most probable
path is taken next. As no child is more probable than its parent, nodes come in falling order of probability, so the
best tree of n nodes is the first n.

Legend: N nodes, F entries of the frontier, S sources, C cells, B branches (children of one node), K continuations of D
tokens.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.core.arrays import Float64s, Floats, Int32s
from fastcoder_lsp.draft.auto.evidence import (
    ABSENT,
    FROZEN,
    PAIRS,
    PAST,
    RECYCLED,
    SOURCES,
    TEXT,
    EvidenceWeights,
    GrownNodes,
    hits_cell,
    length_bucket,
)
from fastcoder_lsp.draft.auto.preferences import RowTable, find, key_of
from fastcoder_lsp.draft.matching import Chains
from fastcoder_lsp.kernels import NONE, inlined, kernel
from fastcoder_lsp.kernels.decorators import FixedTypes

S = len(SOURCES)
TAIL = 16  # longest match that is distinguished from shorter ones
_BRANCHES = 64
_PLACES_AT_ROOT, _PLACES_BELOW = 96, 24
WEIGHT_GROWTH = 1.6  # how much more a hit weighs among its source's hits for one more token of its match
_WEIGHTS = np.array([WEIGHT_GROWTH**match for match in range(TAIL + 1)], np.float32)
"""Weight of a hit among its source's hits, by the length of its match."""
_TEXT, _PAST, _RECYCLED, _PAIRS = map(np.int64, (TEXT, PAST, RECYCLED, PAIRS))
_NO_TOKEN = np.int32(-1)  # no token, in the type of tokens: numba infers types from constants (`kernels.NONE`)
_SUREST = 30.0  # upper bound of log odds, so that nothing overflows


class Continuations(NamedTuple):
    """Continuations of the root: K rows, each with its source and the length of its match."""

    rows_KD: Int32s
    source_K: Int32s
    match_K: Int32s


class DraftEvidence(NamedTuple):
    """All evidence for one draft, and the weights of its cells."""

    text: Chains
    past: Chains
    continuations: Continuations
    recycled: RowTable
    pairs: RowTable
    frozen_VR: Int32s  # the corpus' commonest next tokens (`FrozenTable.commonest_VR`)
    weights: EvidenceWeights


class Branches(NamedTuple):
    """Scratch, and the output of `expand`: the children of one node.

    Each has a token and the list of continuations that agree with it (the first; -1: none). `weight_BS`, `match_BS`:
    of its hits, by source. `cell_BS`: evidence of each source (-1: none). `likely_B`: its probability, given its
    parent. `source_B`: the source that makes it most probable. For each source, over all children: `total_S3`, weight,
    longest match, and number of its hits; `absent_S`, its cell for children that it does not name; `speaking_S`, the
    sources with evidence at this node.
    """

    token_B: Int32s
    rows_B: Int32s
    weight_BS: Floats
    match_BS: Int32s
    cell_BS: Int32s
    likely_B: Float64s
    source_B: Int32s
    total_S3: Floats
    absent_S: Int32s
    speaking_S: Int32s


def new_branches() -> Branches:
    """Scratch memory for one drafter."""
    token_B, rows_B, source_B = (np.zeros(_BRANCHES, np.int32) for _ in range(3))
    match_BS, cell_BS = (np.zeros((_BRANCHES, S), np.int32) for _ in range(2))
    weight_BS, total_S3 = np.zeros((_BRANCHES, S), np.float32), np.zeros((S, 3), np.float32)
    absent_S, speaking_S = np.zeros(S, np.int32), np.zeros(S, np.int32)
    likely_B = np.zeros(_BRANCHES, np.float64)
    return Branches(token_B, rows_B, weight_BS, match_BS, cell_BS, likely_B, source_B, total_S3, absent_S, speaking_S)


@inlined
def _branch(branches: Any, count: Any, token: Any) -> Any:
    """The child with `token`, a new one at `count` if there is none; -1 if there is no room."""
    for b in range(count):
        if branches.token_B[b] == token:
            return b
    if count == _BRANCHES:
        return -1
    branches.token_B[count], branches.rows_B[count] = token, -1
    branches.weight_BS[count] = 0
    branches.match_BS[count] = 0
    branches.cell_BS[count] = -1
    return count


@inlined
def _from_text(chains: Any, source: Any, context: Any, places: Any, branches: Any, count: Any, total: Any) -> Any:
    """All places with the context's last token, latest first: their next tokens, weighted by the length of the match.

    `context` runs backwards. `total`: (weight, longest match, hits), filled in.
    """
    flat, before = chains.flat_N, chains.before_N
    last = context[0]
    place = chains.heads[last & (len(chains.heads) - 1)]
    seen = 0
    while place >= 0 and seen < places:
        if flat[place] == last and place + 1 < chains.size and flat[place + 1] >= 0:
            seen += 1
            match = 1
            while match < len(context) and place >= match and flat[place - match] == context[match]:
                match += 1
            b = _branch(branches, count, flat[place + 1])
            if b >= 0:
                count = max(count, b + 1)
                weight = _WEIGHTS[match]
                branches.weight_BS[b, source] += weight
                branches.match_BS[b, source] = max(branches.match_BS[b, source], match)
                total[source, 0] += weight
                total[source, 1] = max(total[source, 1], match)
                total[source, 2] += 1
        place = before[place]
    return count


@inlined
def _from_rows(continuations: Any, following: Any, head: Any, depth: Any, branches: Any, count: Any, total: Any) -> Any:
    """The continuations that agree with the path so far; each goes over to the child that it names."""
    k = head
    while k >= 0:
        after = following[k]
        token = continuations.rows_KD[k, depth] if depth < continuations.rows_KD.shape[1] else np.int32(-1)
        b = _branch(branches, count, token) if token >= 0 else -1
        if b >= 0:
            count = max(count, b + 1)
            source, match = continuations.source_K[k], min(continuations.match_K[k] + depth, TAIL)
            weight = _WEIGHTS[continuations.match_K[k]]
            branches.weight_BS[b, source] += weight
            branches.match_BS[b, source] = max(branches.match_BS[b, source], match)
            total[source, 0] += weight
            total[source, 1] = max(total[source, 1], match)
            total[source, 2] += 1
            following[k] = branches.rows_B[b]
            branches.rows_B[b] = k
        k = after
    return count


@inlined
def _from_table(rows: Any, source: Any, key: Any, branches: Any, count: Any) -> Any:
    """The model's own candidates after a token or two. Returns the count and the cell of tokens not among them."""
    slot = find(rows, key)
    if slot < 0:
        return count, np.int32(-1)
    for rank in range(rows.ids_MR.shape[1]):
        token = rows.ids_MR[slot, rank]
        if token < 0:
            break
        b = _branch(branches, count, token)
        if b >= 0:
            count = max(count, b + 1)
            branches.cell_BS[b, source] = rank * 10 + rows.sure_MR[slot, rank]
    return count, np.int32(ABSENT + min(rows.sure_MR[slot, 0], 9))


@inlined
def _from_frozen(frozen_VR: Any, token: Any, branches: Any, count: Any) -> Any:
    """The corpus' commonest next tokens: the cell is the rank."""
    if not 0 <= token < len(frozen_VR) or frozen_VR[token, 0] < 0:
        return count, np.int32(-1)
    for rank in range(frozen_VR.shape[1]):
        if frozen_VR[token, rank] < 0:
            break
        b = _branch(branches, count, frozen_VR[token, rank])
        if b >= 0:
            count = max(count, b + 1)
            branches.cell_BS[b, FROZEN] = rank
    return count, np.int32(ABSENT)


@inlined
def expand(context: Any, evidence: Any, following: Any, head: Any, depth: Any, branches: Any) -> Any:
    """Ask all sources for the tokens after a node, and compute each child's probability; returns their number.

    Args:
        context: the path to the node and the text before, backwards, `TAIL` tokens at most.
        evidence: `DraftEvidence`.
        following: for each continuation of the root, the next one in its list.
        head: the first of the list of those that agree with the path; -1: none.
        depth: tokens of the path.
        branches: out: `Branches`.
    """
    total, absent_S = branches.total_S3, branches.absent_S
    total[:] = 0
    absent_S[:] = -1
    places = _PLACES_AT_ROOT if depth == 0 else _PLACES_BELOW
    count = _from_text(evidence.text, _TEXT, context, places, branches, NONE, total)
    count = _from_text(evidence.past, _PAST, context, places, branches, count, total)
    count = _from_rows(evidence.continuations, following, head, depth, branches, count, total)
    count, absent_S[RECYCLED] = _from_table(
        evidence.recycled, _RECYCLED, key_of(_NO_TOKEN, context[0]), branches, count
    )
    if len(context) > 1:
        count, absent_S[PAIRS] = _from_table(evidence.pairs, _PAIRS, key_of(context[1], context[0]), branches, count)
    count, absent_S[FROZEN] = _from_frozen(evidence.frozen_VR, context[0], branches, count)
    for s in range(S):
        if total[s, 2] > 0:
            absent_S[s] = ABSENT + length_bucket(np.int64(total[s, 1]))
    _add_up(evidence.weights, branches, count, total, absent_S)
    return count


@inlined
def _add_up(weights: Any, branches: Any, count: Any, total: Any, absent_S: Any) -> None:
    """Turn evidence into probabilities: children of one node exclude each other, and perhaps none of them follows."""
    # A source without a cell for tokens that it does not name has no evidence here.
    speaking = 0
    for s in range(S):
        if absent_S[s] >= 0:
            branches.speaking_S[speaking] = s
            speaking += 1
    whole = 1.0
    for b in range(count):
        logit, surest = weights.bias, -np.inf
        for place in range(speaking):
            s = branches.speaking_S[place]
            if branches.match_BS[b, s] > 0:
                share = branches.weight_BS[b, s] / total[s, 0]
                branches.cell_BS[b, s] = hits_cell(branches.match_BS[b, s], share, np.int64(total[s, 2]))
            cell = branches.cell_BS[b, s]
            if cell < 0:
                cell = branches.cell_BS[b, s] = absent_S[s]
            elif weights.logits_SC[s, cell] > surest:
                surest, branches.source_B[b] = weights.logits_SC[s, cell], s
            logit += weights.logits_SC[s, cell]
        branches.likely_B[b] = np.exp(min(logit, _SUREST))
        whole += branches.likely_B[b]
    for b in range(count):
        branches.likely_B[b] /= whole


DEEPEST = 32
_FRONTIER = 2048
_LEAST = 1e-3  # paths less probable than this are not followed


def new_grown(nodes: int) -> GrownNodes:
    """Room for a tree."""
    ints = (np.zeros(nodes, np.int32) for _ in range(4))
    token_N, parent_N, source_N, match_N = ints
    return GrownNodes(token_N, parent_N, np.zeros(nodes), np.full((nodes, S), -1, np.int32), source_N, match_N)


class Frontier(NamedTuple):
    """Nodes that may be taken next, and a heap over those not yet taken, likeliest first."""

    token_F: Int32s
    parent_F: Int32s
    rows_F: Int32s
    source_F: Int32s
    match_F: Int32s
    heap_F: Int32s
    cell_FS: Int32s
    likely_F: Float64s


class GrowthScratch(NamedTuple):
    """Scratch memory of `grow`: `following_K` links continuations of the root into lists; `context` runs backwards."""

    branches: Branches
    frontier: Frontier
    following_K: Int32s
    depth_N: Int32s
    context: Int32s


def new_scratch(nodes: int, continuations: int) -> GrowthScratch:
    """Scratch memory for trees of so many nodes, over at most so many continuations of the root."""
    token_F, parent_F, rows_F, source_F, match_F, heap_F = (np.zeros(_FRONTIER, np.int32) for _ in range(6))
    cell_FS, likely_F = np.zeros((_FRONTIER, S), np.int32), np.zeros(_FRONTIER)
    frontier = Frontier(token_F, parent_F, rows_F, source_F, match_F, heap_F, cell_FS, likely_F)
    following_K, depth_N, context = (np.zeros(size, np.int32) for size in (continuations, nodes, TAIL))
    return GrowthScratch(new_branches(), frontier, following_K, depth_N, context)


@FixedTypes
@kernel
def grow(tail: Any, evidence: Any, ms_N: Any, scratch: Any, grown: Any) -> Any:
    """Take the likeliest nodes until no more pay or fit.

    Returns the number of nodes taken, and how many of them make the fastest step.

    Args:
        tail: the text's last tokens, backwards.
        evidence: `DraftEvidence`.
        ms_N: milliseconds of a step by its number of drafts, from 0; empty: take as many as fit.
        scratch: `GrowthScratch`, with at least as many nodes and continuations.
        grown: out: `GrownNodes`.
    """
    branches, frontier, following, depth_N, context = scratch
    N, K = len(grown.token_N), len(evidence.continuations.source_K)
    for k in range(K):
        following[k] = k - 1
    used, waiting, taken, best = NONE, NONE, NONE, NONE
    node, head, likely, depth = np.int64(-1), np.int32(K - 1), 1.0, np.int32(0)
    expected, fastest = 1.0, 1.0 / ms_N[0] if len(ms_N) > 0 else 0.0
    while True:
        if depth < DEEPEST:
            length = _path(tail, grown, node, context)
            count = expand(context[:length], evidence, following, head, depth, branches)
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
    """The path to `node` and the text before it, backwards; returns the number of tokens."""
    length = 0
    while node >= 0 and length < len(context):
        context[length] = grown.token_N[node]
        length += 1
        node = np.int64(grown.parent_N[node])
    kept = min(len(context) - length, len(tail))
    for place in range(kept):  # numba compiles more for assigning a slice to a slice than for all the rest
        context[length + place] = tail[place]
    return length + kept


@inlined
def _wait(frontier: Any, used: Any, waiting: Any, branches: Any, b: Any, node: Any, likely: Any) -> None:
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
    grown.token_N[taken], grown.parent_N[taken] = frontier.token_F[entry], frontier.parent_F[entry]
    grown.source_N[taken], grown.match_N[taken] = frontier.source_F[entry], frontier.match_F[entry]
    grown.likely_N[taken] = frontier.likely_F[entry]
    for s in range(S):
        grown.cell_NS[taken, s] = frontier.cell_FS[entry, s]


@inlined
def _no_more_pays(expected: Any, likely: Any, fastest: Any, ms_N: Any, taken: Any) -> Any:
    """Whether no wider tree can be faster, even if all further nodes were as likely as the last one."""
    for drafts in range(taken + 1, len(ms_N)):
        if (expected + (drafts - taken) * likely) / ms_N[drafts] > fastest:
            return False
    return len(ms_N) > 0


@inlined
def _push(heap: Any, size: Any, likely_F: Any, entry: Any) -> None:
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


DRAFT_MS = 0.15  # time of drafting and observing in each step, with or without drafts


@lru_cache(maxsize=256)
def draft_costs(costs: StepCosts | None, nodes: int) -> Float64s:
    """Milliseconds of a step with 0…`nodes` drafts beside the pending token; empty if costs are unknown."""
    if costs is None:
        return np.zeros(0)
    return np.array([costs.step_ms(1 + drafts) + DRAFT_MS for drafts in range(nodes + 1)])
