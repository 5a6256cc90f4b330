"""SAM-Decoding's own rule: whose match is drafted from, from which place, and when neither is."""

import random
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.draft.suffix import SamDrafter, SamParameters
from tests.draft.small_store import pinned

EARLY, LATE = [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 9, 9, 9]
CORPUS = [30, 31, 1, 2, 3, 4, 5, 60, 61]


def drafted(prompt: list[int], corpus: list[int], parameters: SamParameters) -> tuple[list[int], set[str]]:
    stores = replace(Pinned(), corpus=pinned([], [corpus]).corpus)
    drafter = SamDrafter(lambda _: stores, parameters)
    context = DraftContext(prompt, len(prompt), "d")
    drafter.begin(context)
    draft = drafter.propose(context, 16)
    return list(draft.tokens), set(draft.sources)


def test_of_equal_places_the_first_is_drafted() -> None:
    """The state's least end position: what followed where the match ended first."""
    tokens, sources = drafted([*EARLY, *LATE, 1, 2, 3, 4, 5], [], SamParameters(length=3))
    assert (tokens, sources) == ([6, 7, 8], {"prompt"})


def test_the_static_match_must_be_longer_by_the_bias() -> None:
    """With five tokens in the running text, and seven in the corpus: two more do for a bias of one, not for two."""
    prompt = [*EARLY, 50, 30, 31, 1, 2, 3, 4, 5]
    assert drafted(prompt, CORPUS, SamParameters(length=2, bias=1)) == ([60, 61], {"corpus"})
    assert drafted(prompt, CORPUS, SamParameters(length=2, bias=2)) == ([6, 7], {"prompt"})


def test_of_equal_places_in_the_corpus_the_first_is_drafted() -> None:
    """In the order of the text, whatever stands before the match."""
    prompt = [50, 1, 2, 3, 4, 5]
    for early, late in ((90, 80), (80, 90)):
        corpus = [early, 1, 2, 3, 4, 5, 60, 61, late, 1, 2, 3, 4, 5, 70, 71]
        assert drafted(prompt, corpus, SamParameters(length=2, bias=0)) == ([60, 61], {"corpus"})


def test_where_neither_match_is_long_the_auxiliary_drafter_speaks() -> None:
    """Token Recycling, which knows the model's best ids of the step before."""
    stores = Pinned()
    drafter = SamDrafter(lambda _: stores, SamParameters(threshold=3))
    context = DraftContext([1, 2, 3, 4], 4, "d")
    drafter.begin(context)
    assert drafter.propose(context, 8).tokens == ()
    best = np.array([[21, 22, 23, 24, 25, 26, 27, 28]])
    drafter.observe(DraftTree.chain((4,)), Verified((), (4,), best, best.astype(np.float32)))
    draft = drafter.propose(DraftContext([1, 2, 3, 4, 4], 4, "d"), 3)
    assert set(draft.tokens) == {21, 22, 23}
    assert set(draft.sources) == {"recycling"}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_the_earlier_place_is_the_longest_end_of_the_text_where_it_first_stood(text: list[int]) -> None:
    """Against looking at all places."""
    automaton = SuffixAutomaton(64)
    for token in text:
        automaton.extend(np.array([token], np.int32))
    length, end = automaton.earlier()
    expected = (0, 0)
    for size in range(len(text) - 1, 0, -1):
        ends = [e for e in range(size, len(text)) if text[e - size : e] == text[-size:]]
        if ends:
            expected = (size, ends[0])
            break
    assert (length, end) == expected


def test_the_suffix_array_finds_what_a_static_automaton_would() -> None:
    """The longest match of a text's end in the corpus, over many texts."""
    chance = random.Random(3)
    corpus = [chance.randrange(4) for _ in range(60)]
    searcher = pinned([], [corpus]).corpus
    assert searcher is not None
    for _ in range(200):
        text = [chance.randrange(4) for _ in range(12)]
        automaton = SuffixAutomaton(64)
        automaton.extend(np.array(corpus, np.int32))
        automaton.follow(np.array(text, np.int32))
        # A match that ends with the corpus has nothing to go on with, so the suffix array leaves it out.
        at_end = next((n for n in range(12, 0, -1) if corpus[-n:] == text[-n:]), 0)
        longest, _ = searcher.longest(text, 12)
        assert longest == automaton.matched or (automaton.matched <= at_end and longest < automaton.matched)
