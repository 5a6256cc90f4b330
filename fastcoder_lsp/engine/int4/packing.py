"""Rows as four-bit weights in the order of the kernels; `unfold` defines a line."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.engine.int4.rounding import round_rows
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.simd import LANES

Floats = npt.NDArray[np.float32]


class Rounded(NamedTuple):
    """Four-bit rows: q, a factor g for each 32, Σ g·q of each row, and scales."""

    steps_NK: npt.NDArray[np.int8]
    factors_NG: npt.NDArray[np.int8]
    sums_N: npt.NDArray[np.int32]
    scales_N: Floats


def round_matrix(weight_NK: Floats, importance_K: Floats | None = None) -> Rounded:
    """Rows rounded each by itself; `importance_K`: weights of errors, None for equal ones."""
    count, size = weight_NK.shape
    steps_NK, factors_NG = np.empty((count, size), np.int8), np.empty((count, size // GROUP), np.int8)
    sums_N, scales_N = np.empty(count, np.int32), np.empty(count, np.float32)
    if importance_K is None:
        importance_K = np.ones(size, np.float32)
    round_rows(np.ascontiguousarray(weight_NK), importance_K, steps_NK, factors_NG, sums_N, scales_N)
    return Rounded(steps_NK, factors_NG, sums_N, scales_N)


def pack_rows(
    weight_NK: Floats, kind: DotKind, importance_K: Floats | None = None
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32], Floats]:
    """Rounded weights as [block][K/32][line], Σ w · 128, scales; the last block is filled up with zeros."""
    return lay_out(round_matrix(weight_NK, importance_K), kind)


def lay_out(rounded: Rounded, kind: DotKind) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32], Floats]:
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


def unpack_some(packed: npt.NDArray[np.int8], rows_M: npt.NDArray[np.int64], kind: DotKind) -> npt.NDArray[np.int8]:
    """The bytes g·q, [M, K], of some rows of `lay_out`'s result; reads nothing else."""
    blocks, lines, _ = packed.shape
    columns = kind.vectors * LANES
    blocks_M, columns_M = np.divmod(rows_M, columns)
    factors_MG = packed[blocks_M, :, columns_M]
    pairs = packed[:, :, columns:].reshape(blocks, lines, GROUP // 8, columns, 4)[blocks_M, :, :, columns_M]
    steps = np.stack([pairs << 4 >> 4, pairs >> 4], axis=3)  # [row, line, piece, half, 4], signs kept
    return (factors_MG[:, :, None, None, None] * steps).reshape(len(rows_M), lines * GROUP)


def unpack_rows(packed: npt.NDArray[np.int8], kind: DotKind) -> npt.NDArray[np.int8]:
    """The bytes g·q, [N, K], of packed weights: the result of `unfold`, in plain numpy."""
    blocks, lines, _ = packed.shape
    block = kind.vectors * LANES
    factors = packed[:, :, :block].reshape(blocks, lines, 1, 1, block, 1)
    pairs = packed[:, :, block:].reshape(blocks, lines, GROUP // 8, block, 4)
    steps = np.stack([pairs << 4 >> 4, pairs >> 4], axis=3)  # [block, line, piece, half, column, 4], signs kept
    return (factors * steps).transpose(0, 4, 1, 2, 3, 5).reshape(blocks * block, lines * GROUP)
