"""The parts of the graph engine against their plain forms: trees, acceptance, noise, moved slots, best ids, sizes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftTree, Sampler
from fastcoder_lsp.core.noise import gumbel
from fastcoder_lsp.engine import verification
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.torch_engines.graphs import step_io, verifier
from fastcoder_lsp.torch_engines.graphs.cache import StaticCache
from fastcoder_lsp.torch_engines.graphs.device import CpuDevice
from fastcoder_lsp.torch_engines.graphs.plan import LEAST_CONTEXT, READ_WIDTHS, affordable_context, plan
from fastcoder_lsp.torch_engines.graphs.programs import Moves, follow
from fastcoder_lsp.torch_engines.graphs.step_io import Inputs, StepInput
from fastcoder_lsp.torch_engines.graphs.transformer import TreeAttention
from fastcoder_lsp.torch_engines.graphs.verifier import HEAD, UNDECIDED, StepVariant, choose_rows, top_rows

VOCABULARY = 13
SHAPE = Shape("qwen2", 2, 8, 2, 1, 4, 8, VOCABULARY, 1e-6, 512, np.ones(2))


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    """Well-formed trees of up to 30 rows with few different tokens, so that guesses are often right."""
    pending = draw(st.integers(1, 4))
    tokens = [draw(st.integers(0, VOCABULARY - 1)) for _ in range(pending)]
    parents = list(range(-1, pending - 1))
    for _ in range(draw(st.integers(0, 26))):
        parent, token = draw(st.integers(pending - 1, len(tokens) - 1)), draw(st.integers(0, 3))
        if (parent, token) not in zip(parents, tokens, strict=True):
            parents.append(parent)
            tokens.append(token)
    return DraftTree(tuple(tokens), tuple(parents), pending)


def sent(tree: DraftTree, width: int, cached: int, sampler: Sampler | None = None) -> Inputs:
    """The inputs of a program that runs `tree`, after one that left its own rows in the buffer."""
    buffer = StepInput(CpuDevice(), 65, VOCABULARY)
    buffer.write([5] * 64, list(range(-1, 63)), width=64, cached=9, sampler=Sampler())
    buffer.write(tree.tokens, tree.parents, width=width, cached=cached, sampler=sampler or Sampler())
    return buffer.view(width)


def attention(capacity: int = 64) -> TreeAttention:
    return TreeAttention(SHAPE, capacity, torch.float32, torch.device("cpu"))


@given(trees())
def test_a_row_sees_its_ancestors_and_itself(tree: DraftTree) -> None:
    inputs = sent(tree, 32, cached=10)
    sees = (attention().view(inputs, 64).bias_TC == 0).numpy()
    expected = np.zeros((32, 64), np.bool_)
    for row in range(32):
        expected[row, 10 + row] = True
        if row < len(tree):
            expected[row, :10] = True
            above = tree.parents[row]
            while above >= 0:
                expected[row, 10 + above] = True
                above = tree.parents[above]
    assert (sees == expected).all()
    assert inputs.positions_T[: len(tree)].tolist() == [10 + depth for depth in tree.depths()]
    assert inputs.positions_T[len(tree) :].tolist() == [10] * (32 - len(tree))
    assert inputs.slots_T.tolist() == list(range(10, 42))


@given(trees(), st.integers(0, 20))
def test_a_draft_outside_the_vocabulary_gets_an_embedding(tree: DraftTree, cached: int) -> None:
    tokens, parents = np.array([*tree.tokens[:-1], VOCABULARY + 3], np.int64), np.array(tree.parents, np.int64)
    numbers = np.full(step_io.input_size(32), 77, np.int64)
    assert step_io.lay_out(tokens, parents, tree.pending, cached, 32, VOCABULARY, numbers, np.zeros(65, np.int64))
    assert (numbers[: step_io.HEAD] == 77).all()
    ids = numbers[step_io.HEAD : step_io.HEAD + 32].tolist()
    assert ids == [*tree.tokens[:-1], *[0] * (33 - len(tree))]


@pytest.mark.parametrize("width", [1, 2, 3, 64, 65])
def test_chains_of_every_length_are_seen_whole(width: int) -> None:
    inputs = sent(DraftTree.chain([1] * width), width, cached=0)
    sees = attention(128).view(inputs, 128).bias_TC[:, :width] == 0
    assert (sees.numpy() == np.tri(width, dtype=np.bool_)).all()


@given(trees(), st.integers(0, 20), st.integers(0, 2**32), st.data())
def test_the_walk_is_the_plain_walk(tree: DraftTree, room: int, seed: int, data: st.DataObject) -> None:
    logits = np.random.default_rng(seed).normal(size=(32, VOCABULARY)).astype(np.float32)
    logits[:, :4] += 2
    sampler = data.draw(
        st.sampled_from(
            [
                Sampler(),
                Sampler(1.0, seed=seed),
                Sampler(0.7, top_k=3, seed=-seed),
                Sampler(1.3, top_p=0.6, seed=seed),
                Sampler(0.9, min_p=0.2, seed=seed),
                Sampler(1.1, top_k=9, top_p=0.9, min_p=0.1, seed=seed),
            ]
        )
    )
    inputs = sent(tree, 32, cached=7, sampler=sampler)
    if sampler.temperature:
        keys = verifier.keys_of(VOCABULARY, torch.device("cpu"))
        ask = StepVariant(sampled=True, nucleus=sampler.trims, whole=data.draw(st.booleans()))
        said = choose_rows(torch.from_numpy(logits), inputs, keys, ask)
    else:
        said = torch.from_numpy(logits).argmax(1)
    expected = verification.accept(tree, logits[: len(tree)], sampler, {}, 7, room)
    assert follow(tree, said.tolist(), room) == expected


@pytest.mark.parametrize(
    ("sampler", "spread", "decided"),
    [
        (Sampler(0.8, 40, 0.95), 1.0, True),
        (Sampler(1.0, HEAD, 1.0), 0.1, True),
        (Sampler(0.7, 0, 0.9), 4.0, True),
        (Sampler(1.5, 0, 0.9), 0.1, False),
        (Sampler(1.0, HEAD + 1, 1.0), 1.0, False),
        (Sampler(0.7, 0, 0.9, min_p=0.05), 4.0, True),
        (Sampler(1.0, 0, 1.0, min_p=0.05), 4.0, True),
        (Sampler(1.0, 0, 1.0, min_p=1e-9), 0.1, False),
    ],
)
def test_the_best_alone_decide_what_the_whole_vocabulary_would(sampler: Sampler, spread: float, decided: bool) -> None:
    vocabulary, rows = 3001, 12
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(rows, vocabulary)) * spread * 8).round().astype(np.float32) / 8
    sampler = replace(sampler, seed=5)
    inputs = sent(DraftTree.chain([1] * rows), rows, cached=3, sampler=sampler)
    keys = verifier.keys_of(vocabulary, torch.device("cpu"))
    found = choose_rows(torch.from_numpy(logits), inputs, keys, StepVariant(sampled=True, nucleus=True)).tolist()
    whole = choose_rows(
        torch.from_numpy(logits), inputs, keys, StepVariant(sampled=True, nucleus=True, whole=True)
    ).tolist()
    expected = [verification.choose(row, sampler, 4 + place) for place, row in enumerate(logits)]
    assert whole == expected
    assert found == (expected if decided else [UNDECIDED] * rows)


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**20))
def test_noise_is_that_of_the_host(seed: int, position: int) -> None:
    start = torch.tensor(step_io.start_of(seed))
    keys = verifier.keys_of(50, torch.device("cpu"))
    found = verifier.gumbel(start, torch.tensor([position]), keys)[0].numpy()
    np.testing.assert_allclose(found, gumbel(seed, position, np.arange(50)), rtol=1e-12)


@given(st.integers(1, 700), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**32))
def test_top_rows_break_ties_by_id(vocabulary: int, rows: int, count: int, seed: int) -> None:
    values = np.array([0.0, -0.0, 1.5, -2.0, 3e38, -3e38, -np.inf], np.float32)
    rng = np.random.default_rng(seed)
    logits = values[rng.integers(0, len(values), (rows, vocabulary))]
    logits[0] = np.sort(rng.normal(size=vocabulary).astype(np.float32))  # the best lie in the last chunk and the rest
    ids, found = top_rows(torch.from_numpy(logits), count)
    expected_ids, expected_values = verification.top_rows(logits, count)
    assert (ids.numpy() == expected_ids).all()
    assert (found.numpy() == expected_values).all()


@given(st.integers(0, 20), st.lists(st.integers(0, 30), min_size=1, max_size=31, unique=True).map(sorted))
def test_moving_brings_the_path_and_nothing_before_it(cached: int, path: list[int]) -> None:
    cache = StaticCache(SHAPE, 128, torch.float32, CpuDevice())
    moves = Moves(CpuDevice(), cache, 64)
    steps = torch.arange(128, dtype=torch.float32)
    cache.layer(0, 128)[0][0].copy_(steps[:, None].expand(128, 4))
    cache.layer(1, 128)[1][0].copy_(100 + steps[:, None].expand(128, 4))
    moves.keep(cached, path)
    end = cached + len(path)
    expected = [*range(cached), *(cached + node for node in path)]
    assert cache.layer(0, end)[0][0, :, 0].tolist() == expected
    assert cache.layer(1, end)[1][0, :, 3].tolist() == [100 + slot for slot in expected]


@given(st.integers(16, 40000), st.booleans(), st.booleans())
def test_every_step_finds_its_size(context: int, one_bucket: bool, strict: bool) -> None:
    sizes = plan(context, one_bucket=one_bucket, strict=strict)
    assert sizes.bucket(context, sizes.widths[-1]) <= sizes.capacity
    assert sizes.bucket(context, sizes.reads[-1]) <= sizes.capacity
    assert all(bucket % 64 == 0 for bucket in sizes.buckets)
    assert list(sizes.buckets) == sorted(set(sizes.buckets))
    assert {(width, bucket) for width, bucket in sizes.sizes()} >= {(w, sizes.capacity) for w in sizes.widths}
    tried = 0
    while (smaller := sizes.smaller()) is not None:
        assert (smaller.context, len(smaller.buckets)) < (sizes.context, len(sizes.buckets) + 1)
        sizes, tried = smaller, tried + 1
    assert tried < 20
    assert len(sizes.buckets) == 1
    assert sizes.context < 2 * LEAST_CONTEXT


def test_the_context_shrinks_to_what_memory_holds() -> None:
    assert affordable_context(4096, 10**9, 1000) == 4096
    assert affordable_context(4096, 2_000_000, 1000) == (1600 - READ_WIDTHS[-1]) // 64 * 64
    assert affordable_context(4096, 1000, 1000) == 0
