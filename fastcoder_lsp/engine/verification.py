"""Chooses tokens from logits, and decides which drafts of a tree the model accepts.

A token is chosen greedily, or by noise that depends only on (seed, position). The Gumbel-max trick: the argmax of
logits/temperature + Gumbel noise is a draw from their softmax, so only the noise is random, and a row drawn in a tree
gives the token that plain decoding draws.

A tree is walked from its root, with one draw for each node that the walk reaches. There are two rules. By default each
row's token is the one that plain decoding would emit. Rejection sampling gives the text the distribution of plain
sampling, whatever the drafts.

Rejection is Leviathan et al. 2023, section 2.3, and Chen et al. 2023, Algorithm 2: a token x drawn from q is accepted
with the probability min(1, p(x) / q(x)); otherwise p becomes its excess over q, scaled up to 1. Miao et al. 2024
(SpecInfer, section 4.3): siblings are tried one after the other, each against the residual p of the previous ones. A
draft that was not drawn follows from the text alone: it is tried as a draw from a point distribution. Tokens without a
draft are drawn with the noise of plain sampling.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftTree, Proposal, Sampler
from fastcoder_lsp.core.arrays import Float64s, Floats, Int64s
from fastcoder_lsp.core.noise import gumbel, uniform

HEAD = 512  # how many of the best tokens top-p sorts first
_FOLD = 64


def choose(logits_V: Floats, sampler: Sampler, position: int, allowed: Int64s | None = None) -> int:
    """The next token at `position` in the text, of `allowed` ids only. Ties go to the lowest id."""
    if allowed is None:
        ids: Int64s | None = None
        values = logits_V
    else:
        assert len(allowed), "an empty set of allowed tokens leaves nothing to choose"
        ids = np.unique(allowed)
        values = logits_V[ids]
    if sampler.temperature <= 0:
        best = int(np.argmax(values))  # the first of equals
        return best if ids is None else int(ids[best])
    kept = _nucleus(values.astype(np.float64) / sampler.temperature, sampler)
    kept_ids = kept if ids is None else ids[kept]
    noisy = values[kept].astype(np.float64) / sampler.temperature + gumbel(sampler.seed, position, kept_ids)
    return int(kept_ids[int(np.argmax(noisy))])


def distribution(logits_V: Floats, sampler: Sampler, allowed: Int64s | None = None) -> Float64s:
    """The probabilities [V] that `choose` draws by; the temperature is above 0."""
    assert sampler.temperature > 0, "greedy decoding draws nothing"
    ids = np.arange(len(logits_V)) if allowed is None else np.unique(allowed)
    scaled = logits_V[ids].astype(np.float64) / sampler.temperature
    kept = _nucleus(scaled, sampler)
    weights = np.exp(scaled[kept] - scaled[kept].max())
    probabilities_V = np.zeros(len(logits_V))
    probabilities_V[ids[kept]] = weights / weights.sum()
    return probabilities_V


def _nucleus(scaled: Float64s, sampler: Sampler) -> Int64s:
    """Ascending indices that top-k, then top-p, then min-p keep; ties at an edge go to the lower index."""
    kept = _likeliest(scaled, sampler)
    return kept if sampler.min_p <= 0 else kept[scaled[kept] >= scaled.max() + sampler.least]


def _likeliest(scaled: Float64s, sampler: Sampler) -> Int64s:
    count = len(scaled)
    top_k = min(sampler.top_k, count) if sampler.top_k > 0 else count
    if top_k == count and sampler.top_p >= 1.0:
        return np.arange(count, dtype=np.int64)
    if sampler.top_p >= 1.0:
        return np.sort(best_first(scaled, top_k))
    weights = np.exp(scaled - scaled.max())
    # A few hundred tokens nearly always hold the mass, so the whole vocabulary is rarely sorted.
    taken = min(HEAD, top_k)
    while True:
        order = best_first(scaled, taken)
        mass = weights.sum() if top_k == count else weights[best_first(scaled, top_k)].sum()
        held = np.cumsum(weights[order])
        if taken == top_k or held[-1] >= sampler.top_p * mass:
            return np.sort(order[held - weights[order] < sampler.top_p * mass] if sampler.top_p > 0 else order[:1])
        taken = top_k


def best_first(values: npt.NDArray[np.floating], count: int) -> Int64s:
    """Indices of the `count` highest values, highest first, equal ones by index."""
    if count == 0 or count >= len(values):
        near = np.arange(len(values), dtype=np.int64)
    else:
        near = _near_best(values, count)
        near = near[values[near] >= _edge(values[near], count)]
    return near[np.argsort(-values[near], kind="stable")[:count]].astype(np.int64)


def _near_best(values: npt.NDArray[np.floating], count: int) -> Int64s:
    """Ascending indices of the `count` highest values and all their equals; few where `values` are many.

    Folds the values into `_FOLD` lines and takes each column's maximum with a few wide operations: dropping the columns
    whose maximum is too low takes a sixth of the time of partitioning all values (54 µs a row of 151,936).
    """
    width = len(values) // _FOLD
    if width <= 4 * count:
        return np.arange(len(values), dtype=np.int64)
    highest = values[: _FOLD * width].reshape(_FOLD, width).max(axis=0)
    columns = np.flatnonzero(highest >= _edge(highest, count))
    folded = (np.arange(0, _FOLD * width, width)[:, None] + columns).ravel()
    return np.concatenate([folded, np.arange(_FOLD * width, len(values))])


def _edge(values: npt.NDArray[np.floating], count: int) -> Any:
    return np.partition(values, len(values) - count)[len(values) - count]


def top_rows(logits_RV: Floats, count: int, allowed: Mapping[int, Int64s] | None = None) -> tuple[Int64s, Floats]:
    """The `count` best ids and logits of every row, best first, equal ones by id.

    `allowed`: row → the only ids that may follow it. Where they are fewer than `count`, the last of them is repeated
    with a logit of minus infinity.
    """
    count = min(count, logits_RV.shape[1])
    ids_RK, found_R = np.empty((len(logits_RV), count), dtype=np.int64), np.empty(len(logits_RV), dtype=np.int64)
    for row, logits_V in enumerate(logits_RV):
        ids = np.unique(allowed[row]) if allowed and row in allowed else None
        best = best_first(logits_V, count) if ids is None else ids[best_first(logits_V[ids], min(count, len(ids)))]
        ids_RK[row, : len(best)], ids_RK[row, len(best) :], found_R[row] = best, best[-1], len(best)
    best_RK = np.take_along_axis(logits_RV, ids_RK, axis=1)
    return ids_RK, np.where(np.arange(count) < found_R[:, None], best_RK, -np.inf).astype(best_RK.dtype, copy=False)


Attempts = Mapping[int, list[tuple[int, Proposal]]]
"""node → its children in the order of trial, each with the distribution it was drawn from."""


def accept_by_rejection(
    tree: DraftTree, logits_RV: Floats, sampler: Sampler, allowed: Mapping[int, Int64s], cached: int, room: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Arguments and results as of `verification.accept`; the sampler's temperature is above 0."""
    attempts = attempts_of(tree)
    first, node = len(tree) - len(logits_RV), tree.pending - 1
    path: list[int] = []
    emitted: list[int] = []
    while True:
        position = cached + tree.pending + len(path)
        target_V = distribution(logits_RV[node - first], sampler, allowed.get(node))
        tried = attempts.get(node, []) if len(path) < room else []
        child, target_V = _try(tree, tried, target_V, sampler.seed, position)
        if child is None:
            emitted.append(_draw(target_V, sampler.seed, position))
            return tuple(path), tuple(emitted)
        emitted.append(tree.tokens[child])
        path.append(child)
        node = child


def attempts_of(tree: DraftTree) -> Attempts:
    """The children to try at each node: drawn ones in the order of drawing, then the others in the tree's order."""
    attempts: defaultdict[int, list[tuple[int, Proposal]]] = defaultdict(list)
    drawn = set()
    for draw in tree.draws:
        attempts[tree.parents[draw.node]].append((draw.node, draw.proposal))
        drawn.add(draw.node)
    for node in range(tree.pending, len(tree)):
        if node not in drawn:
            certain = Proposal(np.array([tree.tokens[node]]), np.ones(1))
            attempts[tree.parents[node]].append((node, certain))
    return attempts


def _try(
    tree: DraftTree, tried: list[tuple[int, Proposal]], target_V: Float64s, seed: int, position: int
) -> tuple[int | None, Float64s]:
    for index, (child, proposal) in enumerate(tried):
        token = tree.tokens[child]
        wanted = target_V[token] if 0 <= token < len(target_V) else 0.0
        guessed = float(proposal.probabilities[proposal.ids == token].sum())
        if uniform(seed, position, index) * guessed < wanted:
            return child, target_V
        left_V = target_V.copy()
        known = (proposal.ids >= 0) & (proposal.ids < len(target_V))
        np.subtract.at(left_V, proposal.ids[known], proposal.probabilities[known])
        np.maximum(left_V, 0.0, out=left_V)
        # p equals q up to rounding, so the rejection was a rounding error too.
        if (mass := left_V.sum()) > 0:
            target_V = left_V / mass
    return None, target_V


def _draw(target_V: Float64s, seed: int, position: int) -> int:
    ids = np.flatnonzero(target_V)
    return int(ids[int(np.argmax(np.log(target_V[ids]) + gumbel(seed, position, ids)))])


def accept(
    tree: DraftTree, logits_RV: Floats, sampler: Sampler, allowed: Mapping[int, Int64s], cached: int, room: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The accepted draft nodes, root first, and the tokens emitted: theirs and the model's own next one.

    Args:
        tree: the rows; those before the last pending one are ignored.
        logits_RV: logits of the tree's last R rows, the last pending one among them.
        sampler: how a token is chosen.
        allowed: node → the only ids that may follow it.
        cached: tokens in the KV cache before the tree, which give a node its position.
        room: how many drafts may be accepted at most.
    """
    if sampler.rule == "rejection" and sampler.temperature > 0:
        return accept_by_rejection(tree, logits_RV, sampler, allowed, cached, room)
    children = tree.children()
    first = len(tree) - len(logits_RV)
    node = tree.pending - 1
    position = cached + tree.pending
    path: list[int] = []
    emitted: list[int] = []
    while True:
        token = choose(logits_RV[node - first], sampler, position + len(path), allowed.get(node))
        emitted.append(token)
        child = children.get(node, {}).get(token)
        if child is None or len(path) == room:
            return tuple(path), tuple(emitted)
        node = child
        path.append(child)
