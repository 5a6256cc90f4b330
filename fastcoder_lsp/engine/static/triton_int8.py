"""The Triton kernels of a product with int8 weights: widened in registers, its columns split, the splits summed.

Owns no launch and no shape; its rules of names and constants are those of `triton_kernels`.
"""

import triton
import triton.language as tl

from fastcoder_lsp.engine.static.triton_order import after_the_last


@triton.jit(do_not_specialize=["width", "span"])
def int8_split(
    x,
    weight,
    partial,
    width,
    rows,
    columns,
    span,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """All rows of x with a block of the weight's rows, over one split of the columns."""
    after_the_last(PDL)
    block, split = tl.program_id(0), tl.program_id(1)
    t, n = tl.arange(0, WIDTH), block * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([WIDTH, ROWS], tl.float32)
    end = tl.minimum((split + 1) * span, columns)
    for first in range(split * span, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        inside = column < end
        left = tl.load(
            x + t[:, None] * columns + column[None, :], mask=(t < width)[:, None] & inside[None, :], other=0.0
        )
        right = tl.load(
            weight + n[:, None].to(tl.int64) * columns + column[None, :],
            mask=(n < rows)[:, None] & inside[None, :],
            other=0,
        )
        total += tl.dot(left, tl.trans(right.to(left.dtype)), input_precision="ieee")
    place = partial + (split * width + t[:, None]) * rows + n[None, :]
    tl.store(place, total, mask=(t < width)[:, None] & (n < rows)[None, :])


@triton.jit(do_not_specialize=["width", "splits"])
def int8_join(
    partial,
    scale,
    bias,
    out,
    width,
    rows,
    splits,
    BIASED: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """The sum over the splits, scaled, with the bias."""
    after_the_last(PDL)
    t, n = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = n < rows
    total = tl.zeros([BLOCK], tl.float32)
    for split in range(splits):
        total += tl.load(partial + (split * width + t) * rows + n, mask=inside, other=0.0)
    total = total * tl.load(scale + n, mask=inside, other=0.0).to(tl.float32)
    if BIASED:
        total += tl.load(bias + n, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + t * rows + n, total.to(out.dtype.element_ty), mask=inside)
