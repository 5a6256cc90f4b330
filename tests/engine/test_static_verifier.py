"""The device-side parts of the graph engine against their plain forms: trees, acceptance, noise, compaction, sizes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import DraftTree, Sampler
from fastcoder_lsp.engine import sampling, verification
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static import noise
from fastcoder_lsp.engine.static.attention import TreeAttention, ancestors
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT, READ_WIDTHS, affordable_context, plan
from fastcoder_lsp.engine.static.step_io import Inputs, StepInput, StepOutput
from fastcoder_lsp.engine.static.verifier import choose, follow, top_rows

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


def sent(tree: DraftTree, width: int, cached: int, room: int = 100, sampler: Sampler | None = None) -> Inputs:
    """The inputs of a program that runs `tree`, after one that left its own rows in the buffer."""
    buffer = StepInput(CpuDevice(), 64)
    buffer.write([5] * 64, list(range(-1, 63)), cached=9, pending=1, room=0, sampler=Sampler())
    buffer.write(
        tree.tokens, tree.parents, cached=cached, pending=tree.pending, room=room, sampler=sampler or Sampler()
    )
    return buffer.view(width)


@given(trees())
def test_a_row_sees_its_ancestors_and_itself(tree: DraftTree) -> None:
    """The mask made from parents is that of a walk; padding rows see themselves only, and stand at the cache's end."""
    view = TreeAttention(SHAPE, torch.float32).view(sent(tree, 32, cached=10), 64)
    sees = (view.bias_TC == 0).numpy()
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
    assert view.positions_T[: len(tree)].tolist() == [10 + depth for depth in tree.depths()]
    assert view.positions_T[len(tree) :].tolist() == [10] * (32 - len(tree))


@pytest.mark.parametrize("width", [1, 2, 3, 64, 65])
def test_chains_of_every_length_are_seen_whole(width: int) -> None:
    """The doubling goes far enough: the last row of a chain sees the first."""
    assert (ancestors(torch.arange(width) - 1).numpy() == np.tri(width, dtype=np.bool_)).all()


@given(trees(), st.integers(0, 20), st.integers(0, 2**32), st.data())
def test_the_walk_on_the_device_is_the_plain_walk(tree: DraftTree, room: int, seed: int, data: st.DataObject) -> None:
    """The same path and tokens as `verification.accept`, greedy and sampled, whatever fits; unknown guesses never."""
    logits = np.random.default_rng(seed).normal(size=(32, VOCABULARY)).astype(np.float32)
    logits[:, :4] += 2
    sampler = data.draw(
        st.sampled_from(
            [Sampler(), Sampler(1.0, seed=seed), Sampler(0.7, top_k=3, seed=-seed), Sampler(1.3, top_p=0.6, seed=seed)]
        )
    )
    inputs = sent(tree, 32, cached=7, room=room, sampler=sampler)
    view = TreeAttention(SHAPE, torch.float32).view(inputs, 64)
    if sampler.temperature:
        keys = noise.keys_of(VOCABULARY, torch.device("cpu"))
        said = choose(
            torch.from_numpy(logits), inputs, view.depths_T, keys, nucleus=sampler.top_k > 0 or sampler.top_p < 1
        )
    else:
        said = torch.from_numpy(logits).argmax(1)
    followed = follow(inputs, view, said)
    output = StepOutput(CpuDevice(), 64)
    output.write(followed.kept, followed.nodes_T, said[followed.nodes_T])
    output.send()
    expected = verification.accept(tree, logits[: len(tree)], sampler, {}, 7, room)
    assert output.read(tree.pending) == expected
    kept = [*range(tree.pending), *expected[0]]
    assert followed.nodes_T[: len(kept)].tolist() == kept


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**20))
def test_noise_is_that_of_the_host(seed: int, position: int) -> None:
    """The same 64-bit draws, whatever the seed; floats agree to rounding."""
    start = torch.tensor(noise.start_of(seed))
    keys = noise.keys_of(50, torch.device("cpu"))
    found = noise.gumbel(start, torch.tensor([position]), keys)[0].numpy()
    np.testing.assert_allclose(found, sampling.gumbel(seed, position, np.arange(50)), rtol=1e-12)


@given(
    st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.5, -2.0, 3e38, -3e38]), min_size=9, max_size=9), min_size=1),
    st.integers(1, 12),
)
def test_top_rows_break_ties_by_id(rows: list[list[float]], count: int) -> None:
    """Best first, equal ones by id, as `sampling.top_rows`; signed zeros are one value."""
    logits = np.array(rows, dtype=np.float32)
    ids, values = top_rows(torch.from_numpy(logits), count)
    expected_ids, expected_values = sampling.top_rows(logits, count)
    assert (ids.numpy() == expected_ids).all()
    assert (values.numpy() == expected_values).all()


@given(st.integers(0, 40), st.lists(st.integers(0, 15), min_size=1, max_size=16, unique=True).map(sorted))
def test_compaction_moves_the_path_and_nothing_before_it(cached: int, path: list[int]) -> None:
    """After it, the slots behind the cache are the path's, in order; what was cached before is untouched."""
    cache = StaticCache(SHAPE, 64, torch.float32, CpuDevice())
    steps = torch.arange(64, dtype=torch.float32)
    cache.layer(0, 64)[0][0].copy_(steps[:, None].expand(64, 4))
    cache.layer(1, 64)[1][0].copy_(100 + steps[:, None].expand(64, 4))
    nodes = torch.arange(16)
    nodes[: len(path)] = torch.tensor(path)
    cache.compact(torch.tensor(cached), nodes)
    end = cached + len(path)
    expected = [*range(cached), *(cached + node for node in path)]
    assert cache.layer(0, end)[0][0, :, 0].tolist() == expected
    assert cache.layer(1, end)[1][0, :, 3].tolist() == [100 + slot for slot in expected]


@given(st.integers(16, 40000), st.booleans(), st.booleans())
def test_every_step_finds_its_size(context: int, one_bucket: bool, strict: bool) -> None:
    """A full context has room for the widest step and chunk; giving up ends, and never grows."""
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
    """Four fifths of what is free, as slots; none at all where even a chunk does not fit."""
    assert affordable_context(4096, 10**9, 1000) == 4096
    assert affordable_context(4096, 2_000_000, 1000) == (1600 - READ_WIDTHS[-1]) // 64 * 64
    assert affordable_context(4096, 1000, 1000) == 0
