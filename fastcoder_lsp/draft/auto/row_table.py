"""What the model would have said after a token, or after two: its own best next tokens, remembered by what came before.

Token Recycling's matrix (Luo et al. 2024, section 3.1) as arrays that compiled code reads, with two additions: rows are
kept by the last *two* tokens, too, and each candidate with how sure the model was of it.

Owns the tables and their bound; the loops that read them are in `auto_growth`.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftTree, Verified
from fastcoder_lsp.index.entry import FixedTypes
from fastcoder_lsp.kernels import inlined, kernel

RANKS = 8
"""Candidates that are kept of a row."""
_NOBODY = np.int64(-1)
"""As tokens are; see `kernels.NONE`."""
SURENESS = 10
"""Kinds of sureness of a candidate, 0 the surest."""
_EDGES = (0.97, 0.9, 0.75, 0.5, 0.3, 0.15, 0.07, 0.03, 0.01)


class RowArrays(NamedTuple):
    """The arrays of a `RowTable`, as compiled code takes them; a negative key is an empty slot."""

    keys_M: npt.NDArray[np.int64]
    ids_MR: npt.NDArray[np.int32]
    sure_MR: npt.NDArray[np.int8]
    filled: npt.NDArray[np.int64]


class RowTable:
    """Rows by key; a full table starts anew.

    Args:
        slots: a power of two; three quarters of them are filled at most.
    """

    def __init__(self, slots: int = 8192) -> None:
        self.rows = RowArrays(
            np.full(slots, -1, np.int64),
            np.full((slots, RANKS), -1, np.int32),
            np.zeros((slots, RANKS), np.int8),
            np.zeros(1, np.int64),
        )


def learn(by_token: RowTable, by_pair: RowTable, tree: DraftTree, before: int, verified: Verified) -> None:
    """Put the rows of a verified tree into both tables, each in the place of an older one with its key.

    Of several with one key the last counts; the accepted ones come last, for they stand in the true text.

    Args:
        by_token: rows by one token.
        by_pair: rows by two.
        tree: what was verified.
        before: the token before the tree (-1: none).
        verified: with the best ids and logits of every row.
    """
    _learn(
        by_token.rows,
        by_pair.rows,
        np.array(tree.tokens, np.int64),
        np.array(tree.parents, np.int64),
        before,
        np.array(verified.path, np.int64),
        np.ascontiguousarray(verified.top_ids_NK, np.int64),
        np.ascontiguousarray(verified.top_logits_NK, np.float32),
        np.empty(RANKS, np.int8),
    )


@inlined
def key_of(before: Any, token: Any) -> Any:
    """The key of two tokens, or of one where `before` is -1."""
    return ((np.int64(before) + 1) << 32) | np.int64(token)


@inlined
def find(keys_M: Any, key: Any) -> Any:
    """The slot of `key`, or the empty one where it would be."""
    mask = len(keys_M) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(mixed >> np.uint64(40)) & mask
    while keys_M[slot] != -1 and keys_M[slot] != key:
        slot = (slot + 1) & mask
    return slot


@FixedTypes
@kernel
def _learn(
    by_token: Any,
    by_pair: Any,
    tokens_N: Any,
    parents_N: Any,
    before: Any,
    path: Any,
    ids_NK: Any,
    logits_NK: Any,
    sure_R: Any,
) -> None:
    """What `learn` does, compiled; `sure_R` is scratch."""
    for place in range(len(tokens_N) + len(path)):
        node = place if place < len(tokens_N) else path[place - len(tokens_N)]
        if ids_NK[node, 0] < 0 or tokens_N[node] < 0:
            continue
        _rate(logits_NK[node], sure_R)
        _put(by_token, key_of(_NOBODY, tokens_N[node]), ids_NK[node], sure_R)
        above = np.int64(before) if parents_N[node] < 0 else tokens_N[parents_N[node]]
        if above >= -1:
            _put(by_pair, key_of(above, tokens_N[node]), ids_NK[node], sure_R)


@inlined
def _rate(logits_K: Any, sure_R: Any) -> None:
    """How sure the model was of its best candidates."""
    total = 0.0
    for k in range(len(logits_K)):
        total += np.exp(logits_K[k] - logits_K[0])
    for k in range(min(len(sure_R), len(logits_K))):
        sure_R[k] = _sureness(np.exp(logits_K[k] - logits_K[0]) / total)


@inlined
def _put(rows: Any, key: Any, ids_K: Any, sure_R: Any) -> None:
    slot = find(rows.keys_M, key)
    if rows.keys_M[slot] == -1:
        if 4 * rows.filled[0] >= 3 * len(rows.keys_M):
            rows.keys_M[:] = -1
            rows.filled[0] = 0
            slot = find(rows.keys_M, key)
        rows.keys_M[slot] = key
        rows.filled[0] += 1
    for k in range(rows.ids_MR.shape[1]):
        rows.ids_MR[slot, k] = ids_K[k] if k < len(ids_K) else -1
        rows.sure_MR[slot, k] = sure_R[k]


@inlined
def _sureness(share: Any) -> Any:
    for kind in range(SURENESS - 1):
        if share >= _EDGES[kind]:
            return kind
    return SURENESS - 1
