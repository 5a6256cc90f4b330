"""Decides which drafts of a tree the model accepts: a walk from the root that draws once for each node it reaches.

There are two rules. By default each row's token is the one that plain decoding would emit. Rejection sampling gives the
text the distribution of plain sampling, whatever the drafts.

Rejection is Leviathan et al. 2023, section 2.3, and Chen et al. 2023, Algorithm 2: a token x drawn from q is accepted
with the probability min(1, p(x) / q(x)); otherwise p becomes its excess over q, scaled up to 1. Miao et al. 2024
(SpecInfer, section 4.3): siblings are tried one after the other, each against the residual p of the previous ones. A
draft that was not drawn follows from the text alone: it is tried as a draw from a point distribution. Tokens without a
draft are drawn with the noise of plain sampling.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftTree, Proposal, Sampler
from fastcoder_lsp.core.noise import gumbel, uniform
from fastcoder_lsp.engine.sampling import choose, distribution

Attempts = Mapping[int, list[tuple[int, Proposal]]]
"""node → its children in the order of trial, each with the distribution it was drawn from."""


def accept_by_rejection(
    tree: DraftTree,
    logits_RV: npt.NDArray[np.float32],
    sampler: Sampler,
    allowed: Mapping[int, npt.NDArray[np.int64]],
    cached: int,
    room: int,
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
    tree: DraftTree, tried: list[tuple[int, Proposal]], target_V: npt.NDArray[np.float64], seed: int, position: int
) -> tuple[int | None, npt.NDArray[np.float64]]:
    """The accepted child, or None and the residual distribution."""
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


def _draw(target_V: npt.NDArray[np.float64], seed: int, position: int) -> int:
    """One token from the distribution: the same that `sampling.choose` draws if nothing was rejected."""
    ids = np.flatnonzero(target_V)
    return int(ids[int(np.argmax(np.log(target_V[ids]) + gumbel(seed, position, ids)))])


def accept(
    tree: DraftTree,
    logits_RV: npt.NDArray[np.float32],
    sampler: Sampler,
    allowed: Mapping[int, npt.NDArray[np.int64]],
    cached: int,
    room: int,
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
