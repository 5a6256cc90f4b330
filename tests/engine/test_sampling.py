"""One token from one row: ties, noise, nucleus."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.core.noise import gumbel
from fastcoder_lsp.engine.sampling import choose, top_rows


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_ties_go_to_the_lowest_id(values: list[int], data: st.DataObject) -> None:
    """Greedy: the first of the best, among all and among the allowed, in whatever order these come."""
    logits = np.array(values, dtype=np.float32)
    assert choose(logits, Sampler(), 0) == values.index(max(values))
    allowed = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1))
    best = max(values[token] for token in allowed)
    expected = min(token for token in allowed if values[token] == best)
    assert choose(logits, Sampler(), 0, np.array(allowed, dtype=np.int64)) == expected


def test_draws_follow_the_softmax() -> None:
    """Frequencies over many positions are the probabilities, within five standard errors."""
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))
    count = 4000
    drawn = np.bincount([choose(logits, Sampler(1.0, seed=3), position) for position in range(count)], minlength=4)
    shares = np.exp(logits)
    assert (np.abs(drawn / count - shares) < 5 * np.sqrt(shares * (1 - shares) / count)).all()


def test_top_k_and_top_p_leave_the_best_alone() -> None:
    """Top-k keeps k; top-p the fewest that reach p, one at least."""
    logits = np.log(np.array([0.05, 0.5, 0.15, 0.3], dtype=np.float32))

    def reachable(sampler: Sampler) -> set[int]:
        return {choose(logits, sampler, position) for position in range(300)}

    assert reachable(Sampler(1.0, top_k=2)) == {1, 3}
    assert reachable(Sampler(1.0, top_p=0.75)) == {1, 3}
    assert reachable(Sampler(1.0, top_p=0.85)) == {1, 2, 3}
    assert reachable(Sampler(1.0, top_p=0.0)) == {1}
    assert reachable(Sampler(5.0, top_k=3, top_p=0.99)) == {1, 2, 3}


def test_noise_depends_on_seed_and_position_alone() -> None:
    """The same for one id as for all; another for another position or seed; large seeds are welcome."""
    ids = np.arange(1000, dtype=np.int64)
    noise = gumbel(5, 17, ids)
    assert (gumbel(5, 17, ids[[3, 500]]) == noise[[3, 500]]).all()
    assert (gumbel(5, 18, ids) != noise).mean() > 0.99
    assert (gumbel(6, 17, ids) != noise).mean() > 0.99
    assert np.isfinite(gumbel(2**70 + 1, 2**20, ids)).all()


@given(st.lists(st.lists(st.integers(0, 5), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(1, 9))
def test_top_rows_equal_a_full_sort(rows: list[list[int]], count: int) -> None:
    """The K best of each row, equal ones by id."""
    logits = np.array(rows, dtype=np.float32)
    ids, values = top_rows(logits, count)
    for row, found in zip(rows, ids.tolist(), strict=True):
        assert found == sorted(range(7), key=lambda token: (-row[token], token))[:count]
    assert (values == np.take_along_axis(logits, ids, axis=1)).all()


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(2, 40), st.integers(700, 5000))
def test_top_rows_of_a_wide_row(seed: int, count: int, distinct: int, width: int) -> None:
    """The same where a row is wide enough to be sorted out by columns first, with many equal values."""
    logits = np.random.default_rng(seed).integers(0, distinct, (1, width)).astype(np.float32)
    ids, _ = top_rows(logits, count)
    assert ids[0].tolist() == sorted(range(width), key=lambda token: (-logits[0, token], token))[:count]
