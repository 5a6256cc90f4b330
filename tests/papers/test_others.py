"""Lookup, suffix, rest, recycling, jacobi, lookahead, SAM, EAGLE: each method's own rule; and the registry."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import NORMED, Draft, DraftContext, DraftTree, Tokens, Verified
from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import DrafterParts, Linear, Pinned, Trained, exact
from fastcoder_lsp.draft.lookup import LookupDrafter, LookupParameters
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.papers import eagle
from fastcoder_lsp.papers.eagle import EagleLayer
from fastcoder_lsp.papers.jacobi import JacobiDrafter, JacobiParameters, LookaheadDrafter, LookaheadParameters
from fastcoder_lsp.papers.recycling import RecyclingDrafter, RecyclingParameters, template
from fastcoder_lsp.papers.rest import RestDrafter, RestParameters
from fastcoder_lsp.papers.sam import SamDrafter, SamParameters
from tests.draft.small_store import pinned
from tests.draft.test_exactness import request
from tests.draft.toys import RepetitiveEngine
from tests.engine import tiny_models
from tests.fake_engine import FakeEngine
from tests.papers import own_weights


class Same(FakeEngine):
    """Says 9 for ever."""

    def __init__(self) -> None:
        super().__init__(vocabulary=10, context=2000)

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        return 9


def depth_of(tree: DraftTree) -> int:
    """The guesses of its longest path."""
    return max(tree.depths()) - tree.pending + 1


def context(*tokens: int, document: str = "d") -> DraftContext:
    return DraftContext(tokens, len(tokens), document)


def begun(drafter: LookupDrafter | SuffixDrafter | RestDrafter | RecyclingDrafter, *tokens: int) -> Draft:
    drafter.begin(context(*tokens))
    return drafter.propose(context(*tokens), 64)


def test_lookup_copies_the_latest_longest_match() -> None:
    drafter = LookupDrafter(LookupParameters(length=3))
    assert begun(drafter, 1, 2, 7, 5, 2, 8, 6, 2, 9, 1, 2).tokens == (7, 5, 2)
    assert begun(drafter, 2, 7, 5, 2, 8, 6, 2).tokens == (8, 6, 2)
    assert begun(drafter, 1, 2, 3).tokens == ()


def test_lookup_goes_round_a_loop() -> None:
    draft = begun(LookupDrafter(LookupParameters(length=7)), 1, 2, 3, 1, 2, 3)
    assert (draft.tokens, draft.parents) == ((1, 2, 3, 1, 2, 3, 1), (-1, 0, 1, 2, 3, 4, 5))


def test_suffix_weighs_by_frequency_and_remembers_outputs() -> None:
    drafter = SuffixDrafter()
    draft = begun(drafter, 1, 7, 1, 7, 1, 8, 1)
    assert (draft.tokens[0], draft.sources[0]) == (7, "prompt")
    drafter.observe(DraftTree.chain([1]), Verified((), (40,)))
    drafter.observe(DraftTree.chain([40]), Verified((), (41,)))
    again = begun(drafter, 3, 40)
    assert (again.tokens, again.sources) == ((41,), ("cache",))
    drafter.forget("d")
    assert begun(drafter, 3, 40).tokens == ()


def test_suffix_history_is_bounded() -> None:
    drafter = make("suffix:history=32,window=16")
    for start in range(0, 2000, 10):
        tokens = tuple(range(start, start + 10))
        drafter.begin(DraftContext(tokens[:1], 1, "d"))
        drafter.propose(DraftContext(tokens[:1], 1, "d"), 4)
        drafter.observe(DraftTree.chain([0]), Verified((), tokens[1:]))
    drafter.begin(DraftContext((5, 1993), 2, "d"))
    assert drafter.propose(DraftContext((5, 1993), 2, "d"), 4).tokens[:2] == (1994, 1995)


def test_rest_drafts_the_commonest_of_the_corpus() -> None:
    stores = pinned([[1, 2, 5]], [[1, 2, 3], [1, 2, 3], [1, 2, 4]])
    draft = begun(RestDrafter(lambda _: stores, RestParameters(draft_tokens=2)), 0, 1, 2)
    assert (draft.tokens, draft.sources, draft.matches) == ((3, 4), ("corpus",) * 2, (2, 2))


def test_the_static_tree_can_be_cut_anywhere() -> None:
    tree = template(RecyclingParameters())
    assert len(tree.ranks) == 80
    assert set(tree.ranks) == set(range(8))
    assert all(-1 <= parent < node for node, parent in enumerate(tree.parents))
    assert len(set(zip(tree.parents, tree.ranks, strict=True))) == 80
    roots = [node for node, parent in enumerate(tree.parents) if parent < 0]
    assert [tree.ranks[node] for node in roots] == list(range(8))


def test_recycling_drafts_what_rows_said() -> None:
    """Section 3.3: every verified row replaces its token's candidates, rejected rows too; accepted ones count last."""
    drafter = RecyclingDrafter(RecyclingParameters(k=2, shares=(0.6, 0.4), nodes=6))
    assert begun(drafter, 1).tokens == ()
    tree = DraftTree((1, 5, 5, 6), (-1, 0, 1, 0), 1)
    rows = np.array([[5, 6], [7, 8], [0, 0], [1, 2]])
    drafter.observe(tree, Verified((1,), (5, 7), rows, np.zeros((4, 2), np.float32)))
    draft = drafter.propose(context(1), 64)
    assert draft.tokens[:3] == (5, 6, 7)
    assert draft.parents[:3] == (-1, -1, 0)
    assert begun(drafter, 6).tokens[:1] == (1,)


def test_recycling_can_start_from_the_prompt() -> None:
    """`prompt`: what followed a token, latest first, until a verified row says better."""
    drafter = RecyclingDrafter(RecyclingParameters(k=2, shares=(0.6, 0.4), nodes=2, prompt=True))
    assert begun(drafter, 1, 7, 1, 8, 1, 9, 1).tokens[:2] == (9, 8)
    rows = np.array([[5, 6]])
    drafter.observe(DraftTree.chain([1]), Verified((), (5,), rows, np.zeros((1, 2), np.float32)))
    assert begun(drafter, 1, 7, 1).tokens[:1] == (5,)


def test_jacobi_goes_on_from_the_state() -> None:
    drafter = JacobiDrafter(JacobiParameters(length=4))
    drafter.begin(context(8, 9))
    assert set(drafter.propose(context(8, 9), 64).tokens) <= {8, 9}
    tree = DraftTree((9, 8, 9, 8, 9), (-1, 0, 1, 2, 3), 1)
    best = np.array([[8], [3], [4], [5], [6]])
    drafter.observe(tree, Verified((1,), (8, 3), best, np.zeros((5, 1), np.float32)))
    assert drafter.propose(context(8, 9, 8, 3), 64).tokens[:3] == (4, 5, 6)


def test_a_tuned_model_gives_the_block_that_is_guessed() -> None:
    for block, most in ((8, 8), (32, 32), (0, 16)):
        drafter = make("jacobi", DrafterParts(trained=Trained(block=block)))
        drafter.begin(context(8, 9))
        assert len(drafter.propose(context(8, 9), 64).tokens) == most


@pytest.mark.parametrize(("block", "deepest"), [(8, 8), (32, 32)])
def test_auto_guesses_as_much_of_a_tuned_models_state_as_comes_true(block: int, deepest: int) -> None:
    others = "prompt/cache/repository/corpus/outdated/recycling/recycling-pairs/frozen"
    drafter = make(f"auto:width=fixed,without={others}", DrafterParts(trained=Trained(block=block)))
    depths = list[int]()
    asked = replace(request((9, 9), 900, 64), end_ids=frozenset())
    decode(Same(), drafter, asked, lambda: False, on_step=lambda tree, _: depths.append(depth_of(tree)))
    assert max(depths) == deepest


def test_a_tuned_model_gives_the_number_of_adaptive_tokens() -> None:
    for trained, most in ((Trained((5,), longest=3), 3), (Trained((5,), longest=7), 7), (Trained((5,)), 5)):
        drafter = make("sdsat:branch=1,least=0", DrafterParts(trained=trained))
        drafter.begin(context(8, 9))
        assert drafter.propose(context(8, 9), 64).tokens == (5,) * most
        assert make("sdsat:k=2,branch=1", DrafterParts(trained=trained)).propose(context(8, 9), 64).tokens == (5, 5)


def test_lookahead_collects_ngrams_of_its_trajectory() -> None:
    drafter = LookaheadDrafter(LookaheadParameters(window=6, gram=3, guesses=4))
    decode(RepetitiveEngine(), drafter, request((1, 2), 60, 64), lambda: False)
    known = [drafter.pool.peek(token) for token in range(RepetitiveEngine().info.vocabulary)]
    assert any(known)
    assert all(len(gram) == 2 for grams in known for gram in grams)
    assert all(len(grams) <= 4 for grams in known)


def test_lookahead_takes_the_prompt_as_reference() -> None:
    drafter = LookaheadDrafter(LookaheadParameters(window=2, gram=3, guesses=4, prompt=True))
    prompt = (1, 2, 3, 1, 4, 5, 1)
    drafter.begin(context(*prompt))
    draft = drafter.propose(context(*prompt), 8)
    assert draft.tokens[:4] == (4, 5, 2, 3)
    assert draft.sources[:4] == ("lookahead",) * 4
    narrow = drafter.propose(context(*prompt), 5)
    assert narrow.tokens[:3] == (4, 5, 2)
    assert narrow.sources == ("lookahead", "lookahead", "lookahead", "jacobi", "jacobi")


def test_parameters_are_read_from_a_name() -> None:
    drafter = make("recycling:k=3,shares=0.5/0.3/0.2")
    assert drafter.traits.top_k == 3
    drafter = make("lookup:length=2,n_min=2")
    assert drafter.name == "lookup:length=2,n_min=2"
    drafter.begin(context(1, 2, 1, 2))
    assert len(drafter.propose(context(1, 2, 1, 2), 9).tokens) == 2


@pytest.mark.parametrize(
    "name",
    [
        *("nobody", "lookup:lenght=3", "lookup:length=three", "none:x=1", "fastcoder:merge=1", "lookup:length"),
        *("fastcoder:cut=0", "suffix:history=-5", "suffix:factor=nan", "self:inertia=0.5/inf", "self:exit=-1"),
        *("rest:n_max=65", "lookahead:gram=1", "suffix:factor=1/2"),
    ],
)
def test_a_wrong_name_is_told(name: str) -> None:
    with pytest.raises(UsageError) as failure:
        make(name)
    assert failure.value.hint


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
    tokens, sources = drafted([*EARLY, *LATE, 1, 2, 3, 4, 5], [], SamParameters(length=3))
    assert (tokens, sources) == ([6, 7, 8], {"prompt"})


def test_the_static_match_must_be_longer_by_the_bias() -> None:
    prompt = [*EARLY, 50, 30, 31, 1, 2, 3, 4, 5]
    assert drafted(prompt, CORPUS, SamParameters(length=2, bias=1)) == ([60, 61], {"corpus"})
    assert drafted(prompt, CORPUS, SamParameters(length=2, bias=2)) == ([6, 7], {"prompt"})


def test_of_equal_places_in_the_corpus_the_first_is_drafted() -> None:
    prompt = [50, 1, 2, 3, 4, 5]
    for early, late in ((90, 80), (80, 90)):
        corpus = [early, 1, 2, 3, 4, 5, 60, 61, late, 1, 2, 3, 4, 5, 70, 71]
        assert drafted(prompt, corpus, SamParameters(length=2, bias=0)) == ([60, 61], {"corpus"})


def test_without_a_long_match_the_auxiliary_drafter_drafts() -> None:
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
def test_the_earlier_place_is_the_first_of_the_longest_suffix(text: list[int]) -> None:
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


def test_a_long_text_is_read_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = own_weights.write(tmp_path / "layer", "eagle")
    engine = tiny_models.load(tiny_models.make_model(tmp_path / "model", "qwen2"), tmp_path / "cache", "cpu-int8")
    at_once, drafter = make(name), make(name)
    text = [(7 * place) % 200 + 1 for place in range(60)]
    engine.keep_states(drafter.traits.layers)
    engine.prefill(text[:-1], lambda: False)
    context = DraftContext(text, 3, "d", (), len(text) - 1, engine)
    whole = at_once.propose(context, 9)
    assert whole.tokens
    monkeypatch.setattr(eagle, "STRETCH", 20)
    assert [len(drafter.propose(context, 9).tokens) for _ in range(2)] == [0, 0]
    assert drafter.propose(context, 9).tokens == whole.tokens
    longer = [*text, 9, 8]
    engine.prefill(longer[:-1], lambda: False)
    context = DraftContext(longer, 3, "d", (), len(longer) - 1, engine)
    assert drafter.propose(context, 9).tokens == at_once.propose(context, 9).tokens
    engine.close()


@pytest.mark.parametrize("scaled", [False, True], ids=["raw", "scaled"])
def test_features_that_are_not_scaled_are_not_rounded(scaled: bool) -> None:
    """Of a published EAGLE layer: a few numbers are far larger than the others, which would be lost."""
    record, tensors = own_weights.eagle()
    record = replace(record, layers=(NORMED,), numbers={**record.numbers, "version": 1})
    width = record.width
    tensors = {name: value for name, value in tensors.items() if not name.startswith("norm_") or name == "norm_post"}
    tensors |= {name: tensors[name][:, :width] for name in "qkv"} | {"fc": tensors["fc"][:, : 2 * width]}
    if scaled:
        tensors["feature_scale"] = np.ones(width, np.float32)
    rounded: list[tuple[int, ...]] = []

    def rounding(weight_NK: Floats) -> Linear:
        rounded.append(weight_NK.shape)
        return exact(weight_NK)

    EagleLayer(record, tensors, rounding)
    assert rounded.count((width, width)) == (4 if scaled else 3)  # queries, `o`, the token's half of fc, and its other
