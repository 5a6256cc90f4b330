"""The live entries of a part's order: a bit for each, with running counts.

A `Liveness` never changes: a change makes a new one, so a search that holds the old one sees no half of it. With the
counts a search skips any run of dead entries at once, and knows the number of live hits in a range without reading
them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.kernels import inner, kernel

_FEW = 4
Numbers = TypeVar("Numbers", npt.NDArray[np.int32], npt.NDArray[np.uint32])


@dataclass(frozen=True, slots=True)
class Liveness:
    """`bits` of 64 entries each, lowest bit first; `before[w]`: live entries in the words before w; `live`: all."""

    bits: npt.NDArray[np.uint64]
    before: npt.NDArray[np.int64]
    live: int


def liveness(
    order_M: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    dead: Iterable[int],
    previous: tuple[Liveness | None, Iterable[int]] = (None, ()),
) -> Liveness | None:
    """The liveness of a part whose files `dead` (indexes) must not be found; None if all live.

    `starts`: where the part's files begin (`part.file_starts`). `previous`: the last liveness, and the files that were
    dead in it; a small change is cheap.
    """
    now, (old, before) = set(dead), previous
    if not now:
        return None
    was = set(before) if old is not None else set()
    changed = now ^ was
    if len(changed) <= _FEW:
        bits = _all_live(len(order_M)) if old is None else old.bits.copy()
        for file in changed:
            first, end = np.uint32(starts[file]), np.uint32(starts[file + 1])
            _set_file(_read_only(order_M.view(np.uint32)), bits, first, end, file not in now)
    else:
        dead_N = np.zeros(int(starts[-1]), np.bool_)
        for file in now:
            dead_N[starts[file] : starts[file + 1]] = True
        bits = np.empty((len(order_M) + 63) // 64, np.uint64)
        _fill(_read_only(order_M), dead_N, bits)
    counts = np.zeros(len(bits) + 1, np.int64)
    _count(bits, counts)
    return Liveness(bits, counts, int(counts[-1]))


def _read_only(numbers_N: Numbers) -> Numbers:
    """Mapped arrays are read-only, those in memory are not: make them one kind, so that code is compiled once."""
    seen_N = numbers_N.view()
    seen_N.flags.writeable = False
    return seen_N


def _all_live(size: int) -> npt.NDArray[np.uint64]:
    bits = np.full((size + 63) // 64, np.uint64(0xFFFFFFFFFFFFFFFF))
    if size % 64:
        bits[-1] = np.uint64((1 << (size % 64)) - 1)
    return bits


@kernel
def _set_file(order_M: Any, bits: Any, first: Any, end: Any, live: Any) -> None:
    """Make the entries whose places lie in first…end live or dead. `order_M` is viewed as uint32, like the edges."""
    entries, size = len(order_M), np.uint32(end - first)
    for word in range(len(bits)):
        start = word << 6
        if start + 64 <= entries:
            # Most words hold none of them; this loop compares many entries at a time.
            block = order_M[start : start + 64]
            nearest = np.uint32(0xFFFFFFFF)
            for entry in range(64):
                nearest = min(nearest, np.uint32(block[entry] - first))
            if nearest >= size:
                continue
        for entry in range(start, min(entries, start + 64)):
            if first <= order_M[entry] < end:
                mask = np.uint64(1) << np.uint64(entry & 63)
                bits[word] = bits[word] | mask if live else bits[word] & ~mask


@kernel
def _fill(order_M: Any, dead_N: Any, bits: Any) -> None:
    for word in range(len(bits)):
        value = np.uint64(0)
        for entry in range(word << 6, min(len(order_M), (word + 1) << 6)):
            if not dead_N[order_M[entry]]:
                value |= np.uint64(1) << np.uint64(entry & 63)
        bits[word] = value


@kernel
def _count(bits: Any, counts: Any) -> None:
    for word in range(len(bits)):
        counts[word + 1] = counts[word] + popcount(bits[word])


@inner
def popcount(word: Any) -> Any:
    """The number of set bits of a uint64."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def live_before(bits: Any, before: Any, entry: Any) -> Any:
    """The number of live entries before `entry`, which may be one past the last."""
    word = entry >> 6
    if entry & 63 == 0:
        return before[word]
    mask = (np.uint64(1) << np.uint64(entry & 63)) - np.uint64(1)
    return before[word] + popcount(bits[word] & mask)


@inner
def nth_live(bits: Any, before: Any, n: Any) -> Any:
    """The entry that is the n-th live one, counting from 0; n is below the number of live entries."""
    low, high = 0, len(bits)
    while high - low > 1:
        middle = (low + high) >> 1
        if before[middle] <= n:
            low = middle
        else:
            high = middle
    word, left = bits[low], n - before[low]
    for _ in range(left):
        word &= word - np.uint64(1)
    return (low << 6) + popcount((word & (~word + np.uint64(1))) - np.uint64(1))
