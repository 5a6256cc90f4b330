"""Tests at every start whether this CPU's byte products are exact, on the values where saturation would show."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fastcoder_lsp.core.arrays import Int8s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int4.rounding import unpack_rows
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind, in_four_bits, kinds_here, unfolded_bytes
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, matrices
from fastcoder_lsp.engine.int8.product import LOOKED_UP, make_block
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.kernels import KernelCache, tagged

GROUPS = 1216  # fours of bytes in a row of the test: as long as the longest row of the 0.5B model


def exact_kind(shape: Shape, kernels: Path, bits: int = 8) -> DotKind | None:
    """The fastest kind of byte product that can run a model and is exact here; later kinds are not compiled."""
    return next((kind for kind in fitting_kinds(shape, bits) if found_exact(kind, kernels)), None)


def fitting_kinds(shape: Shape, bits: int = 8) -> Iterator[DotKind]:
    """The kinds that can run a model on this CPU, the fastest first; untested."""
    sizes = [matrix.columns for matrix in matrices(shape)]
    here = kinds_here() if bits == 8 else map(in_four_bits, kinds_here())
    return (kind for kind in here if not any(size % kind.step for size in sizes))


@cache
def found_exact(kind: DotKind, kernels: Path) -> bool:
    """Whether a kind gives the right integers here; tested once per process."""
    return is_exact(kind, kernels) and (kind.in_bytes is None or found_exact(kind.in_bytes, kernels))


def is_exact(kind: DotKind, kernels: Path) -> bool:
    """Compare a tile of the largest and of mixed values with 64-bit integers."""
    columns = kind.vectors * LANES
    most = kind.rows
    if kind.bits == 4:
        most = LOOKED_UP if kind.looks_up else 2 * kind.rows if kind.grouped else kind.rows
    bytes_MK = np.full((most, GROUPS * 4), 255, dtype=np.uint8)
    weights_NK = np.full((columns, GROUPS * 4), 127, dtype=np.int8)
    bytes_MK[1::2, ::3], weights_NK[1::3], weights_NK[2::3, ::2] = 1, -127, -127
    if kind.bits == 4:
        block, weights_NK = _block_of_four_bits(kind)
    else:
        block = aligned((GROUPS * 4 // kind.line, columns, kind.line), np.int8)
        block[:] = weights_NK.reshape(columns, -1, kind.line).transpose(1, 0, 2)
    unfolded = aligned((unfolded_bytes(kind, GROUPS * 4),), np.int8)
    zeros_N, ones = np.zeros(columns, dtype=np.float32), np.ones(max(columns, most), dtype=np.float32)
    sums_N = weights_NK.sum(axis=1, dtype=np.int32) * np.int32(128)
    expected_MN = ((bytes_MK.astype(np.int64) - 128) @ weights_NK.T.astype(np.int64)).astype(np.float32)
    trial = _make_trial(kind)
    KernelCache.attach(trial, lambda: kernels, f"trial-{kind.name}")
    for count in sorted({1, kind.rows // 2, kind.rows, most}):  # other numbers of rows are other code
        out_MN, panel = np.zeros((count, columns), dtype=np.float32), kind.panel_of(count)
        panels = aligned((-(-count // panel), GROUPS, panel, 4), kind.number)
        for row in range(count):
            panels[row // panel, :, row % panel] = bytes_MK[row].reshape(GROUPS, 4)
        trial(panels, block, sums_N, ones, ones, zeros_N, out_MN, unfolded)
        if not (out_MN == expected_MN[:count]).all():
            return False
    return True


def _block_of_four_bits(kind: DotKind) -> tuple[Array, Int8s]:
    """A block that holds every factor with every code, the largest of both first, and the bytes that it stands for."""
    columns = kind.vectors * LANES
    block = aligned((GROUPS * 4 // GROUP, kind.line_bytes), np.uint8)
    block[:, columns:] = np.arange(block[:, columns:].size).reshape(len(block), -1) * 37 % 256
    block[:, :columns] = (np.arange(len(block) * columns).reshape(len(block), columns) * 7 % 31 - 15).astype(np.uint8)
    block[:8, :columns], block[:8, columns:] = 15, 0x88
    packed: Int8s = block.view(np.int8)
    return packed, unpack_rows(packed[None], kind)


def _make_trial(kind: DotKind) -> Any:
    tag = kind.name.replace("-", "_")
    begin, multiply_block, end = make_block(kind, f"{tag}_trial", add=False)

    @tagged(tag, called=True)
    def trial(
        x: Array, w: Array, sums: Array, scales: Array, row_scales: Array, biases: Array, out: Array, unfolded: Array
    ) -> None:
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

    return trial
