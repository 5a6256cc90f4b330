"""Keys and values in 16 bits: how they are rounded, where they stand, and what is read of them."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.engine.int8.halves import PAIR, narrow, padded, place_of
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.tagged import tagged
from fastcoder_lsp.engine.int8.tiles import BLOCK, mix_tile, score_tile


@tagged("test_halves", called=True)
def narrow_all(values: npt.NDArray[np.float32], found: npt.NDArray[np.uint16]) -> None:
    """`narrow` of every value."""
    for index in range(len(values)):
        found[index] = narrow(values[index])


def kept(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What the nearest 16-bit number is, the even one of two: worked out in twice the bits."""
    bits = values.view(np.uint32).astype(np.uint64)
    lower, rest = bits >> np.uint64(16), bits & np.uint64(0xFFFF)
    up = (rest > 0x8000) | ((rest == 0x8000) & (lower % 2 == 1))
    rounded: npt.NDArray[np.float32] = ((lower + up) << np.uint64(16)).astype(np.uint32).view(np.float32)
    return rounded


@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100),
        min_size=1,
    )
)
def test_a_number_is_rounded_to_the_nearest(numbers: list[float]) -> None:
    """Also exactly between two, and where the rounding goes over into the next power."""
    values = np.array([*numbers, 1.00390625, 1.01171875, 1.9999, -0.0, 1e-40], np.float32)
    found = np.empty(len(values), np.uint16)
    narrow_all(values, found)
    assert ((found.astype(np.uint32) << 16) == kept(values).view(np.uint32)).all()


@pytest.mark.parametrize("count", [16, 32, 48, 64, 128])
def test_every_number_has_a_place_of_its_own(count: int) -> None:
    """In whole pairs of vectors, whatever the size of a head is."""
    places = [place_of(index) for index in range(count)]
    assert len(set(places)) == count
    assert max(places) < padded(count) < count + PAIR
    assert [place_of(index) for index in (0, 1, LANES, PAIR)] == [0, 2, 1, PAIR]


@pytest.mark.parametrize(("heads", "dim"), [(1, 16), (2, 32), (3, 48), (7, 64), (4, 128)])
def test_scores_and_mixes_are_those_of_the_rounded_numbers(heads: int, dim: int) -> None:
    """Over a block of columns, for heads of every kind: products in fp32 of what 16 bits hold."""
    chance = np.random.default_rng(dim)
    queries, keys_DC, values_CD = (
        chance.normal(size=size).astype(np.float32) for size in ((heads, dim), (dim, BLOCK), (BLOCK, dim))
    )
    held_keys, held_values = aligned((dim, BLOCK), np.uint16), aligned((BLOCK, padded(dim)), np.uint16)
    for column in range(BLOCK):
        held_keys[:, place_of(column)] = _halves(keys_DC[:, column])
        for d in range(dim):
            held_values[column, place_of(d)] = _halves(values_CD[column, d : d + 1])[0]
    scores, mixed = np.zeros((heads, BLOCK), np.float32), np.zeros((heads, dim), np.float32)
    score, mix = score_tile(heads, dim), mix_tile(heads, dim)

    @tagged(f"test_{heads}_{dim}", called=True)
    def run(q: int, k: int, v: int, s: int, o: int, stride: int) -> None:
        score(q, k, s, stride)
        mix(s, stride, v, 3, 29, o)

    run(*(array.ctypes.data for array in (queries, held_keys, held_values, scores, mixed)), 4 * BLOCK)
    expected = queries.astype(np.float64) @ kept(keys_DC)
    assert np.abs(scores - expected).max() < 1e-4
    assert np.abs(mixed - expected[:, 3:29] @ kept(values_CD)[3:29]).max() < 1e-2


def _halves(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    return (kept(np.ascontiguousarray(values)).view(np.uint32) >> 16).astype(np.uint16)
