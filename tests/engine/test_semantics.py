"""What every engine does, the fake one of other tests too: reuse, stops, trees, sampling, allowed sets, limits."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftTree, Sampler
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.errors import ResourceError
from tests.engine.tiny_models import VOCABULARY, load, make_model
from tests.fake_engine import FakeEngine, never

PROMPT = [int(token) for token in np.random.default_rng(3).integers(0, VOCABULARY, 20)]
SAMPLERS = (Sampler(), Sampler(1.0, seed=7), Sampler(0.8, top_k=20, seed=1), Sampler(1.2, top_p=0.7, seed=2))


@pytest.fixture(scope="module", params=["cpu-int8", "cpu-int4", "cpu-fp32", "cpu-graphs", "foreign", "fake"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, weights_cache: Path
) -> Iterator[TreeEngine | FakeEngine]:
    if request.param == "fake":
        yield FakeEngine(VOCABULARY, context=256)
        return
    kind = "gpt_neox" if request.param == "foreign" else "qwen2"
    folder = make_model(tmp_path_factory.mktemp("model"), kind)
    made = load(folder, weights_cache, "auto" if request.param == "foreign" else request.param)
    yield made
    made.close()


def plain(engine: TreeEngine | FakeEngine, count: int, sampler: Sampler = SAMPLERS[0]) -> list[int]:
    engine.prefill(PROMPT[:-1], never)
    pending, found = [PROMPT[-1]], list[int]()
    while len(found) < count:
        pending = list(engine.step(DraftTree.chain(pending), sampler).emitted)
        found += pending
    return found


def test_prefill_keeps_the_longest_common_prefix(engine: TreeEngine | FakeEngine) -> None:
    engine.prefill((), never)
    first = engine.prefill(PROMPT, never)
    assert (first.reused, first.computed, first.done) == (0, 20, True)
    again = engine.prefill([*PROMPT[:12], 1, 2, 3], never)
    assert again.reused >= 12
    assert again.reused + again.computed == 15
    assert engine.cached() == (*PROMPT[:12], 1, 2, 3)
    assert engine.prefill(PROMPT[:5], never).computed == 0
    assert engine.cached() == tuple(PROMPT[:5])


def test_a_stop_works_within_a_chunk_and_keeps_its_rows(engine: TreeEngine | FakeEngine) -> None:
    chunk = engine.chunk if isinstance(engine, FakeEngine) else engine.backend.chunk
    tokens = [(7 * i) % VOCABULARY for i in range(chunk + 50)]
    engine.prefill((), never)
    asked = iter([False, True])
    stopped = engine.prefill(tokens, lambda: next(asked))
    assert (stopped.computed, stopped.done) == (chunk, False)
    assert engine.cached() == tuple(tokens[:chunk])
    rest = engine.prefill(tokens, never)
    assert (rest.reused, rest.computed, rest.done) == (chunk, 50, True)


def test_what_a_stopped_prefill_left_gives_the_same_tokens(engine: TreeEngine | FakeEngine) -> None:
    expected = plain(engine, 6)
    engine.prefill(PROMPT[:9], never)
    assert plain(engine, 6) == expected


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_tree_gives_what_plain_decoding_gives(engine: TreeEngine | FakeEngine, data: st.DataObject) -> None:
    sampler = data.draw(st.sampled_from(SAMPLERS))
    expected = plain(engine, 12, sampler)
    engine.prefill(PROMPT[:-1], never)
    pending, found = [PROMPT[-1]], list[int]()
    while len(found) < 10:
        tree = data.draw(_trees(pending, expected[len(found) :]))
        verified = engine.step(tree, sampler)
        assert verified.emitted[:-1] == tuple(tree.tokens[node] for node in verified.path)
        pending = [verified.emitted[-1]]
        found += verified.emitted
        assert engine.cached() == (*PROMPT, *found[:-1])
    assert found[:10] == expected[:10]


@st.composite
def _trees(draw: st.DrawFn, pending: list[int], future: list[int]) -> DraftTree:
    """Trees below `pending` whose nodes continue the true text, or don't."""
    tokens, parents = list(pending), list(range(-1, len(pending) - 1))
    right = {len(pending) - 1: 0}
    for _ in range(draw(st.integers(0, 12))):
        parent = draw(st.integers(len(pending) - 1, len(tokens) - 1))
        token = draw(st.one_of(st.integers(-2, VOCABULARY + 2), st.just(-1)))
        if parent in right and right[parent] < len(future) and draw(st.booleans()):
            token = future[right[parent]]
        if any(tokens[i] == token and parents[i] == parent for i in range(len(tokens))):
            continue
        if parent in right and right[parent] < len(future) and token == future[right[parent]]:
            right[len(tokens)] = right[parent] + 1
        tokens.append(token)
        parents.append(parent)
    return DraftTree(tuple(tokens), tuple(parents), len(pending))


def test_several_pending_tokens_are_one_chain(engine: TreeEngine | FakeEngine) -> None:
    expected = plain(engine, 5)
    engine.prefill(PROMPT[:-4], never)
    tree = DraftTree((*PROMPT[-4:], expected[0], expected[1]), (-1, 0, 1, 2, 3, 4), 4)
    verified = engine.step(tree)
    assert (verified.path, verified.emitted) == ((4, 5), tuple(expected[:3]))
    assert engine.cached() == (*PROMPT, *expected[:2])


def test_top_rows_are_every_nodes_best(engine: TreeEngine | FakeEngine) -> None:
    expected = plain(engine, 3)
    engine.prefill(PROMPT[:-1], never)
    wrong = (expected[0] + 1) % VOCABULARY
    tree = DraftTree((PROMPT[-1], wrong, expected[0], expected[1]), (-1, 0, 0, 2))
    verified = engine.step(tree, top_k=5)
    assert verified.path == (2, 3)
    assert verified.top_ids_NK is not None
    assert verified.top_logits_NK is not None
    assert verified.top_ids_NK.shape == verified.top_logits_NK.shape == (4, 5)
    assert verified.top_ids_NK[[0, 2, 3], 0].tolist() == expected
    assert (np.diff(verified.top_logits_NK, axis=1) <= 0).all()


def test_allowed_sets_bind_their_nodes_alone(engine: TreeEngine | FakeEngine) -> None:
    free = plain(engine, 3)
    others = np.array([token for token in range(VOCABULARY) if token not in free], dtype=np.int64)
    engine.prefill(PROMPT[:-1], never)
    bound = engine.step(DraftTree.chain([PROMPT[-1]]), allowed={0: others}).emitted[0]
    assert bound in others
    engine.prefill(PROMPT[:-1], never)
    tree = DraftTree((PROMPT[-1], bound, free[0]), (-1, 0, 0))
    verified = engine.step(tree, allowed={0: others})
    assert verified.path == (1,)
    engine.prefill(PROMPT[:-1], never)
    assert engine.step(tree, allowed={1: others[:3], 2: others[3:4]}).emitted == (free[0], int(others[3]))


def test_the_context_is_a_limit_that_drafts_dont_move(engine: TreeEngine | FakeEngine) -> None:
    limit = engine.info.context
    tokens = [(5 * i + 1) % VOCABULARY for i in range(limit - 2)]
    engine.prefill(tokens, never)
    after = engine.step(DraftTree.chain([4])).emitted[0]
    engine.prefill(tokens, never)
    verified = engine.step(DraftTree((4, after, *range(VOCABULARY - 9, VOCABULARY)), (-1, 0, *[1] * 9)))
    assert verified.path[:1] == (1,)
    assert len(engine.cached()) == limit
    with pytest.raises(ResourceError, match="context"):
        engine.step(DraftTree.chain([verified.emitted[-1]]))
    assert len(engine.cached()) == limit
    with pytest.raises(ResourceError, match="context"):
        engine.prefill([1] * (limit + 1), never)


def test_the_widest_tree_fits(engine: TreeEngine | FakeEngine) -> None:
    engine.prefill(PROMPT[:-1], never)
    drafts = range(engine.info.max_nodes - 1)
    tree = DraftTree((PROMPT[-1], *drafts), (-1, *[0] * len(drafts)))
    assert engine.step(tree).emitted[0] == plain(engine, 1)[0]


TOKENS = st.lists(st.integers(0, 1), max_size=6)


@given(TOKENS, TOKENS)
def test_it_ends_where_the_first_two_differ(left: list[int], right: list[int]) -> None:
    expected = 0
    while expected < min(len(left), len(right)) and left[expected] == right[expected]:
        expected += 1
    assert common_prefix(left, right) == common_prefix(tuple(left), right) == expected
