"""A single product of rows with a drafter's weights, by the kernels of the model.

Weights are rounded to bytes at construction, with a scale for each output, and rows with a scale for each row; the
caller's own thread computes, since a drafter's matrices are small.

Legend: T rows, N outputs, K inputs.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.engine.int8.dot import DotKind, kinds_here
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, pack_rows
from fastcoder_lsp.engine.int8.product import make_block
from fastcoder_lsp.engine.int8.selftest import found_exact
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.kernels import KernelCache, tagged

Linear = Callable[[Floats], Floats]


def packed_linear(weight_NK: Floats, kernels: Path) -> Linear:
    """The product of rows [T, K] with copied fp32 weights, rounded: [T, N]; in fp32 if K does not fit the kernels."""
    outputs, inputs = weight_NK.shape
    kind = _kind(inputs, kernels) if inputs % LANES == 0 else None
    if kind is None:
        return lambda x_TK: x_TK @ weight_NK.T
    weights, sums_N, scales_N = pack_rows(np.ascontiguousarray(weight_NK, np.float32), kind)
    blocks, sums, scales = (_aligned_copy(array) for array in (weights, sums_N, scales_N))
    function, zeros_N = _compiled(kind, kernels), aligned(scales.shape, np.float32)
    columns = kind.vectors * LANES

    def product(x_TK: Floats) -> Floats:
        out_TN = aligned((_filled(len(x_TK), kind), len(blocks) * columns), np.float32).view(np.float32)
        if len(x_TK):
            panels, row_scales = _rounded(x_TK, kind)
            function(panels, blocks, sums, scales, row_scales, zeros_N, out_TN, len(x_TK))
        return out_TN[: len(x_TK), :outputs]

    product(np.zeros((1, inputs), np.float32))
    return product


def _aligned_copy(array: Array) -> Array:
    found = aligned(array.shape, array.dtype.type)
    found[:] = array
    return found


def _rounded(x_TK: Floats, kind: DotKind) -> tuple[Array, Floats]:
    """Rows as whole numbers plus 128, as the kernels read them, [P, K/4, panel, 4]; and their scales."""
    rows, size = x_TK.shape
    peaks_T = np.maximum(np.abs(x_TK).max(axis=1), np.float32(1e-9))
    filled, panel = _filled(rows, kind), kind.panel_of(rows)
    panels = aligned((filled // panel, size // 4, panel, 4), kind.number)
    bytes_TK = np.zeros((filled, size), np.uint8)
    bytes_TK[:rows] = np.rint(x_TK * (np.float32(127) / peaks_T)[:, None]) + np.float32(128)
    panels[:] = bytes_TK.reshape(-1, panel, size // 4, 4).transpose(0, 2, 1, 3)
    scales = aligned((filled,), np.float32).view(np.float32)
    scales[:rows] = peaks_T * np.float32(1 / 127)
    return panels, scales


def _filled(rows: int, kind: DotKind) -> int:
    """The number of rows, padded to those that are computed together: the kernels write all of them."""
    each = max(kind.rows, kind.panel)
    return -(-rows // each) * each


def _kind(inputs: int, kernels: Path) -> DotKind | None:
    """The fastest kind for rows of this length, except tiles, which few rows do not fill."""
    fitting = (kind for kind in kinds_here() if not kind.tiled and inputs % kind.step == 0)
    return next((kind for kind in fitting if found_exact(kind, kernels)), None)


@cache
def _compiled(kind: DotKind, kernels: Path) -> Any:
    """`linear(panels, blocks, sums, scales, row_scales, biases, out, rows)`, once a process for each kind."""
    tag = f"{kind.name}_linear".replace("-", "_")
    begin, multiply_block, end = make_block(kind, tag, add=False)
    columns, line, line_bytes = kind.vectors * LANES, kind.line, kind.line_bytes

    @tagged(tag, called=True)
    def linear(
        x: Array, w: Array, sums: Array, scales: Array, row_scales: Array, biases: Array, out: Array, rows: int
    ) -> None:
        lines = w.shape[1]
        begin()
        for block in range(w.shape[0]):
            at = block * columns * 4
            multiply_block(
                x.ctypes.data,
                w.ctypes.data + block * lines * line_bytes,
                lines * line // 4,
                sums.ctypes.data + at,
                scales.ctypes.data + at,
                biases.ctypes.data + at,
                row_scales.ctypes.data,
                out.ctypes.data + at,
                out.strides[0],
                rows,
                w.ctypes.data,  # bytes need no room to be unpacked in
            )
        end()

    KernelCache.attach(linear, lambda: kernels, tag)
    return linear
