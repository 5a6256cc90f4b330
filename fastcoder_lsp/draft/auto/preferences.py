"""The preference cache: what one document taught `auto`. Its outputs, and the model's own best next tokens.

A row is the model's best next tokens after one token or two, with its sureness of each: Token Recycling's matrix (Luo
et al. 2024, section 3.1), also by the last *two* tokens. A table of rows is an LRU: a full one gives up the row that
was learnt longest ago; a row is learnt again whenever a step runs its token. `documents.PerDocument` keeps the caches
of the last documents, `runtime.parts.Runtime` those of closed ones for as long as their KV caches.

Legend: M rows of a table, R ranks, N nodes, K candidates of a row.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fastcoder_lsp.core import DraftTree, Verified
from fastcoder_lsp.core.arrays import Int8s, Int32s, Int64s
from fastcoder_lsp.draft.auto.evidence import RANKS, SURENESS, SURENESS_EDGES
from fastcoder_lsp.draft.matching import TokenChain
from fastcoder_lsp.kernels import inlined, kernel
from fastcoder_lsp.kernels.decorators import FixedTypes

ROWS = 6144  # of a table
_NO_TOKEN = np.int64(-1)  # no token, in the type of keys: numba infers types from constants (`kernels.NONE`)
_NOWHERE = np.int32(-1)
_FILLED, _NEWEST, _OLDEST = range(3)


class RowTable(NamedTuple):
    """At most M rows by key, in the order in which they were learnt.

    `first_B`: for each hash the first of its rows; `following_M`: the next one of the same hash. `newer_M`, `older_M`:
    the neighbours in the order. `ends`: the number of rows, the newest and the oldest. -1: none.
    """

    keys_M: Int64s
    ids_MR: Int32s
    sure_MR: Int8s
    first_B: Int32s
    following_M: Int32s
    newer_M: Int32s
    older_M: Int32s
    ends: Int32s


def new_table(rows: int = ROWS) -> RowTable:
    """An empty table of at most `rows` rows."""
    following_M, newer_M, older_M = (np.full(rows, -1, np.int32) for _ in range(3))
    return RowTable(
        np.full(rows, -1, np.int64),
        np.full((rows, RANKS), -1, np.int32),
        np.zeros((rows, RANKS), np.int8),
        np.full(1 << rows.bit_length(), -1, np.int32),
        following_M,
        newer_M,
        older_M,
        np.array([0, -1, -1], np.int32),
    )


@dataclass(slots=True)
class PreferenceCache:
    """Outputs in a document, and the model's best next tokens there, by the last token and by the last two."""

    past: TokenChain
    recycled: RowTable = field(default_factory=new_table)
    pairs: RowTable = field(default_factory=new_table)

    def learn(self, tree: DraftTree, before: int, verified: Verified) -> None:
        """Put the rows of a verified tree into both tables; `before` is the token before the tree (-1: none).

        Of several rows with one key the last counts; the accepted ones come last, because they belong to the text.
        """
        _learn(
            self.recycled,
            self.pairs,
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
def find(rows: Any, key: Any) -> Any:
    """The place of the row of `key`; -1 for none."""
    place = rows.first_B[_hash(rows, key)]
    while place >= 0 and rows.keys_M[place] != key:
        place = rows.following_M[place]
    return place


@inlined
def _hash(rows: Any, key: Any) -> Any:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(40)) & (len(rows.first_B) - 1)


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
    """`PreferenceCache.learn`, compiled; `sure_R` is scratch."""
    for place in range(len(tokens_N) + len(path)):
        node = place if place < len(tokens_N) else path[place - len(tokens_N)]
        if ids_NK[node, 0] < 0 or tokens_N[node] < 0:
            continue
        _rate(logits_NK[node], sure_R)
        _put(by_token, key_of(_NO_TOKEN, tokens_N[node]), ids_NK[node], sure_R)
        above = np.int64(before) if parents_N[node] < 0 else tokens_N[parents_N[node]]
        if above >= -1:
            _put(by_pair, key_of(above, tokens_N[node]), ids_NK[node], sure_R)


@inlined
def _rate(logits_K: Any, sure_R: Any) -> None:
    total = 0.0
    for k in range(len(logits_K)):
        total += np.exp(logits_K[k] - logits_K[0])
    for k in range(min(len(sure_R), len(logits_K))):
        sure_R[k] = _sureness(np.exp(logits_K[k] - logits_K[0]) / total)


@inlined
def _put(rows: Any, key: Any, ids_K: Any, sure_R: Any) -> None:
    place = find(rows, key)
    if place < 0:
        if rows.ends[_FILLED] < len(rows.keys_M):
            place = rows.ends[_FILLED]
            rows.ends[_FILLED] += 1
        else:
            place = rows.ends[_OLDEST]
            _leave(rows, place)
            _unchain(rows, place)
        bucket = _hash(rows, key)
        rows.keys_M[place], rows.following_M[place] = key, rows.first_B[bucket]
        rows.first_B[bucket] = place
        _lead(rows, place)
    elif place != rows.ends[_NEWEST]:
        _leave(rows, place)
        _lead(rows, place)
    for k in range(rows.ids_MR.shape[1]):
        rows.ids_MR[place, k] = ids_K[k] if k < len(ids_K) else -1
        rows.sure_MR[place, k] = sure_R[k]


@inlined
def _leave(rows: Any, place: Any) -> None:
    """Take a row out of the order."""
    newer, older = rows.newer_M[place], rows.older_M[place]
    if newer >= 0:
        rows.older_M[newer] = older
    else:
        rows.ends[_NEWEST] = older
    if older >= 0:
        rows.newer_M[older] = newer
    else:
        rows.ends[_OLDEST] = newer


@inlined
def _lead(rows: Any, place: Any) -> None:
    """Put a row that is in no order before all others."""
    newest = rows.ends[_NEWEST]
    rows.newer_M[place], rows.older_M[place] = _NOWHERE, newest
    if newest >= 0:
        rows.newer_M[newest] = place
    else:
        rows.ends[_OLDEST] = place
    rows.ends[_NEWEST] = place


@inlined
def _unchain(rows: Any, place: Any) -> None:
    """Take a row out of the list of its hash."""
    bucket = _hash(rows, rows.keys_M[place])
    at = rows.first_B[bucket]
    if at == place:
        rows.first_B[bucket] = rows.following_M[place]
        return
    while rows.following_M[at] != place:
        at = rows.following_M[at]
    rows.following_M[at] = rows.following_M[place]


@inlined
def _sureness(share: Any) -> Any:
    for kind in range(SURENESS - 1):
        if share >= SURENESS_EDGES[kind]:
            return kind
    return SURENESS - 1
