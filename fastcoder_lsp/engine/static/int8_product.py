"""Our product with int8 weights on a GPU: they are widened in registers, the columns split over programs.

Owns its launches; the kernels are `triton_int8`'s.
"""

import torch

from fastcoder_lsp.engine.static import triton_int8
from fastcoder_lsp.engine.static.triton_order import launch_order

MOST_INT8_ROWS = 64
"""Rows above which a product is bound by arithmetic, not by reading int8 weights."""


def int8_product(
    x_TE: torch.Tensor,
    weight_NE: torch.Tensor,
    scale_N: torch.Tensor,
    bias_N: torch.Tensor | None,
    units: int = 132,
    *,
    overlapped: bool = False,
) -> torch.Tensor:
    """x·Wᵀ·scale + bias for int8 weights with a scale a row, widened in registers; the columns split over programs."""
    order = launch_order(overlapped=overlapped)
    (width, columns), rows = x_TE.shape, len(weight_NE)
    block_rows, block_columns = 32, 128
    blocks, steps = -(-rows // block_rows), -(-columns // block_columns)
    splits = max(1, min(steps, 4 * units // blocks))
    span = -(-steps // splits) * block_columns
    splits = -(-columns // span)
    partial_STN = torch.empty(splits, width, rows, dtype=torch.float32, device=x_TE.device)
    out_TN = torch.empty(width, rows, dtype=x_TE.dtype, device=x_TE.device)
    triton_int8.int8_split[(blocks, splits)](
        x_TE,
        weight_NE,
        partial_STN,
        width,
        rows,
        columns,
        span,
        WIDTH=max(16, 1 << (width - 1).bit_length()),
        ROWS=block_rows,
        COLUMNS=block_columns,
        num_warps=8 if width > 16 else 4,  # four would spill registers at 64 rows
        **order,
    )
    block = 256
    triton_int8.int8_join[(width, -(-rows // block))](
        partial_STN,
        scale_N,
        scale_N if bias_N is None else bias_N,
        out_TN,
        width,
        rows,
        splits,
        BIASED=bias_N is not None,
        BLOCK=block,
        **order,
    )
    return out_TN
