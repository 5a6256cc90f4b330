"""Following what every row says down the tree, and moving what was accepted together: a step's end, on the device.

Owns no launch and no shape; its rules of names and constants are those of `triton_kernels`. One program does it all,
for a walk is a few looks at numbers that it holds, and what is moved is a few slots.
"""

import triton
import triton.language as tl

from fastcoder_lsp.engine.static.triton_order import after_the_last

ROWS: tl.constexpr = tl.constexpr(128)
"""Rows of a step at most, all of which the walk holds at once."""


@triton.jit
def move_slot(slots, source, target, capacity, panels, length, PANELS: tl.constexpr, LANES: tl.constexpr) -> None:
    """One slot of every panel [capacity, length] to another place; so many panels and numbers of each in one go."""
    for first in range(0, panels, PANELS):
        panel = first + tl.arange(0, PANELS)
        start = panel.to(tl.int64)[:, None] * capacity * length
        for begin in range(0, length, LANES):
            lane = begin + tl.arange(0, LANES)
            inside = (panel < panels)[:, None] & (lane < length)[None, :]
            place = start + lane[None, :]
            moved = tl.load(slots + place + source * length, mask=inside, other=0.0)
            tl.store(slots + place + target * length, moved, mask=inside)


@triton.jit
def follow_tree(
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
) -> None:
    """Walk from the last decided row to guesses that say what the row above them says; keep and move what is right.

    Guesses that cannot be accepted hang from no row. What moves goes to where nothing that is still to be moved lies,
    for rows stand behind the rows above them.
    """
    row = tl.arange(0, ROWS)
    there = row < width
    says = tl.load(said + row, mask=there, other=-1, cache_modifier=".cg")
    guess = tl.load(tokens + row, mask=there, other=-1)
    above = tl.load(parents + row, mask=there, other=-2).to(tl.int32)
    held = tl.load(cached)
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
            target = decided + taken
            if child != target:
                move_slot(slots, held + child, held + target, capacity, panels, length, 16, 64)
                move_slot(states, held + child, held + target, capacity, state_panels, state_length, 2, 512)
                tl.debug_barrier()
            node = child
            taken += 1
    tl.store(kept, taken.to(tl.int64))


UNALIGNED = ["said", "tokens", "parents", "cached", "pending", "room", "kept"]
"""Places in a buffer that differ from one width to the next."""
SIZES = ["width", "capacity", "panels", "length", "state_panels", "state_length"]


@triton.jit(do_not_specialize=SIZES, do_not_specialize_on_alignment=UNALIGNED)
def follow_rows(
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
    PDL: tl.constexpr,
) -> None:
    """The same as a kernel, after whatever has decided what the rows say."""
    after_the_last(PDL)
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
