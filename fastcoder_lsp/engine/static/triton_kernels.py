"""The Triton kernels of a layer, one program's work each; all sums in fp32, results in the tensors' own precision.

Owns no launch and no shape. Capital arguments are compile-time constants; a pointer has the name of its tensor.
What differs from one width or model to the next is no constant and not specialised on, or each would be compiled anew.
"""

import triton
import triton.language as tl

from fastcoder_lsp.engine.static.triton_order import after_the_last

NOWHERE: tl.constexpr = tl.constexpr(-1e30)
"""A score that counts for nothing; finite, so that differences of two of them are numbers."""


@triton.jit
def add_norm(
    x,
    change,
    out,
    scale,
    offset,
    width,
    eps,
    ADD: tl.constexpr,
    CENTRED: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """One row: add the change to x, in place, and normalise the sum."""
    after_the_last(PDL)
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    values = tl.load(x + row + columns, mask=inside, other=0.0)
    if ADD:
        values = (values.to(tl.float32) + tl.load(change + row + columns, mask=inside, other=0.0).to(tl.float32)).to(
            values.dtype
        )
        tl.store(x + row + columns, values, mask=inside)
    wide = values.to(tl.float32)
    if CENTRED:
        wide = tl.where(inside, wide - tl.sum(wide, axis=0) / width, 0.0)
    wide = wide / tl.sqrt(tl.sum(wide * wide, axis=0) / width + eps)
    wide = wide * tl.load(scale + columns, mask=inside, other=0.0).to(tl.float32)
    if CENTRED:
        wide += tl.load(offset + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row + columns, wide.to(values.dtype), mask=inside)


@triton.jit(do_not_specialize=["heads", "kv_heads"], do_not_specialize_on_alignment=["positions", "slots"])
def rotate_store(
    qkv,
    cos,
    sin,
    positions,
    slots,
    q,
    keys,
    values,
    head_stride,
    heads,
    kv_heads,
    HALF: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """One head of one row: queries and keys are rotated, keys and values go to their slot."""
    after_the_last(PDL)
    row, head = tl.program_id(0), tl.program_id(1)
    first = tl.arange(0, HALF)
    start = (row * (heads + 2 * kv_heads) + head) * 2 * HALF
    low, high = tl.load(qkv + start + first), tl.load(qkv + start + HALF + first)
    slot = tl.load(slots + row) * 2 * HALF
    if head < heads + kv_heads:
        angle = tl.load(positions + row) * 2 * HALF
        cosine = tl.load(cos + angle + first).to(tl.float32)
        sine = tl.load(sin + angle + first).to(tl.float32)
        turned_low = low.to(tl.float32) * cosine - high.to(tl.float32) * sine
        turned_high = high.to(tl.float32) * cosine + low.to(tl.float32) * sine
        if head < heads:
            place = q + (row * heads + head) * 2 * HALF
        else:
            place = keys + (head - heads) * head_stride + slot
        tl.store(place + first, turned_low.to(low.dtype))
        tl.store(place + HALF + first, turned_high.to(low.dtype))
    else:
        place = values + (head - heads - kv_heads) * head_stride + slot
        tl.store(place + first, low)
        tl.store(place + HALF + first, high)


@triton.jit(
    do_not_specialize=["width", "span", "splits", "blocks", "heads", "group"],
    do_not_specialize_on_alignment=["stretches"],
)
def attend_split(
    q,
    keys,
    values,
    stretches,
    cached,
    sums,
    scales,
    head_stride,
    factor,
    width,
    span,
    splits,
    blocks,
    heads,
    group,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """One key/value head, a block of its folded rows (query head of the group × row), one split of the slots."""
    after_the_last(PDL)
    kv, block, split = tl.program_id(0) // blocks, tl.program_id(0) % blocks, tl.program_id(1)
    folded = block * ROWS + tl.arange(0, ROWS)
    inside = folded < group * width
    head, row = kv * group + folded // width, folded % width
    dims = tl.arange(0, DIM)
    held = tl.load(cached).to(tl.int32)
    # Where each row stands in the walk, and how far what sees the cached text reaches: see `layout`.
    place_of_row = tl.load(stretches + 1 + row).to(tl.int32)
    real = place_of_row < tl.load(stretches + width + 2).to(tl.int32)
    queries = tl.load(q + (row * heads + head)[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
    best = tl.full([ROWS], NOWHERE, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, DIM], tl.float32)
    start = split * span
    end = tl.minimum(start + span, held + width)
    for tile in range(start, end, TILE):
        slot = tile + tl.arange(0, TILE)
        place = kv * head_stride + slot[:, None] * DIM + dims[None, :]
        known = slot < held + width
        key = tl.load(keys + place, mask=known[:, None], other=0.0)
        scores = tl.dot(queries, tl.trans(key), input_precision="ieee") * factor
        beyond = slot - held
        in_tree = (beyond >= 0) & known
        enter = tl.load(stretches + 1 + beyond, mask=in_tree, other=1).to(tl.int32)
        leave = tl.load(stretches + width + 3 + beyond, mask=in_tree, other=0).to(tl.int32)
        above = (place_of_row[:, None] >= enter[None, :]) & (place_of_row[:, None] < leave[None, :])
        sees = above | (real[:, None] & (beyond < 0)[None, :])
        scores = tl.where(sees, scores, NOWHERE)
        higher = tl.maximum(best, tl.max(scores, axis=1))
        weights = tl.where(sees, tl.exp(scores - higher[:, None]), 0.0)
        shrink = tl.exp(best - higher)
        value = tl.load(values + place, mask=known[:, None], other=0.0)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        total = total * shrink + tl.sum(weights, axis=1)
        best = higher
    target = (split * heads + head) * width + row
    tl.store(sums + target[:, None] * DIM + dims[None, :], mixed, mask=inside[:, None])
    tl.store(scales + target, best, mask=inside)
    tl.store(scales + splits * heads * width + target, total, mask=inside)


@triton.jit(do_not_specialize=["width", "splits", "heads"])
def join_splits(
    sums,
    scales,
    out,
    width,
    splits,
    heads,
    DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """One head of one row over all splits, each weighed by how much of the softmax it saw."""
    after_the_last(PDL)
    row, head = tl.program_id(0), tl.program_id(1)
    split, dims = tl.arange(0, SPLITS), tl.arange(0, DIM)
    there = split < splits
    place = (split * heads + head) * width + row
    best = tl.load(scales + place, mask=there, other=NOWHERE)
    weight = tl.where(there, tl.exp(best - tl.max(best, axis=0)), 0.0)
    total = tl.load(scales + splits * heads * width + place, mask=there, other=0.0)
    mixed = tl.load(sums + place[:, None] * DIM + dims[None, :], mask=there[:, None], other=0.0)
    found = tl.sum(mixed * weight[:, None], axis=0) / tl.sum(total * weight, axis=0)
    tl.store(out + (row * heads + head) * DIM + dims, found.to(out.dtype.element_ty))


@triton.jit
def activate(inner, out, columns, GATED: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr) -> None:
    """A stretch of one row: silu(gate)·up, or tanh-GELU."""
    after_the_last(PDL)
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    if GATED:
        gate = tl.load(inner + row * 2 * columns + column, mask=inside, other=0.0).to(tl.float32)
        up = tl.load(inner + row * 2 * columns + columns + column, mask=inside, other=0.0).to(tl.float32)
        result = gate / (1.0 + tl.exp(-gate)) * up
    else:
        x = tl.load(inner + row * columns + column, mask=inside, other=0.0).to(tl.float32)
        # tanh(y) = 1 - 2 / (exp(2y) + 1), with y the cubic of the tanh form of GELU
        cubic = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        result = x * (1.0 - 1.0 / (tl.exp(2.0 * cubic) + 1.0))
    tl.store(out + row * columns + column, result.to(out.dtype.element_ty), mask=inside)
