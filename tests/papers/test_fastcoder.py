"""Algorithm 1 of the FastCoder paper, line by line."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fastcoder_lsp.core import DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.papers.fastcoder import FastcoderDrafter, FastcoderParameters, Reading, SequenceCache, at_skip_token
from tests.draft.small_store import pinned

PAPER = FastcoderParameters()
REPOSITORY = [[1, 2, 3, 4, 5], [1, 2, 9]]
CORPUS = [[2, 3, 7, 7], [2, 3, 7, 8]]


def word(token: int) -> bytes:
    return b"w"


def drafter(
    parameters: FastcoderParameters = PAPER,
    stores: Pinned | None = None,
    piece: Callable[[int], bytes] = word,
    prompt: tuple[int, ...] = (0, 1, 2),
) -> tuple[FastcoderDrafter, DraftContext]:
    made = FastcoderDrafter(lambda _: stores or pinned(REPOSITORY, CORPUS), piece, parameters)
    context = DraftContext(prompt, len(prompt), "d")
    made.begin(context)
    return made, context


def accept(made: FastcoderDrafter, path: int, *emitted: int) -> None:
    made.observe(DraftTree.chain([0]), Verified(tuple(range(1, path + 1)), emitted))


def test_both_stores_are_searched_each_for_its_longest_match() -> None:
    """Line 5: D_r knows 1 2, D_c only 2; all continuations make one trie."""
    made, context = drafter()
    draft = made.propose(context, 64)
    assert set(zip(draft.tokens, draft.sources, strict=True)) >= {(9, "repository"), (3, "repository")}
    assert dict(zip(draft.sources, draft.matches, strict=True)) == {"repository": 2, "corpus": 1}


def test_a_node_weighs_as_often_as_its_sources_saw_it() -> None:
    """α·t_r + β·t_c: 3 was seen once in D_r and twice in D_c, 9 once in D_r."""
    made, context = drafter()
    assert made.propose(context, 1).tokens == (3,)
    made, context = drafter(replace(PAPER, corpus_weight=0.0))
    assert set(made.propose(context, 2).tokens) == {3, 9} or made.propose(context, 2).parents == (-1, 0)
    stores = pinned([[1, 2, 9]], CORPUS)
    made, context = drafter(replace(PAPER, repository_weight=2.5), stores)
    assert made.propose(context, 1).tokens == (9,)


def test_no_more_than_64_tokens_are_drafted() -> None:
    files = [[1, 2, *range(100 + 10 * i, 110 + 10 * i)] for i in range(20)]
    made, context = drafter(stores=pinned(files))
    assert len(made.propose(context, 200).tokens) == 64
    assert len(made.propose(context, 7).tokens) == 7


def test_a_search_in_vain_is_remembered_by_its_suffix() -> None:
    """Lines 3 and 6: the same last token, in whatever context, is not searched again."""
    made, _ = drafter(prompt=(0, 1, 99))
    made.propose(DraftContext((0, 1, 99), 3, "d"), 64)
    made.propose(DraftContext((0, 1, 99, 5, 99), 3, "d"), 64)
    assert (made.retrievals.empty, made.retrievals.missing) == (1, 1)


def test_the_missing_table_is_dropped_where_the_store_changed() -> None:
    stores = [pinned(REPOSITORY, generation=1), pinned([[99, 4, 4]], generation=2)]
    made = FastcoderDrafter(lambda _: stores[0], word, PAPER)
    context = DraftContext((0, 99), 2, "d")
    made.begin(context)
    assert made.propose(context, 8).tokens == ()
    made.begin(context)
    made.propose(context, 8)
    assert made.retrievals.missing == 1
    del stores[0]
    made.begin(context)
    assert made.propose(context, 8).tokens == (4, 4)


def test_the_cache_is_asked_once_it_holds_l_sequences() -> None:
    """Line 1: before, the stores are searched; after, what the cache knows needs no store."""
    made, context = drafter(replace(PAPER, cache_minimum=2))
    accept(made, 2, 50, 51, 52)
    made.propose(DraftContext((*context.tokens, 50, 51, 52, 1, 2), 3, "d"), 64)
    assert (made.retrievals.cached, made.retrievals.found) == (0, 1)
    accept(made, 2, 60, 61, 62)
    draft = made.propose(DraftContext((*context.tokens, 50, 51, 52, 1, 2, 60, 61, 62, 2, 60), 3, "d"), 64)
    assert made.retrievals.cached == 1
    assert draft.tokens[:1] == (61,)
    assert set(draft.sources) == {"cache"}


def test_a_cache_entry_is_context_and_accepted_draft() -> None:
    """Line 8: the accepted tokens with what stood before them; the model's own next token is not among them."""
    made, context = drafter(replace(PAPER, cache_minimum=1, repository=False, corpus=False))
    accept(made, 2, 50, 51, 52)
    after = (*context.tokens, 50, 51, 52)
    assert made.propose(DraftContext((*after, 0, 1, 2), 3, "d"), 64).tokens == (50, 51)
    made.begin(DraftContext((51,), 1, "d"))
    assert made.propose(DraftContext((51,), 1, "d"), 64).tokens == ()


def test_the_output_enters_the_cache_in_pieces_of_twenty() -> None:
    """Line 8: nothing before the 20th token, then all twenty, drafted or not."""
    made, context = drafter(replace(PAPER, cache_minimum=1, repository=False, corpus=False))
    said = list(range(100, 125))
    for token in said[:19]:
        accept(made, 0, token)
    text = (*context.tokens, *said[:19])
    assert made.propose(DraftContext(text, 3, "d"), 64).tokens == ()
    for token in said[19:]:
        accept(made, 0, token)
    text = (*context.tokens, *said, 100)
    assert made.propose(DraftContext(text, 3, "d"), 64).tokens == tuple(said[1:11])


@pytest.mark.parametrize(("probability", "found"), [(1.0, True), (0.0, False)])
def test_at_a_skip_token_the_search_goes_on_with_probability_p(probability: float, found: bool) -> None:
    """Line 4; a skipped context is not remembered as missing."""
    pieces = {0: b"x\n", 1: b"    ", 2: b"def"}
    made, context = drafter(replace(PAPER, skip_probability=probability), piece=lambda token: pieces.get(token, b"w"))
    assert bool(made.propose(context, 8).tokens) == found
    assert made.retrievals.skipped == (not found)
    made.propose(DraftContext((*context.tokens, 3, 2), 3, "d"), 8)
    assert made.retrievals.missing == 0


@pytest.mark.parametrize(
    ("pieces", "ends", "comes"),
    [
        ([b"x", b"\n"], False, True),
        ([b"x\n", b"    "], False, True),
        ([b"x\n", b"    ", b"return"], True, False),
        ([b"x\n", b"return"], True, False),
        ([b"\n    return"], True, False),
        ([b"\n    "], False, True),
        ([b"    ", b"return", b" x"], False, False),
        ([b"return", b" "], False, False),
        ([b"def"], True, False),
        ([b"x"], True, False),
        ([b"x", b"y"], False, False),
    ],
)
def test_both_readings_of_the_skip_token(pieces: list[bytes], ends: bool, comes: bool) -> None:
    expected: dict[Reading, bool] = {"ends": ends, "next": comes}
    for reading, wanted in expected.items():
        assert at_skip_token(range(len(pieces)), pieces.__getitem__, reading) == wanted


def test_the_departures_merge_all_sources() -> None:
    """`merge`: the running text, the CACHE and both stores in one tree; the longer match weighs more."""
    parameters = replace(PAPER, merge=True, growth=2.0, cache_minimum=1)
    made, _ = drafter(parameters, prompt=(4, 1, 2, 6, 4, 1, 2))
    draft = made.propose(DraftContext((4, 1, 2, 6, 4, 1, 2), 7, "d"), 64)
    assert {"prompt", "repository", "corpus"} <= set(draft.sources)
    assert (draft.tokens[0], draft.sources[0], draft.matches[0]) == (6, "prompt", 3)


def test_the_cache_is_bounded() -> None:
    cache = SequenceCache(capacity=64)
    for start in range(0, 1000, 10):
        cache.add(range(start, start + 10))
    import numpy as np

    assert len(cache) <= 64 // 11
    length, rows = cache.search(np.array([990, 991], np.int32), 16, 1, 4, 3)
    assert (length, rows.tolist()) == (2, [[992, 993, 994]])
    assert cache.search(np.array([5], np.int32), 16, 1, 4, 3)[0] == 0
