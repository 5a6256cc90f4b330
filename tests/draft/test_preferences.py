"""The preference cache: its rows are an LRU by when they were learnt."""

from collections import OrderedDict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftTree, Verified
from fastcoder_lsp.draft.auto.preferences import PreferenceCache, RowTable, find, key_of, new_table
from fastcoder_lsp.draft.matching import TokenChain
from fastcoder_lsp.kernels import kernel

MOST = 4


@kernel
def place_of(rows: RowTable, before: int, token: int) -> int:
    return int(find(rows, key_of(before, token)))


def held(rows: RowTable, before: int, token: int) -> int | None:
    """The best token of a row; None if there is none."""
    place = place_of(rows, before, token)
    return None if place < 0 else int(rows.ids_MR[place, 0])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99)), max_size=60))
def test_the_rows_learnt_longest_ago_give_way(learnt: list[tuple[int, int, int]]) -> None:
    cache = PreferenceCache(TokenChain(8), new_table(MOST), new_table(MOST))
    singles, pairs = OrderedDict[int, int](), OrderedDict[tuple[int, int], int]()
    for before, token, best in learnt:
        rows = np.array([[best, 0]]), np.array([[1.0, 0.0]], np.float32)
        cache.learn(DraftTree.chain([token]), before, Verified((), (best,), *rows))
        for known, key in ((singles, token), (pairs, (before, token))):
            known[key] = best  # type: ignore[index]
            known.move_to_end(key)  # type: ignore[arg-type]
            if len(known) > MOST:
                known.popitem(last=False)
    for token in range(10):
        assert held(cache.recycled, -1, token) == singles.get(token)
        for before in range(10):
            assert held(cache.pairs, before, token) == pairs.get((before, token))
