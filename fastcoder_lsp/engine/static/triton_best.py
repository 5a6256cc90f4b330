"""The Triton kernels that find every row's best ids: logits are read once, and then the few chunks that hold the best.

`conclude_rows` ends a step with it: what the rows say, which guesses that accepts, and their slots moved. Owns no
launch and no shape; its rules of names and constants are those of `triton_kernels`.
"""

import triton
import triton.language as tl

from fastcoder_lsp.engine.static.triton_follow import SIZES, UNALIGNED, follow_tree
from fastcoder_lsp.engine.static.triton_order import after_the_last

GONE: tl.constexpr = tl.constexpr(-0x80000000)
"""Below every logit's key."""


@triton.jit
def ascending(values):  # noqa: ANN201 Triton returns tensors of its own
    """Floats as integers that ascend with them; both zeros are one, and none of them is `GONE`."""
    wide = values.to(tl.float32)
    bits = tl.where(wide == 0.0, 0.0, wide).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def chunk_best(
    logits, highest, vocabulary, chunks, GROUP: tl.constexpr, CHUNK: tl.constexpr, PDL: tl.constexpr
) -> None:
    """The highest of each of some chunks of one row's logits."""
    after_the_last(PDL)
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
    SAID: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
) -> None:
    """One row's best ids, best first, equal ones by id: again and again the best of the chunk that has it.

    What is left of a row are the ids behind the last one in that order, and `highest` of what is left decides.
    """
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
        if SAID:  # noqa: SIM102 one is known when it is compiled, the other is not
            if place == 0:
                tl.store(said + row, found.to(tl.int64))
        last_key, last_id = key, found
        behind = (keys < last_key) | ((keys == last_key) & (id_ > last_id))
        rest = tl.max(tl.where(behind, keys, GONE), axis=0)
        left = tl.where(chunk == chosen, rest, left)


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
    PDL: tl.constexpr,
) -> None:
    """One row's best ids, and no more."""
    after_the_last(PDL)
    row = tl.program_id(0).to(tl.int64)
    best_of_row(logits, highest, ids, values, ids, row, vocabulary, chunks, COUNT, VALUED, False, CHUNKS, CHUNK)


@triton.jit(do_not_specialize=SIZES, do_not_specialize_on_alignment=["ids", "values", *UNALIGNED])
def conclude_rows(
    logits,
    highest,
    ids,
    values,
    arrived,
    said,
    tokens,
    parents,
    cached,
    pending,
    room,
    kept,
    slots,
    states,
    width,
    capacity,
    panels,
    length,
    state_panels,
    state_length,
    vocabulary,
    chunks,
    COUNT: tl.constexpr,
    VALUED: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """One row's best ids and what it says; the program that comes last follows the tree and moves what was accepted.

    `arrived` is 0 before and after. The barrier has all of a program's stores done before it is counted, and the count
    has them seen by whoever counts later.
    """
    after_the_last(PDL)
    row = tl.program_id(0).to(tl.int64)
    best_of_row(logits, highest, ids, values, said, row, vocabulary, chunks, COUNT, VALUED, True, CHUNKS, CHUNK)
    tl.debug_barrier()
    before = tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu")
    if before == width - 1:
        tl.store(arrived, 0)
        follow_tree(
            said,
            tokens,
            parents,
            cached,
            pending,
            room,
            kept,
            slots,
            states,
            width,
            capacity,
            panels,
            length,
            state_panels,
            state_length,
        )
