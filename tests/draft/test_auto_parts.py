"""The pure parts of `auto`: width by cost, best-first growth, calibration, resynchronisation, the file of counts."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters
from fastcoder_lsp.draft.auto.evidence import (
    ABSENT,
    CELLS,
    LENGTHS,
    SOURCES,
    Calibration,
    EvidenceCounts,
    GrownNodes,
    Priors,
    correction,
    hits_cell,
    shipped_priors,
)
from fastcoder_lsp.draft.auto.sources import RetrievalRule, resynchronise
from fastcoder_lsp.draft.auto.tree import draft_costs, new_grown
from fastcoder_lsp.draft.matching import TokenChain
from tests.draft.small_store import pinned
from tests.draft.test_auto import context


def best_width(likely: Sequence[float], ms: Sequence[float]) -> int:
    """How many of the likeliest nodes to draft: the least number with the most expected tokens a millisecond."""
    speeds = [expected / cost for expected, cost in zip(accumulate([1.0, *likely]), ms, strict=False)]
    return speeds.index(max(speeds))


@given(
    st.lists(st.integers(1, 6), min_size=3, max_size=60),
    st.lists(st.floats(0.0, 6.0), min_size=3, max_size=3),
    st.integers(1, 24),
)
def test_growth_follows_the_rule_of_width(tokens: list[int], rises: list[float], nodes: int) -> None:
    ms = np.cumsum([20.0, *rises])
    costs = StepCosts((1, 4, 12, 32), tuple(ms), 1.0)
    stores = pinned([tokens])
    whole = AutoDrafter(lambda _: stores, AutoParameters(width="fixed"))
    frugal = AutoDrafter(lambda _: stores, costs=costs)
    for drafter in (whole, frugal):
        drafter.begin(context(*tokens))
    full = whole.propose(context(*tokens), nodes)
    likely, parents = whole._grown.likely_N[: len(full.tokens)], full.parents
    assert all(a >= b for a, b in pairwise(likely.tolist()))
    below: dict[int, float] = {}
    for node, parent in enumerate(parents):
        assert parent < node
        below[parent] = below.get(parent, 0.0) + likely[node]
    assert all(total <= (likely[parent] if parent >= 0 else 1.0) + 1e-6 for parent, total in below.items())
    expected = best_width(likely.tolist(), draft_costs(costs, nodes).tolist())
    assert len(frugal.propose(context(*tokens), nodes).tokens) == expected


@given(st.floats(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_corrections_point_to_what_happened(tried: float, right: float, hoped: float) -> None:
    value = correction(tried, tried * right, tried * hoped, 10.0)
    assert math.isfinite(value)
    assert (value > 0) == (right > hoped) or abs(value) < 1e-6


@pytest.mark.parametrize("truth", [0.1, 0.5, 0.9])
def test_calibration_finds_the_rate(truth: float) -> None:
    calibration = Calibration(Priors(np.zeros((len(SOURCES), CELLS), np.float32), 0.0), strength=5.0)
    chance = np.random.default_rng(1)
    likely = 0.0
    for _ in range(1500):
        grown = one_node(likely := 1 / (1 + math.exp(-calibration.weights.logits_SC[2, 40])))
        calibration.judge(grown, 1, (7 if chance.random() < truth else 8,))
    assert likely == pytest.approx(truth, abs=0.06)


def test_only_what_is_known_is_counted() -> None:
    calibration = Calibration(shipped_priors())
    grown = new_grown(3)
    grown.token_N[:], grown.parent_N[:], grown.likely_N[:] = (7, 8, 9), (-1, 0, -1), (0.5, 0.4, 0.1)
    grown.cell_NS[:, 0] = (1, 2, 3)
    assert calibration.judge(grown, 3, (9, 5)) == 1
    counts = calibration.counts
    assert counts.tried_SC[0, 1:4].tolist() == [1, 0, 1]
    assert counts.right_SC[0, 1:4].tolist() == [0, 0, 1]


def test_old_counts_fade() -> None:
    calibration = Calibration(shipped_priors(), memory=50.0)
    for _ in range(500):
        calibration.judge(one_node(0.5), 1, (7,))
    assert calibration.counts.tried_SC[2, 40] <= 50
    assert calibration.counts.right_SC[2, 40] <= calibration.counts.tried_SC[2, 40] * 1.001


def one_node(likely: float) -> GrownNodes:
    grown = new_grown(1)
    grown.token_N[0], grown.parent_N[0], grown.likely_N[0] = 7, -1, likely
    grown.cell_NS[0, 2] = 40
    return grown


def test_shipped_priors_cover_everything() -> None:
    priors = shipped_priors()
    assert priors.logits_SC.shape == (len(SOURCES), CELLS)
    assert (np.abs(priors.logits_SC) < 20).all()
    again = Priors.from_json(priors.to_json())
    np.testing.assert_allclose(again.logits_SC, priors.logits_SC, atol=1e-3)
    assert again.bias == pytest.approx(priors.bias, abs=1e-3)


@numba.njit
def cell(match: int, share: float, hits: int) -> Any:
    return hits_cell(match, share, hits)


@given(st.integers(1, 200), st.floats(0, 1), st.integers(1, 500))
def test_cells_are_distinct_from_absence(match: int, share: float, hits: int) -> None:
    assert 0 <= cell(match, share, hits) < LENGTHS * 15 == ABSENT


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04rubbish", b"\x00" * 100, None])
def test_a_damaged_file_of_counts_is_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "learnt.npz"
    counts = EvidenceCounts.none()
    counts.tried_SC[0, 0], counts.right_SC[0, 0] = 1, 5
    if content is None:
        counts.save(path)  # more right than tried
    else:
        path.write_bytes(content)
    assert not EvidenceCounts.load(path).tried_SC.any()
    counts.right_SC[0, 0] = 1
    counts.save(path)
    assert EvidenceCounts.load(path).tried_SC[0, 0] == 1


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_resynchronisation(output: list[int], expected: list[int]) -> None:
    said, text = np.array(output, np.int32), np.array(expected, np.int32)
    place, match = resynchronise(said, text, 8)
    if output == expected[: len(output)] and len(output) < len(expected):
        assert (place, match) == (len(output), 8)
        return
    ends = [
        length
        for length in range(1, min(len(output), 8) + 1)
        for at in range(length, len(expected))
        if expected[at - length : at] == output[-length:]
    ]
    assert match == max(ends, default=0)
    if match:
        assert 0 < place < len(expected)
        assert expected[place - match : place] == output[-match:]


@given(st.lists(st.lists(st.integers(0, 9000), max_size=30), max_size=6), st.integers(8, 40))
def test_a_chain_knows_all_places_of_a_token(pieces: list[list[int]], capacity: int) -> None:
    chain = TokenChain(capacity)
    for piece in pieces:
        chain.extend(piece[:capacity])
        assert len(chain) <= capacity
    tokens = chain.tokens.tolist()
    said = [token for piece in pieces for token in piece[:capacity]]
    assert tokens == said[len(said) - len(tokens) :]
    for token in set(tokens):
        found, place = [], int(chain.chains.heads[token & 4095])
        while place >= 0:
            found += [place] if tokens[place] == token else []
            place = int(chain.chains.before_N[place])
        assert found == [i for i in reversed(range(len(tokens))) if tokens[i] == token]


def test_searches_that_never_pay_are_left_out_and_tried_again() -> None:
    rule = RetrievalRule()

    def searches(last: int, gain: int) -> int:
        searched = 0
        for _ in range(2000):
            if rule.worth(last, search_ms=0.02, token_ms=20.0):
                searched += 1
                rule.gave(last, gain)
        return searched

    assert 0 < searches(5, 0) < searches(6, 1) == 2000
    assert searches(5, 1) > 0
