"""What the model would have said after a token, or after two: its own best next tokens, remembered by what came before.

Token Recycling's matrix (Luo et al. 2024, section 3.1) as arrays that compiled code reads, with two additions: rows are
kept by the last *two* tokens, too, and each candidate with how sure the model was of it.

Owns the tables and their bound; the loops that read them are in `auto_growth`.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import Verified
from fastcoder_lsp.index.memory import borrowed

RANKS = 8
"""Candidates that are kept of a row."""
SURENESS = 10
"""Kinds of sureness of a candidate, 0 the surest."""
_EDGES = (0.97, 0.9, 0.75, 0.5, 0.3, 0.15, 0.07, 0.03, 0.01)


class Rows(NamedTuple):
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
        self.rows = Rows(
            np.full(slots, -1, np.int64),
            np.full((slots, RANKS), -1, np.int32),
            np.zeros((slots, RANKS), np.int8),
            np.zeros(1, np.int64),
        )

    def learn(
        self, tokens_N: npt.NDArray[np.int64], parents_N: npt.NDArray[np.int64], before: int | None, verified: Verified
    ) -> None:
        """Put the rows of a verified tree in, each in the place of an older one with its key.

        Of several with one key the last counts; the accepted ones come last, for they stand in the true text.

        Args:
            tokens_N: the tree's.
            parents_N: the tree's.
            before: the token before the tree (-1: none), for rows by two tokens; None: rows by one token.
            verified: with the best ids and logits of every row.
        """
        path = np.array(verified.path, np.int64)
        paired = before is not None
        _learn(
            self.rows,
            tokens_N,
            parents_N,
            -1 if before is None else before,
            paired,
            path,
            verified.top_ids_NK,
            verified.top_logits_NK,
        )


@numba.njit(forceinline=True)
def key_of(before: Any, token: Any) -> Any:
    """The key of two tokens, or of one where `before` is -1."""
    return ((np.int64(before) + 1) << 32) | np.int64(token)


@numba.njit(forceinline=True)
def find(keys_M: Any, key: Any) -> Any:
    """The slot of `key`, or the empty one where it would be."""
    mask = len(keys_M) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(mixed >> np.uint64(40)) & mask
    while keys_M[slot] != -1 and keys_M[slot] != key:
        slot = (slot + 1) & mask
    return slot


@numba.njit(cache=True, nogil=True)
def _learn(
    rows: Any, tokens_N: Any, parents_N: Any, before: Any, paired: Any, path: Any, ids_NK: Any, logits_NK: Any
) -> None:
    lent = borrowed((rows, tokens_N, parents_N, path, ids_NK, logits_NK))
    rows, tokens_N, parents_N, path, ids_NK, logits_NK = lent
    for place in range(len(tokens_N) + len(path)):
        node = place if place < len(tokens_N) else path[place - len(tokens_N)]
        above = np.int64(-1)
        if paired:
            above = np.int64(before) if parents_N[node] < 0 else tokens_N[parents_N[node]]
        if ids_NK[node, 0] >= 0 and tokens_N[node] >= 0 and above >= -1:
            _put(rows, key_of(above, tokens_N[node]), ids_NK[node], logits_NK[node])


@numba.njit(forceinline=True)
def _put(rows: Any, key: Any, ids_K: Any, logits_K: Any) -> None:
    slot = find(rows.keys_M, key)
    if rows.keys_M[slot] == -1:
        if 4 * rows.filled[0] >= 3 * len(rows.keys_M):
            rows.keys_M[:] = -1
            rows.filled[0] = 0
            slot = find(rows.keys_M, key)
        rows.keys_M[slot] = key
        rows.filled[0] += 1
    total = 0.0
    for k in range(len(ids_K)):
        total += np.exp(logits_K[k] - logits_K[0])
    for k in range(rows.ids_MR.shape[1]):
        rows.ids_MR[slot, k] = ids_K[k] if k < len(ids_K) else -1
        if k < len(ids_K):
            rows.sure_MR[slot, k] = _sureness(np.exp(logits_K[k] - logits_K[0]) / total)


@numba.njit(forceinline=True)
def _sureness(share: Any) -> Any:
    for kind in range(SURENESS - 1):
        if share >= _EDGES[kind]:
            return kind
    return SURENESS - 1
