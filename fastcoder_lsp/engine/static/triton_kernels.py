"""The Triton kernels of `fused`, one program's work each; all sums in fp32, results in the tensors' own precision.

Owns no launch and no shape. Capital arguments are compile-time constants; a pointer has the name of its tensor.
What differs from one width or model to the next is no constant and not specialised on, or each would be compiled anew.
"""

import triton
import triton.language as tl

NOWHERE: tl.constexpr = tl.constexpr(-1e30)
"""A score that counts for nothing; finite, so that differences of two of them are numbers."""
GONE: tl.constexpr = tl.constexpr(-0x80000000)
"""Below every logit's key."""


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
) -> None:
    """One row: add the change to x, in place, and normalise the sum."""
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
) -> None:
    """One head of one row: queries and keys are rotated, keys and values go to their slot."""
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
) -> None:
    """One key/value head, a block of its folded rows (query head of the group × row), one split of the slots."""
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
) -> None:
    """One head of one row over all splits, each weighed by how much of the softmax it saw."""
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
def activate(inner, out, columns, GATED: tl.constexpr, BLOCK: tl.constexpr) -> None:
    """A stretch of one row: silu(gate)·up, or tanh-GELU."""
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


@triton.jit
def ascending(values):  # noqa: ANN201 Triton returns tensors of its own
    """Floats as integers that ascend with them; both zeros are one, and none of them is `GONE`."""
    wide = values.to(tl.float32)
    bits = tl.where(wide == 0.0, 0.0, wide).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def chunk_best(logits, highest, vocabulary, chunks, GROUP: tl.constexpr, CHUNK: tl.constexpr) -> None:
    """The highest of each of some chunks of one row's logits."""
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    ids = chunk[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    inside = ids < vocabulary
    keys = ascending(tl.load(logits + row * vocabulary + ids, mask=inside, other=0.0))
    tl.store(highest + row * chunks + chunk, tl.max(tl.where(inside, keys, GONE), axis=1), mask=chunk < chunks)


@triton.jit
def best_rows(
    logits,
    highest,
    ids,
    values,
    vocabulary,
    chunks,
    COUNT: tl.constexpr,
    VALUED: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    """One row's best ids, best first, equal ones by id: again and again the best of the chunk that has it.

    What is left of a row are the ids behind the last one in that order, and `highest` of what is left decides.
    """
    row = tl.program_id(0).to(tl.int64)
    chunk, within = tl.arange(0, CHUNKS), tl.arange(0, CHUNK)
    left = tl.load(highest + row * chunks + chunk, mask=chunk < chunks, other=GONE)
    last_key = tl.full([], 0x7FFFFFFF, tl.int32)
    last_id = tl.full([], -1, tl.int32)
    for place in range(COUNT):
        key = tl.max(left, axis=0)
        chosen = tl.min(tl.where(left == key, chunk, CHUNKS - 1), axis=0)
        id_ = chosen * CHUNK + within
        inside = id_ < vocabulary
        keys = tl.where(inside, ascending(tl.load(logits + row * vocabulary + id_, mask=inside, other=0.0)), GONE)
        open_ = (keys < last_key) | ((keys == last_key) & (id_ > last_id))
        found = tl.min(tl.where(open_ & (keys == key), id_, vocabulary - 1), axis=0)
        tl.store(ids + row * COUNT + place, found.to(ids.dtype.element_ty))
        if VALUED:
            bits = key ^ ((key >> 31) & 0x7FFFFFFF)
            tl.store(values + row * COUNT + place, bits.to(tl.float32, bitcast=True))
        last_key, last_id = key, found
        behind = (keys < last_key) | ((keys == last_key) & (id_ > last_id))
        rest = tl.max(tl.where(behind, keys, GONE), axis=0)
        left = tl.where(chunk == chosen, rest, left)


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
) -> None:
    """All rows of x with a block of the weight's rows, over one split of the columns."""
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
) -> None:
    """The sum over the splits, scaled, with the bias."""
    t, n = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = n < rows
    total = tl.zeros([BLOCK], tl.float32)
    for split in range(splits):
        total += tl.load(partial + (split * width + t) * rows + n, mask=inside, other=0.0)
    total = total * tl.load(scale + n, mask=inside, other=0.0).to(tl.float32)
    if BIASED:
        total += tl.load(bias + n, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + t * rows + n, total.to(out.dtype.element_ty), mask=inside)
