"""What may follow a node of the tree, and how probably: all sources asked together, compiled.

Sources are asked anew at every node, given the whole path to it: running text and history by all their places with
the same last tokens, continuations of the root as far as they agree with the path, tables by the last one or two
tokens. What they say of one token is told apart into cells (`evidence`) and added up to one probability.

Owns no state. Legend: S sources, C cells, B branches (children of one node), K continuations of D tokens.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.auto.cells import (
    ABSENT,
    FROZEN,
    PAIRS,
    PAST,
    RECYCLED,
    SOURCES,
    TEXT,
    hits_cell,
    length_bucket,
)
from fastcoder_lsp.draft.auto.row_table import RowArrays, find, key_of
from fastcoder_lsp.draft.chain import Chains
from fastcoder_lsp.kernels import NONE, inlined

S = len(SOURCES)
"""Number of sources."""
TAIL = 16
"""Longest match that is told from shorter ones."""
_BRANCHES = 64
_PLACES_AT_ROOT, _PLACES_BELOW = 96, 24
_WEIGHTS = np.array([1.6**match for match in range(TAIL + 1)], np.float32)
"""Of a hit among its source's hits, by the length of its match."""
_TEXT, _PAST, _RECYCLED, _PAIRS = map(np.int64, (TEXT, PAST, RECYCLED, PAIRS))
_NOBODY = np.int32(-1)
"""As tokens are; see `kernels.NONE`."""
_SUREST = 30.0
"""Log odds that are never exceeded, so that nothing overflows."""


class Weights(NamedTuple):
    """How evidence becomes a probability: a multinomial logit over the children of a node and "none of them".

    p of a child = exp(z) / (1 + Σ exp(z) of all children), where z = bias + Σ logits_SC[s, what source s says of it].
    """

    logits_SC: npt.NDArray[np.float32]
    bias: float


class Continuations(NamedTuple):
    """What sources say that comes below the root: K rows, each with its source and the length of its match."""

    rows_KD: npt.NDArray[np.int32]
    source_K: npt.NDArray[np.int32]
    match_K: npt.NDArray[np.int32]


class Said(NamedTuple):
    """All that can be asked, and what each word is worth.

    Running text, what was said in the document before, continuations of the root, rows by one token and by two, and
    the corpus' commonest next tokens (`FrozenTable.commonest_VR`).
    """

    text: Chains
    past: Chains
    asked: Continuations
    recycled: RowArrays
    pairs: RowArrays
    frozen_VR: npt.NDArray[np.int32]
    weights: Weights


class Branches(NamedTuple):
    """Scratch, and what `expand` tells: the children of one node.

    Each has a token and the list of continuations that agree with it (the first; -1: none). `weight_BS`, `match_BS`:
    of its hits, by source; `cell_BS`: what each source says of it (-1: nothing). `likely_B`: its probability, given
    its parent. `source_B`: who makes it most probable. Of each source, whatever the child: `total_S3`, weight, longest
    match, and number of its hits; `absent_S`, the cell of who has something to say, but of other children;
    `speaking_S`, the sources that have something to say.
    """

    token_B: npt.NDArray[np.int32]
    rows_B: npt.NDArray[np.int32]
    weight_BS: npt.NDArray[np.float32]
    match_BS: npt.NDArray[np.int32]
    cell_BS: npt.NDArray[np.int32]
    likely_B: npt.NDArray[np.float64]
    source_B: npt.NDArray[np.int32]
    total_S3: npt.NDArray[np.float32]
    absent_S: npt.NDArray[np.int32]
    speaking_S: npt.NDArray[np.int32]


def new_branches() -> Branches:
    """Scratch memory for one drafter."""
    return Branches(
        np.zeros(_BRANCHES, np.int32),
        np.zeros(_BRANCHES, np.int32),
        np.zeros((_BRANCHES, S), np.float32),
        np.zeros((_BRANCHES, S), np.int32),
        np.zeros((_BRANCHES, S), np.int32),
        np.zeros(_BRANCHES, np.float64),
        np.zeros(_BRANCHES, np.int32),
        np.zeros((S, 3), np.float32),
        np.zeros(S, np.int32),
        np.zeros(S, np.int32),
    )


@inlined
def _branch(branches: Any, count: Any, token: Any) -> Any:
    """The child with `token`, a new one at `count` if there is none; -1 where there is no room."""
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
    """All places with the context's last token, latest first: what followed, weighed by how much more agrees.

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
def _from_rows(asked: Any, following: Any, head: Any, depth: Any, branches: Any, count: Any, total: Any) -> Any:
    """The continuations that agree with the path so far; each goes over to the child that it names."""
    k = head
    while k >= 0:
        after = following[k]
        token = asked.rows_KD[k, depth] if depth < asked.rows_KD.shape[1] else np.int32(-1)
        b = _branch(branches, count, token) if token >= 0 else -1
        if b >= 0:
            count = max(count, b + 1)
            source, match = asked.source_K[k], min(asked.match_K[k] + depth, TAIL)
            weight = _WEIGHTS[asked.match_K[k]]
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
    """The model's own candidates after a token or two. Returns the count and the cell of who is not among them."""
    slot = find(rows.keys_M, key)
    if rows.keys_M[slot] != key:
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
    """The corpus' commonest next tokens: the rank is what is told."""
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
def expand(context: Any, said: Any, following: Any, head: Any, depth: Any, branches: Any) -> Any:
    """Ask all sources what follows a node, and how probable each of it is, given the node.

    Args:
        context: the path to the node and the text before, backwards, `TAIL` tokens at most.
        said: `Said`.
        following: for each of the root's continuations, the next one in the list that it is in.
        head: the first of the list of those that agree with the path; -1: none.
        depth: tokens of the path.
        branches: out: `Branches`.

    Returns:
        The number of children.
    """
    total, absent_S = branches.total_S3, branches.absent_S
    total[:] = 0
    absent_S[:] = -1
    places = _PLACES_AT_ROOT if depth == 0 else _PLACES_BELOW
    count = _from_text(said.text, _TEXT, context, places, branches, NONE, total)
    count = _from_text(said.past, _PAST, context, places, branches, count, total)
    count = _from_rows(said.asked, following, head, depth, branches, count, total)
    count, absent_S[RECYCLED] = _from_table(said.recycled, _RECYCLED, key_of(_NOBODY, context[0]), branches, count)
    if len(context) > 1:
        count, absent_S[PAIRS] = _from_table(said.pairs, _PAIRS, key_of(context[1], context[0]), branches, count)
    count, absent_S[FROZEN] = _from_frozen(said.frozen_VR, context[0], branches, count)
    for s in range(S):
        if total[s, 2] > 0:
            absent_S[s] = ABSENT + length_bucket(np.int64(total[s, 1]))
    _add_up(said.weights, branches, count, total, absent_S)
    return count


@inlined
def _add_up(weights: Any, branches: Any, count: Any, total: Any, absent_S: Any) -> None:
    """From what the sources said to probabilities; children of one node exclude each other, and none may follow."""
    # A source without a cell for those that it does not name has said nothing here.
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
