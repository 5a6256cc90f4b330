"""Cacheback against its paper: LRU order, the window, the tree's growth, the frozen tables."""

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftContext
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape, build, table_of
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.papers.cacheback import CachebackDrafter, CachebackParameters, LruTable
from tests.draft.small_store import snapshot

SMALL = CachebackParameters(follower_length=2, total_draft_length=13, continuation_reserve=6)


def test_followers_come_most_recently_inserted_first() -> None:
    table = LruTable[tuple[int, ...]](leaders=2, followers=2)
    for follower in ((1,), (2,), (1,), (3,)):
        table.insert((9,), follower)
    assert list(table.query((9,))) == [(3,), (1,)]
    table.insert((8,), (0,))
    list(table.query((9,)))
    table.insert((7,), (0,))
    assert list(table.query((8,))) == []
    assert list(table.query((9,))) == [(3,), (1,)]


def test_the_tree_grows_level_by_level() -> None:
    drafter = CachebackDrafter(SMALL)
    tokens = [1, 2, 3, 4, 1, 5, 6, 7, 1]
    context = DraftContext(tokens, len(tokens))
    drafter.begin(context)
    draft = drafter.propose(context, 12)
    assert draft.tokens[:4] == (5, 6, 2, 3)
    assert draft.parents[:4] == (-1, 0, -1, 2)
    # the ends 6 and 3 are asked next, in that order, then what they led to
    assert (draft.tokens[4:8], draft.parents[4:8]) == ((7, 1, 4, 1), (1, 4, 3, 6))


def test_accepted_tokens_enter_the_table() -> None:
    drafter = CachebackDrafter(SMALL)
    drafter.begin(DraftContext([1, 2, 3], 3))
    drafter.propose(DraftContext([1, 2, 3], 3), 12)
    draft = drafter.propose(DraftContext([1, 2, 3, 9, 8, 7, 3], 3), 12)
    assert (draft.tokens[:2], draft.parents[:2]) == ((9, 8), (-1, 0))


def test_a_narrow_verification_keeps_its_share_of_the_reserve() -> None:
    tokens = [t for leader in range(5) for t in (9, leader, leader + 10, leader + 20)] + [9]
    drafter = CachebackDrafter(CachebackParameters())
    context = DraftContext(tokens, len(tokens))
    drafter.begin(context)
    for nodes in (1, 2, 5, 12):
        draft = drafter.propose(context, nodes)
        assert 0 < len(draft.tokens) <= nodes
        assert draft.tokens[0] == 4


def test_a_document_keeps_its_table_and_can_move_or_close() -> None:
    drafter = CachebackDrafter(SMALL)
    seen = DraftContext([1, 2, 3, 4], 4, "a")
    fresh = DraftContext([5, 1], 2, "b")
    drafter.begin(seen)
    drafter.rename("a", "b")
    drafter.begin(fresh)
    assert drafter.propose(fresh, 5).tokens[:2] == (2, 3)
    drafter.forget("b")
    drafter.begin(fresh)
    assert drafter.propose(fresh, 5).tokens == ()


CORPUS = st.lists(st.integers(-1, 3), max_size=80)


@settings(deadline=None)
@given(CORPUS, st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_the_frozen_table_holds_the_commonest(
    corpus: list[int], leader_length: int, follower_length: int, leaders: int, followers: int
) -> None:
    shape = TableShape(leader_length, follower_length, leaders, followers)
    table = build(np.array(corpus, np.int32), shape)
    width = leader_length + follower_length
    counts: defaultdict[tuple[int, ...], Counter[tuple[int, ...]]] = defaultdict(Counter)
    for start in range(len(corpus) - width + 1):
        gram = tuple(corpus[start : start + width])
        if -1 not in gram:
            counts[gram[:leader_length]][gram[leader_length:]] += 1
    totals = sorted((sum(found.values()) for found in counts.values()), reverse=True)
    kept = {leader: list(table.query(leader)) for leader in counts if list(table.query(leader))}
    assert len(kept) == len(table) == min(leaders, len(counts))
    assert sorted((sum(counts[leader].values()) for leader in kept), reverse=True) == totals[: len(kept)]
    for leader, found in kept.items():
        expected = [count for _, count in counts[leader].most_common(followers)]
        assert [counts[leader][follower] for follower in found] == expected


def test_the_frozen_table_survives_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    table = build(np.array([1, 2, 3, 1, 2, 3, 1, 4], np.int32), TableShape(1, 2))
    table.save(path, "tokenizer")
    loaded = FrozenTable.load(path, "tokenizer")
    assert loaded is not None
    assert list(loaded.query((1,))) == list(table.query((1,))) == [(2, 3)]
    assert FrozenTable.load(path, "another") is None
    assert FrozenTable.load(tmp_path / "absent.npz", "tokenizer") is None
    path.write_bytes(path.read_bytes()[:50])
    assert FrozenTable.load(path, "tokenizer") is None


def test_the_dynamic_table_is_asked_before_the_frozen_one() -> None:
    frozen = build(np.array([1, 7, 7, 1, 7, 7, -1], np.int32), TableShape(1, 2))
    drafter = CachebackDrafter(SMALL, lambda _: Pinned(frozen=lambda _: frozen))
    context = DraftContext([1, 2, 3, 1], 4)
    drafter.begin(context)
    draft = drafter.propose(context, 12)
    assert draft.tokens[:4] == (2, 3, 7, 7)
    assert draft.sources[:4] == ("cache", "cache", "corpus", "corpus")
    assert drafter.propose(DraftContext([1, 2, 3, 1, 2**30], 4), 12).tokens == ()


def corpus(*files: list[int]) -> StoreSnapshot:
    return snapshot({f"{number}": tokens for number, tokens in enumerate(files)})


def test_a_table_is_kept_with_its_corpora(tmp_path: Path) -> None:
    shape = TableShape(1, 2)
    one, two = corpus([1, 2, 3, 1, 2, 3]), corpus([1, 2, 3, 1, 2, 3], [1, 5, 5])
    for corpora in ([one], [one], [two], [one, two]):
        table = table_of(corpora, tmp_path, "tokenizer", shape)
        assert table is not None
        assert next(iter(table.query((1,)))) == (2, 3)
    assert len(list((tmp_path / "tables").glob("*.npz"))) == 3
    table_of([one], tmp_path, "another", shape)
    table_of([one], tmp_path, "tokenizer", TableShape(2, 1))
    assert len(list((tmp_path / "tables").glob("*.npz"))) == 5


def test_nothing_is_no_table(tmp_path: Path) -> None:
    assert table_of([], tmp_path, "tokenizer", TableShape()) is None
    table = table_of([corpus([1, 2], [3, 4])], tmp_path, "tokenizer", TableShape(1, 2))
    assert table is not None
    assert len(table) == 0
