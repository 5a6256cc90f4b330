"""The kernels' parts against plain arithmetic, for every kind of byte product that this CPU has."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import DotKind, in_four_bits, kinds_here, unfolded_bytes
from fastcoder_lsp.engine.int8.linear import packed_linear
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import quantise
from fastcoder_lsp.engine.int8.product import make_block
from fastcoder_lsp.engine.int8.selftest import exact_kind, is_exact
from fastcoder_lsp.engine.int8.simd import LANES, narrow, padded, place_of
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from fastcoder_lsp.engine.int8.tiles import BLOCK, mix_tile, score_tile
from fastcoder_lsp.kernels import tagged
from tests.engine.rows import prefill, run, same_bits
from tests.engine.tiny_models import VOCABULARY, make_model, shape_of

WIDTHS = (1, 2, 3, 4, 5, 8, 16, 17, 32, 33, 64)
"""Rows of trees: those of one tile and one more, up to the widest draft."""


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("kind", kinds_here(), ids=lambda kind: kind.name)
def test_products_are_those_of_whole_numbers(
    kind: DotKind, rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """To the bit: extreme values, all row counts, partial panels and blocks, and products that are added."""
    chance = np.random.default_rng(rows)
    columns, size = kind.vectors * LANES * 2 - 5, 64 * 9
    bytes_MK = chance.integers(1, 256, (rows, size)).astype(np.uint8)
    weights_NK = chance.integers(-127, 128, (columns, size)).astype(np.int8)
    bytes_MK[0], weights_NK[1], weights_NK[2] = 255, 127, -127
    plain_MN = (bytes_MK.astype(np.int64) - 128) @ weights_NK.astype(np.int64).T
    for add in (False, True):
        assert np.array_equal(multiplied(kind, bytes_MK, weights_NK, add=add), plain_MN + add)


def multiplied(
    kind: DotKind, bytes_MK: npt.NDArray[np.uint8], weights_NK: npt.NDArray[np.int8], *, add: bool
) -> npt.NDArray[np.int64]:
    """Σ (x − 128)·w by the compiled blocks of `kind`, with scales of one; onto ones where `add`."""
    (rows, size), columns, block = bytes_MK.shape, len(weights_NK), kind.vectors * LANES
    blocks = -(-columns // block)
    panel = kind.panel_of(rows)
    padded = -(-rows // panel)
    panels = aligned((padded + (32 if kind.tiled else 1), size // 4, panel, 4), kind.number)
    for row in range(rows):
        panels[row // panel, :, row % panel] = bytes_MK[row].reshape(-1, 4)
    filled_NK = np.zeros((blocks * block, size), np.int8)
    filled_NK[:columns] = weights_NK
    packed = aligned((blocks, size // kind.line, block, kind.line), np.int8)
    packed[:] = filled_NK.reshape(blocks, block, size // kind.line, kind.line).transpose(0, 2, 1, 3)
    unfolded = aligned((unfolded_bytes(kind, size),), np.int8)
    sums = np.ascontiguousarray(filled_NK.sum(axis=1, dtype=np.int32) * np.int32(128))
    zeros, ones = np.zeros(blocks * block, np.float32), np.ones(max(blocks * block, rows), np.float32)
    room = np.full((rows + kind.rows, blocks * block), 1 if add else 0, np.float32)  # the last tile may be a whole one
    out = room[:rows]
    run = product_runner(kind, add=add)
    for number in range(blocks):
        at = number * block
        run(panels, packed[number], sums[at:], ones[at:], ones, zeros[at:], out[:, at : at + block], unfolded)
    found: npt.NDArray[np.int64] = out[:, :columns].astype(np.int64)
    return found


@cache
def product_runner(kind: DotKind, *, add: bool) -> Any:
    """A block of columns times rows, as `product.make_multiply` runs it."""
    begin, multiply_block, end = make_block(kind, f"test_{kind.name}_{add}".replace("-", "_"), add=add)

    @tagged(f"{kind.name}_{add}", called=True)
    def run(x: Any, w: Any, sums: Any, scales: Any, row_scales: Any, biases: Any, out: Any, unfolded: Any) -> None:
        begin()
        multiply_block(
            x.ctypes.data,
            w.ctypes.data,
            x.shape[1],
            sums.ctypes.data,
            scales.ctypes.data,
            biases.ctypes.data,
            row_scales.ctypes.data,
            out.ctypes.data,
            out.strides[0],
            len(out),
            unfolded.ctypes.data,
        )
        end()

    return run


@pytest.mark.parametrize(
    "kind", [*kinds_here(), *map(in_four_bits, kinds_here())], ids=lambda kind: f"{kind.name}-{kind.bits}"
)
def test_the_start_up_test_passes_for_what_is_right(kind: DotKind) -> None:
    assert is_exact(kind, kernels_folder())


def test_the_first_kind_that_fits_is_chosen(tmp_path: Path) -> None:
    """Tiles want rows of 64 bytes; a model that has others runs by the next kind."""
    shape = shape_of(make_model(tmp_path, "qwen2"))
    assert exact_kind(shape, kernels_folder()) is kinds_here()[0]
    odd = exact_kind(replace(shape, inner=96), kernels_folder())
    assert odd is next(kind for kind in kinds_here() if not kind.tiled)


def test_a_saturating_product_is_found_out(tmp_path: Path) -> None:
    """A kind that clips its sums, as AVX2's byte products do, fails the start-up test."""
    honest = kinds_here()[-1]

    def clipped(builder: object, sums: object, w: object, x: object) -> object:
        from llvmlite import ir

        total = honest.emit(builder, sums, w, x)
        limit = ir.Constant(total.type, [32767] * total.type.count)
        return builder.select(builder.icmp_signed("<", total, limit), total, limit)  # type: ignore[attr-defined]

    assert not is_exact(DotKind("clipped", honest.lanes, honest.vectors, honest.rows, clipped), tmp_path)


@pytest.mark.parametrize("bits", [8, pytest.param(4, marks=pytest.mark.ci)])
def test_every_kind_gives_the_same_bits(bits: int, tmp_path: Path) -> None:
    """A model's logits don't depend on the instructions, at any width: in registers, unfolded, in whole tiles."""
    folder = make_model(tmp_path, "qwen2")
    shape = shape_of(folder)
    chance = np.random.default_rng(2)
    tokens = chance.integers(0, VOCABULARY, 64).tolist()
    tree = [int(chance.integers(-1, row)) if row else -1 for row in range(64)]
    found = []
    for kind in kinds_here() if bits == 8 else map(in_four_bits, kinds_here()):
        arrays = load_arrays(WeightsRequest(folder, shape, kind, str(tmp_path), tmp_path), lambda _share, _what: None)
        backend = Int8Backend(shape, arrays, kind, capacity=256, threads=2, kernels=kernels_folder())
        prefill(backend, tokens, [20])
        parts = [run(backend, tokens[:count], tree[:count], len(tokens)) for count in WIDTHS]
        found.append(np.concatenate(parts))
        backend.close()
    assert all(same_bits(found[0], other).all() for other in found)


def test_rounding_keeps_half_a_step() -> None:
    weights = np.random.default_rng(0).normal(size=(9, 32)).astype(np.float32)
    weights[4] = 0
    rounded, scales = quantise(weights)
    assert np.abs(rounded * scales[:, None] - weights).max() <= scales.max() * 0.501
    assert np.abs(rounded).max(axis=1).tolist() == [127] * 4 + [0] + [127] * 4


def rounded(x: Floats) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], Floats]:
    scales = np.abs(x).max(axis=1) / 127
    return np.rint(x / scales[:, None]).astype(np.int64), scales


@pytest.mark.parametrize(("outputs", "inputs"), [(48, 64), (211, 64), (7, 896)])
def test_a_product_is_what_rounding_says(outputs: int, inputs: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(outputs)
    weights = draw.normal(size=(outputs, inputs)).astype(np.float32)
    product = packed_linear(weights, tmp_path)
    whole_NK, scales_N = rounded(weights)
    for rows in (1, 3, 8, 21):
        x_TK = (draw.normal(size=(rows, inputs)) * 10.0 ** draw.integers(-3, 3, size=(rows, 1))).astype(np.float32)
        whole_TK, scales_T = rounded(x_TK)
        expected = (whole_TK @ whole_NK.T) * scales_T[:, None] * scales_N
        assert np.allclose(product(x_TK), expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max(axis=1).min()))
        exact = x_TK @ weights.T
        off = np.linalg.norm(product(x_TK) - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert off.max() < 0.05


def test_no_rows_and_rows_that_fit_no_vector(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(9, 30)).astype(np.float32)
    x_TK = np.random.default_rng(2).normal(size=(4, 30)).astype(np.float32)
    assert np.allclose(packed_linear(weights, tmp_path)(x_TK), x_TK @ weights.T, atol=1e-5)
    assert packed_linear(np.ones((9, 32), np.float32), tmp_path)(np.zeros((0, 32), np.float32)).shape == (0, 9)


@tagged("test_halves", called=True)
def narrow_all(values: npt.NDArray[np.float32], found: npt.NDArray[np.uint16]) -> None:
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
    values = np.array([*numbers, 1.00390625, 1.01171875, 1.9999, -0.0, 1e-40], np.float32)
    found = np.empty(len(values), np.uint16)
    narrow_all(values, found)
    assert ((found.astype(np.uint32) << 16) == kept(values).view(np.uint32)).all()


@pytest.mark.parametrize(("heads", "dim"), [(1, 16), (2, 32), (3, 48), (7, 64), (4, 128)])
def test_scores_and_mixes_are_those_of_the_rounded_numbers(heads: int, dim: int) -> None:
    chance = np.random.default_rng(dim)
    queries, keys_DC, values_CD = (
        chance.normal(size=size).astype(np.float32) for size in ((heads, dim), (dim, BLOCK), (BLOCK, dim))
    )
    held_keys, held_values = aligned((dim, BLOCK), np.uint16), aligned((BLOCK, padded(dim)), np.uint16)
    for column in range(BLOCK):
        held_keys[:, place_of.py_func(column)] = _halves(keys_DC[:, column])
        for d in range(dim):
            held_values[column, place_of.py_func(d)] = _halves(values_CD[column, d : d + 1])[0]
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
