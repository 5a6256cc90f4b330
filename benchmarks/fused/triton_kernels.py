"""The Triton kernels, one program's work each: attention of a tree, and the end of a step.

All sums are in fp32, results in the tensors' own precision. Capital arguments are compile-time constants; a pointer has
the name of its tensor. Values that differ between widths or models are neither constants nor specialised on, since each
would compile anew. The end of a step reads the logits once, and then the few chunks that hold the best ids.
"""

import triton
import triton.language as tl

NOWHERE: tl.constexpr = tl.constexpr(-1e30)
"""The score of a masked slot; finite, so that differences of two of them are numbers."""
GONE: tl.constexpr = tl.constexpr(-0x80000000)  # below every logit's key


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
    # The place of each row in the walk, and how far rows see the cached text: see `step_io`.
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
def join_splits(sums, scales, out, width, splits, heads, DIM: tl.constexpr, SPLITS: tl.constexpr) -> None:
    """One head of one row over all splits, each weighted by its share of the softmax."""
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
def ascending(values):  # noqa: ANN201 Triton returns tensors of its own
    """Floats as integers in the same order; −0 and 0 give the same integer, and no float gives `GONE`."""
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
def best_of_row(
    logits,
    highest,
    ids,
    values,
    said,
    row,
    vocabulary,
    chunks,
    COUNT: tl.constexpr,
    VALUED: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    """One row's best ids, best first, equal ones by id: repeatedly the best of the chunk that has it."""
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
        if place == 0:
            tl.store(said + row, found.to(tl.int64))
        last_key, last_id = key, found
        behind = (keys < last_key) | ((keys == last_key) & (id_ > last_id))
        rest = tl.max(tl.where(behind, keys, GONE), axis=0)
        left = tl.where(chunk == chosen, rest, left)


ROWS: tl.constexpr = tl.constexpr(128)  # most rows of a step: the walk holds all of them at once


@triton.jit
def follow_tree(said, tokens, parents, pending, room, kept, width) -> None:
    """Walk from the last pending row to drafts equal to the choice above; write how many, and which."""
    row = tl.arange(0, ROWS)
    there = row < width
    says = tl.load(said + row, mask=there, other=-1, cache_modifier=".cg")
    guess = tl.load(tokens + row, mask=there, other=-1)
    above = tl.load(parents + row, mask=there, other=-2).to(tl.int32)
    decided = tl.load(pending).to(tl.int32)
    most = tl.load(room).to(tl.int32)
    node = decided - 1
    taken = decided * 0
    going = decided > 0
    while going:
        token = tl.sum(tl.where(row == node, says, 0), axis=0)
        child = tl.min(tl.where((above == node) & (guess == token), row, ROWS), axis=0)
        going = (child < ROWS) & (taken < most)
        if going:
            tl.store(kept + 1 + taken, child.to(tl.int64))
            node = child
            taken += 1
    tl.store(kept, taken.to(tl.int64))


UNALIGNED = ["ids", "values", "said", "tokens", "parents", "pending", "room", "kept"]
"""Places in a buffer that differ between widths."""


@triton.jit(do_not_specialize=["width"], do_not_specialize_on_alignment=UNALIGNED)
def conclude_rows(
    logits,
    highest,
    ids,
    values,
    arrived,
    said,
    tokens,
    parents,
    pending,
    room,
    kept,
    width,
    vocabulary,
    chunks,
    COUNT: tl.constexpr,
    VALUED: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    """One row's best ids and its choice; the program that finishes last follows the tree.

    `arrived` is 0 before and after. The barrier orders all of a program's stores before its count, and the atomic count
    makes them visible to programs that count later.
    """
    row = tl.program_id(0).to(tl.int64)
    best_of_row(logits, highest, ids, values, said, row, vocabulary, chunks, COUNT, VALUED, CHUNKS, CHUNK)
    tl.debug_barrier()
    before = tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu")
    if before == width - 1:
        tl.store(arrived, 0)
        follow_tree(said, tokens, parents, pending, room, kept, width)


@triton.jit(
    do_not_specialize=["capacity", "panels", "length"], do_not_specialize_on_alignment=["cached", "pending", "kept"]
)
def move_accepted(
    slots, cached, pending, kept, capacity, panels, length, PANELS: tl.constexpr, LANES: tl.constexpr
) -> None:
    """Move the accepted rows' slots behind the pending ones, in some panels [capacity, length].

    No move overwrites a slot that is still to be moved, since rows come after the rows above them; and the same thread
    reads and writes each number of a panel, so that the moves need no barrier between them.
    """
    panel = tl.program_id(0) * PANELS + tl.arange(0, PANELS)
    start = panel.to(tl.int64)[:, None] * capacity * length
    held, decided, taken = tl.load(cached), tl.load(pending), tl.load(kept)
    for place in range(taken):
        child, target = tl.load(kept + 1 + place), decided + place
        if child != target:
            for begin in range(0, length, LANES):
                lane = begin + tl.arange(0, LANES)
                inside = (panel < panels)[:, None] & (lane < length)[None, :]
                numbers = slots + start + lane[None, :]
                moved = tl.load(numbers + (held + child) * length, mask=inside, other=0.0)
                tl.store(numbers + (held + target) * length, moved, mask=inside)
