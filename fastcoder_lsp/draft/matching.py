"""Compiled inner loops that several drafters share: suffix matches in a flat array, and growing a tree.

Owns no state: arrays in, arrays out. Compiled once and kept on disk by numba. Legend: K continuations of D tokens,
N tokens of text.
"""

from typing import Any

import numpy as np

from fastcoder_lsp.kernels import inner_with_arrays, kernel, kernel_with_arrays

GAP = -1
"""No token: separates texts in a flat array, and fills up continuations that end early."""


@kernel
def match_suffix(text_N: Any, context: Any, n_max: Any, n_min: Any, ends_K: Any) -> Any:
    """The longest suffix of `context`, n_min…n_max tokens, that stands in `text_N` with a token after it.

    Args:
        text_N: the text to search; texts in it are separated by `GAP`.
        context: what the suffix is of.
        n_max: no longer match is looked for.
        n_min: no shorter match counts.
        ends_K: out: where the matches' continuations begin in `text_N`, latest first, as many as fit.

    Returns:
        The match's length (0: none), and how many continuations were written.
    """
    longest, found = 0, 0
    limit = min(n_max, len(context))
    if limit < 1:
        return 0, 0
    last = context[len(context) - 1]
    for end in range(len(text_N) - 2, -1, -1):
        if text_N[end] != last or text_N[end + 1] < 0:
            continue
        length = 1
        while length < limit and end - length >= 0 and text_N[end - length] == context[len(context) - 1 - length]:
            length += 1
        if length > longest:
            longest, found = length, 0
        if length == longest and found < len(ends_K):
            ends_K[found] = end + 1
            found += 1
    if longest < n_min:
        return 0, 0
    return longest, found


@kernel
def continuations(text_N: Any, ends_K: Any, rows_KD: Any) -> None:
    """What follows each place: up to D tokens, `GAP` after a text's end."""
    for k in range(len(ends_K)):
        ended = False
        for d in range(rows_KD.shape[1]):
            place = ends_K[k] + d
            ended = ended or place >= len(text_N) or text_N[place] < 0
            rows_KD[k, d] = GAP if ended else text_N[place]


@kernel_with_arrays
def grow(rows_KD: Any, weights_K: Any, tokens: Any, parents: Any, rows: Any) -> Any:
    """Merge continuations into a tree (same token, same parent: one node) and take its heaviest nodes.

    A node weighs the sum of the weights of the continuations through it, so no child outweighs its parent and the
    heaviest nodes always form a tree. Of equal nodes the one that was seen first is taken.

    Args:
        rows_KD: continuations, ended by `GAP`.
        weights_K: the weight of each; negative never.
        tokens: out: the nodes' tokens, heaviest first; its length is the number of nodes wanted.
        parents: out: their parents, as places in `tokens`, -1 for the root.
        rows: out: the continuation that each node was first seen in.

    Returns:
        How many nodes were written.
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
