"""Rounding to four bits: for each row a scale, for each group of 32 a whole factor, searched for the least error.

Every sum runs in 16 lanes in a fixed order, so a model gives the same bytes on every CPU. Factors that are whole
numbers within a row, so that its sum is one of whole numbers, follow GGML's K-quants, whose scales of a group are six-
bit numbers under one float a row of groups. Rounded rows are stored in the order of the kernels; `unfold` defines a
line.
"""

from typing import Any, NamedTuple

import numpy as np

from fastcoder_lsp.core.arrays import Floats, Int8s, Int32s, Int64s
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.simd import (
    LANES,
    v_abs,
    v_add,
    v_fma,
    v_load,
    v_max,
    v_min,
    v_mul,
    v_peak,
    v_round,
    v_splat,
    v_sub,
    v_sum,
)
from fastcoder_lsp.engine.int8.tiles import store_bytes
from fastcoder_lsp.kernels import inlined, inner, kernel

MOST = 15  # the largest factor of a group
TRIES = 6  # candidate scales of a row, each `STEP` below the one before; the first one holds the largest weight
STEP = np.float32(0.06)
NEIGHBOURS = 3  # candidate factors of a group for each sign: the smallest one that holds all of it, and those below


@kernel
def round_rows(weights_NK: Floats, steps_NK: Int8s, factors_NG: Int8s, sums_N: Int32s, scales_N: Floats) -> None:
    """Round every row, K a multiple of 32.

    Fills `steps_NK` with q, `factors_NG` with g, `sums_N` with Σ g·q, and `scales_N` with the scale, by least squares
    once g and q are chosen.
    """
    groups = weights_NK.shape[1] // GROUP
    for row in range(weights_NK.shape[0]):
        weights = weights_NK[row].ctypes.data
        whole = _whole_scale(weights, groups)
        best, scale = np.float32(np.inf), whole
        for turn in range(TRIES):
            tried, error = whole * (np.float32(1) - STEP * np.float32(turn)), np.float32(0)
            for group in range(groups):
                error += _best_factor(weights + group * GROUP * 4, tried)[1]
            if error < best:
                best, scale = error, tried
        across, square, total = np.float32(0), np.float32(0), np.int32(0)
        for group in range(groups):
            at = group * GROUP * 4
            factor = _best_factor(weights + at, scale)[0]
            steps = steps_NK[row].ctypes.data + group * GROUP
            more_across, more_square, more = _write(weights + at, scale, factor, steps)
            across, square, total = across + more_across, square + more_square, total + np.int32(more)
            factors_NG[row, group] = np.int8(factor)
        scales_N[row], sums_N[row] = across / square if square > 0 else scale, total


@inner
def _whole_scale(weights: int, groups: int) -> Any:
    peak = v_splat(np.float32(1e-9))
    for at in range(0, groups * GROUP, LANES):
        peak = v_max(peak, v_abs(v_load(weights + 4 * at)))
    return v_peak(peak) * np.float32(1 / (8 * MOST))


@inner
def _best_factor(weights: int, scale: Any) -> tuple[Any, Any]:
    """The factor of a group with the least error, and that error."""
    first, second = v_load(weights), v_load(weights + 4 * LANES)
    zero = v_splat(np.float32(0))
    highest = v_peak(v_max(v_max(first, second), zero))
    lowest = v_peak(v_max(v_max(v_sub(zero, first), v_sub(zero, second)), zero))
    best, least = np.float32(1), np.float32(np.inf)
    for sign in range(2):
        # −8 reaches one end, 7 the other; the factor's sign decides which.
        long, short = (lowest, highest) if sign == 0 else (highest, lowest)
        holding = np.ceil(max(long * np.float32(1 / 8), short * np.float32(1 / 7)) / scale)
        for below in range(NEIGHBOURS):
            size = min(max(holding - np.float32(below), np.float32(1)), np.float32(MOST))
            factor = size if sign == 0 else -size
            step, inverse = v_splat(factor * scale), v_splat(np.float32(1) / (factor * scale))
            total = v_sum(v_add(_error(first, step, inverse), _error(second, step, inverse)))
            if total < least:
                best, least = factor, total
    return best, least


@inlined
def _steps(values: Any, inverse: Any) -> Any:
    low, high = v_splat(np.float32(-8)), v_splat(np.float32(7))
    return v_min(v_max(v_round(v_mul(values, inverse)), low), high)


@inlined
def _error(values: Any, step: Any, inverse: Any) -> Any:
    away = v_sub(values, v_mul(_steps(values, inverse), step))
    return v_mul(away, away)


@inner
def _write(weights: int, scale: Any, factor: Any, steps: int) -> tuple[Any, Any, Any]:
    """Store a group's q; Σ w·g·q, Σ (g·q)², Σ g·q."""
    zero = v_splat(np.float32(0))
    across, square, total, inverse = zero, zero, zero, v_splat(np.float32(1) / (factor * scale))
    stored = v_splat(np.float32(-128))  # bytes are stored with 128 added
    for at in range(0, GROUP, LANES):
        values = v_load(weights + 4 * at)
        q = _steps(values, inverse)
        whole = v_mul(q, v_splat(factor))
        across, square, total = v_fma(values, whole, across), v_fma(whole, whole, square), v_add(whole, total)
        store_bytes(steps + at, v_add(q, stored), np.float32(1), 4)
    return v_sum(across), v_sum(square), v_sum(total)


class Rounded(NamedTuple):
    """Four-bit rows: q, a factor g for each 32, Σ g·q of each row, and scales."""

    steps_NK: Int8s
    factors_NG: Int8s
    sums_N: Int32s
    scales_N: Floats


def round_matrix(weight_NK: Floats) -> Rounded:
    """Rows rounded each by itself."""
    count, size = weight_NK.shape
    steps_NK, factors_NG = np.empty((count, size), np.int8), np.empty((count, size // GROUP), np.int8)
    sums_N, scales_N = np.empty(count, np.int32), np.empty(count, np.float32)
    round_rows(np.ascontiguousarray(weight_NK), steps_NK, factors_NG, sums_N, scales_N)
    return Rounded(steps_NK, factors_NG, sums_N, scales_N)


def pack_rows(weight_NK: Floats, kind: DotKind) -> tuple[Int8s, Int32s, Floats]:
    """Rounded weights as [block][K/32][line], Σ w · 128, scales; the last block is filled up with zeros."""
    return lay_out(round_matrix(weight_NK), kind)


def lay_out(rounded: Rounded, kind: DotKind) -> tuple[Int8s, Int32s, Floats]:
    """As `pack_rows`, for rows that are rounded already."""
    steps_NK, factors_NG, sums_N, scales_N = rounded
    count, size = steps_NK.shape
    block = kind.vectors * LANES
    blocks, lines = -(-count // block), size // GROUP
    extra = (0, blocks * block - count)
    if extra[1]:
        steps_NK, factors_NG = np.pad(steps_NK, (extra, (0, 0))), np.pad(factors_NG, (extra, (0, 0)))
    packed = np.empty((blocks, lines, kind.line_bytes), np.uint8)
    packed[:, :, :block] = factors_NG.view(np.uint8).reshape(blocks, block, lines).transpose(0, 2, 1)
    fours = (steps_NK.view(np.uint32) & np.uint32(0x0F0F0F0F)).reshape(blocks, block, lines, GROUP // 8, 2)
    pairs = (fours[..., 0] | fours[..., 1] << np.uint32(4)).transpose(0, 2, 3, 1)
    packed[:, :, block:] = np.ascontiguousarray(pairs).view(np.uint8).reshape(blocks, lines, -1)
    return packed.view(np.int8), np.pad(sums_N * np.int32(128), extra), np.pad(scales_N, extra)


def unpack_some(packed: Int8s, rows_M: Int64s, kind: DotKind) -> Int8s:
    """The bytes g·q, [M, K], of some rows of `lay_out`'s result; reads nothing else."""
    blocks, lines, _ = packed.shape
    columns = kind.vectors * LANES
    blocks_M, columns_M = np.divmod(rows_M, columns)
    factors_MG = packed[blocks_M, :, columns_M]
    pairs = packed[:, :, columns:].reshape(blocks, lines, GROUP // 8, columns, 4)[blocks_M, :, :, columns_M]
    steps = np.stack([pairs << 4 >> 4, pairs >> 4], axis=3)  # [row, line, piece, half, 4], signs kept
    return (factors_MG[:, :, None, None, None] * steps).reshape(len(rows_M), lines * GROUP)


def unpack_rows(packed: Int8s, kind: DotKind) -> Int8s:
    """The bytes g·q, [N, K], of packed weights: the result of `unfold`, in plain numpy."""
    return unpack_some(packed, np.arange(len(packed) * kind.vectors * LANES), kind)
