"""Merging parts without sorting again: interleaves their orders and drops dead files.

The result is written to its final place (`MergeTarget`), so memory beyond mapped files does not grow with the parts.

Two places are compared by at most `DEPTH` tokens before them, and then by their parts. So after a merge the order is
exact for contexts of up to `DEPTH` tokens, which bounds `n_max`; copies of whole files cost no more than other files.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core.arrays import Int64s
from fastcoder_lsp.index.part import MOST_TOKENS, FileRecord, Liveness, Part, Tokens32, file_starts, fill
from fastcoder_lsp.index.search_kernel import int32_array, int64_array, uint64_array
from fastcoder_lsp.kernels import NONE, inner, kernel

DEPTH = 64
GROWTH = 3  # a segment is settled while it is more than this many times as large as all smaller ones together
DEAD_SHARE = 0.25  # a segment with a larger dead share is rewritten
TOGETHER = 6  # most segments in one merge: every entry is compared with all of them
_STRIDE = 1 << 16

_TOKENS, _SIZE, _ORDER, _ENTRIES, _BITS, _STARTS, _SHIFTS, _FILES = range(8)


def segments_to_merge(sizes: Sequence[int], dead: Sequence[int]) -> list[int]:
    """The segments to merge now by live and dead tokens: several, a single one worth rewriting, or none."""
    ordered = sorted(range(len(sizes)), key=lambda i: sizes[i])
    chosen: list[int] = []
    below = 0
    for count, index in enumerate(ordered):
        if below + sizes[index] > MOST_TOKENS:
            break
        if count and sizes[index] <= GROWTH * below:
            chosen = ordered[: count + 1]
        below += sizes[index]
    if chosen:
        return chosen[:TOGETHER]
    return next(([i] for i in ordered if dead[i] > DEAD_SHARE * sizes[i]), [])


class MergeTarget(Protocol):
    """The destination of a merged part: arrays in memory, or a segment's file."""

    tokens_N: Tokens32
    order_M: Tokens32

    def finish(self) -> Part:
        """The part, once both arrays are filled."""

    def discard(self) -> None:
        """Cancel the merge and delete its output."""


MakeRoom: TypeAlias = Callable[[Int64s, tuple[FileRecord, ...], int], MergeTarget]
"""From `starts`, `records` and the number of entries."""


class MemoryRoom(MergeTarget):
    """Room for a part in memory."""

    def __init__(self, starts: Int64s, records: tuple[FileRecord, ...], entries: int) -> None:
        self._starts, self._records = starts, records
        self.tokens_N: Tokens32 = np.empty(int(starts[-1]), np.int32)
        self.order_M: Tokens32 = np.empty(entries, np.int32)

    @override
    def finish(self) -> Part:
        return Part(self.tokens_N, self.order_M, self._starts, self._records)

    @override
    def discard(self) -> None:
        pass  # the arrays go with the object


def weave(
    parts: Sequence[Part],
    dead: Sequence[frozenset[int]],
    live: Sequence[Liveness | None],
    make_room: MakeRoom = MemoryRoom,
    should_stop: Callable[[], bool] = lambda: False,
) -> Part | None:
    """One part of the live files of several, in order, in memory of `make_room`; None if `should_stop` ended it."""
    kept = [
        [file for file in range(len(part.records)) if file not in out] for part, out in zip(parts, dead, strict=True)
    ]
    files = [(part, file) for part, chosen in zip(parts, kept, strict=True) for file in chosen]
    starts = file_starts([len(part.tokens_of(file)) for part, file in files])
    entries = sum(len(p.order_M) if b is None else b.live for p, b in zip(parts, live, strict=True))
    room = make_room(starts, tuple(part.records[file] for part, file in files), entries)
    fill([part.tokens_of(file) for part, file in files], starts, room.tokens_N)
    shifts, at = [], 0
    for part, chosen in zip(parts, kept, strict=True):
        shift = np.zeros(len(part.records) + 1, np.int64)
        shift[chosen] = starts[at : at + len(chosen)] - part.starts[chosen]
        shifts.append(shift)
        at += len(chosen)
    rows_P8 = np.array([_row(*row) for row in zip(parts, live, shifts, strict=True)], np.int64)
    heads_P, keys_P, done = np.zeros(len(parts), np.int64), np.zeros(len(parts), np.uint64), 0
    _begin(rows_P8, heads_P, keys_P)
    while done < entries:
        if should_stop():
            room.discard()
            return None
        done = _weave(rows_P8, heads_P, keys_P, room.order_M, done, min(entries, done + _STRIDE), DEPTH)
    return room.finish()


def _row(part: Part, live: Liveness | None, shifts: Int64s) -> tuple[int, ...]:
    bits = 0 if live is None else live.bits.ctypes.data
    tokens, order, starts = part.tokens_N.ctypes.data, part.order_M.ctypes.data, part.starts.ctypes.data
    return tokens, len(part.tokens_N), order, len(part.order_M), bits, starts, shifts.ctypes.data, len(part.records)


@kernel
def _begin(rows_P8: Any, heads_P: Any, keys_P: Any) -> None:
    for p in range(len(rows_P8)):
        _settle(rows_P8, p, heads_P, keys_P)


@inner
def _settle(rows_P8: Any, p: Any, heads_P: Any, keys_P: Any) -> None:
    """Move a part's head to its next live entry, and note the two tokens before it as one number."""
    row, head = rows_P8[p], heads_P[p]
    if row[_BITS] != 0:
        bits = uint64_array(row[_BITS], (row[_ENTRIES] + 63) // 64)
        while head < row[_ENTRIES] and not (bits[head >> 6] >> np.uint64(head & 63)) & np.uint64(1):
            head += 1
    heads_P[p] = head
    if head >= row[_ENTRIES]:
        keys_P[p] = np.uint64(0xFFFFFFFFFFFFFFFF)
        return
    tokens_N, order_M = int32_array(row[_TOKENS], row[_SIZE]), int32_array(row[_ORDER], row[_ENTRIES])
    place = np.int64(order_M[head])
    last, before = np.uint64(tokens_N[place - 1] + 1), np.uint64(tokens_N[place - 2] + 1)
    keys_P[p] = (last << np.uint64(32)) | before


@kernel
def _weave(rows_P8: Any, heads_P: Any, keys_P: Any, order_M: Any, done: Any, until: Any, depth: Any) -> Any:
    """Write the entries done…until of the merged order; heads and keys give each part's position."""
    while done < until:
        best: Any = NONE
        for p in range(1, len(rows_P8)):
            if keys_P[p] < keys_P[best] or (keys_P[p] == keys_P[best] and _below(rows_P8, heads_P, p, best, depth)):
                best = p
        row = rows_P8[best]
        place = np.int64(int32_array(row[_ORDER], row[_ENTRIES])[heads_P[best]])
        order_M[done] = place + _shift(row, place)
        done += 1
        heads_P[best] += 1
        _settle(rows_P8, best, heads_P, keys_P)
    return done


@inner
def _below(rows_P8: Any, heads_P: Any, p: Any, q: Any, depth: Any) -> Any:
    """Whether the head of part p comes before that of part q, where the two tokens before them are the same."""
    a, b = rows_P8[p], rows_P8[q]
    if heads_P[p] >= a[_ENTRIES] or heads_P[q] >= b[_ENTRIES]:
        return heads_P[p] < a[_ENTRIES]
    tokens_a, tokens_b = int32_array(a[_TOKENS], a[_SIZE]), int32_array(b[_TOKENS], b[_SIZE])
    place_a = np.int64(int32_array(a[_ORDER], a[_ENTRIES])[heads_P[p]])
    place_b = np.int64(int32_array(b[_ORDER], b[_ENTRIES])[heads_P[q]])
    for back in range(2, depth + 1):
        token_a, token_b = tokens_a[place_a - back], tokens_b[place_b - back]
        if token_a != token_b:
            return token_a < token_b
        if token_a < 0:
            return False
    return False


@inner
def _shift(row: Any, place: Any) -> Any:
    """The offset that the file at `place` moves by."""
    starts = int64_array(row[_STARTS], row[_FILES] + 1)
    low, high = 0, row[_FILES]
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= place:
            low = middle
        else:
            high = middle
    return int64_array(row[_SHIFTS], row[_FILES])[low]
