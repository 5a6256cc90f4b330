"""A part: some files' tokens with the order of their places, in memory or mapped from a segment. Never changes.

`tokens_N` holds a separator (-1), the first file's tokens, a separator, the second file's, …, and a last separator. A
*place* p of a file is a position with a token before it and a token at it: `tokens_N[p - 1]` ends a context and
`tokens_N[p]` continues it. `order_M` holds every place, sorted by tokens p-1, p-2, …, where a separator is the least.
So all places that follow the same n tokens are one range, for every n, and one search finds the longest match.

A `Liveness` has the live entries of such an order: a bit for each, with running counts, so that a search skips any run
of dead entries at once, and knows the number of live hits in a range without reading them. It never changes either, so
a search that holds an old one sees no half of a change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydivsufsort import divsufsort
from pydivsufsort.dll import libdivsufsort

from fastcoder_lsp.core.arrays import Int32s, Int64s
from fastcoder_lsp.kernels import inner, kernel

Tokens32 = Int32s

SEPARATOR = -1
LARGEST_ID = 2**24 - 1
MOST_TOKENS = 500_000_000  # bound on a part's tokens: four bytes a token must stay below 2^31 bytes for the sorter


def file_starts(lengths: Sequence[int]) -> Int64s:
    """The offsets of files of these lengths, and N: file i is `tokens_N[starts[i] : starts[i + 1] - 1]`."""
    starts = np.ones(len(lengths) + 1, np.int64)
    starts[1:] += np.cumsum(np.array(lengths, np.int64) + 1)
    return starts


def fill(files: Sequence[Tokens32], starts: Int64s, tokens_N: Tokens32) -> None:
    """Lay out the tokens of several files, separators between them."""
    tokens_N[0] = SEPARATOR
    for file, start in zip(files, starts, strict=False):
        tokens_N[start : start + len(file)] = file
        tokens_N[start + len(file)] = SEPARATOR


def sort_places(tokens_N: Tokens32) -> Tokens32:
    """All places of a part's tokens, in the order of their contexts (see the module's docstring).

    The ids are written big-endian, so that byte order is token order, and only aligned suffixes are kept. Three bytes
    hold all ids but the very last of 2^24, because the separator takes one value.
    """
    assert len(tokens_N) <= MOST_TOKENS
    largest = int(tokens_N.max(initial=SEPARATOR))
    assert largest <= LARGEST_ID
    width = 2 if largest + 1 < 2**16 else 3 if largest + 1 < 2**24 else 4
    backwards = (tokens_N[::-1] + np.int32(1)).astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - width :]
    _sort_with_one_thread()
    suffixes = divsufsort(np.ascontiguousarray(backwards).reshape(-1))
    aligned = suffixes[suffixes % width == 0] if width > 1 else suffixes
    # Index i of the reversed tokens is token N-1-i; the place whose context ends with it is one further.
    places = len(tokens_N) - aligned // width
    return np.ascontiguousarray(places[_is_place(tokens_N)[places]], dtype=np.int32)


def _is_place(tokens_N: Tokens32) -> npt.NDArray[np.bool_]:
    token = tokens_N != SEPARATOR
    places = np.zeros(len(tokens_N) + 1, np.bool_)
    places[1:-1] = token[:-1] & token[1:]
    return places


def _sort_with_one_thread() -> None:
    """Make the sorter use only the calling thread.

    Its OpenMP threads wait for each other by spinning: with the engine busy on all cores, a small sort then takes ten
    times as long. The setting holds for the calling thread only.
    """
    limit = getattr(libdivsufsort, "omp_set_num_threads", None)
    if limit is not None:
        limit(1)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was when it was read: its key in the store, and the data that shows whether it has changed since.

    `modified_ns`, `size` and `changed_ns` (the last change of its directory entry, which programs cannot set) are the
    file system's; all -1 for a text from elsewhere. They are compared only for equality, never for order: a restored
    file is older, and a clock may be set back.
    """

    key: str
    digest: str
    modified_ns: int = -1
    size: int = -1
    changed_ns: int = -1


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file to be stored: its record and its tokens."""

    record: FileRecord
    tokens: Tokens32


@dataclass(frozen=True, slots=True)
class Part:
    """`records[i]` has the tokens `tokens_N[starts[i] : starts[i + 1] - 1]`.

    `name` is the segment's file name, "" for a part in memory.
    """

    tokens_N: Tokens32
    order_M: Tokens32
    starts: Int64s
    records: tuple[FileRecord, ...]
    name: str = ""

    def tokens_of(self, file: int) -> Tokens32:
        """The tokens of one file, a view."""
        return self.tokens_N[self.starts[file] : self.starts[file + 1] - 1]

    def document(self, file: int) -> IndexedFile:
        """One file as a document, its tokens copied."""
        return IndexedFile(self.records[file], np.array(self.tokens_of(file)))

    def file_at(self, place: int) -> int:
        """The index of the file that holds a position."""
        return int(np.searchsorted(self.starts, place, side="right")) - 1

    @property
    def size(self) -> int:
        """The number of tokens, separators not counted."""
        return len(self.tokens_N) - len(self.records) - 1


def build_part(documents: Sequence[IndexedFile]) -> Part:
    """Sort some files into a part in memory."""
    files = [document.tokens for document in documents]
    starts = file_starts([len(tokens) for tokens in files])
    tokens_N = np.empty(int(starts[-1]), np.int32)
    fill(files, starts, tokens_N)
    return Part(tokens_N, sort_places(tokens_N), starts, tuple(document.record for document in documents))


def text_digest(text: str) -> str:
    """The digest of a text: 32 hexadecimal digits. Lone surrogates are digested too."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_FEW = 4
Numbers = TypeVar("Numbers", Int32s, npt.NDArray[np.uint32])


@dataclass(frozen=True, slots=True)
class Liveness:
    """`bits` of 64 entries each, lowest bit first; `before[w]`: live entries in the words before w; `live`: all."""

    bits: npt.NDArray[np.uint64]
    before: Int64s
    live: int


def liveness(
    order_M: Int32s, starts: Int64s, dead: Iterable[int], previous: tuple[Liveness | None, Iterable[int]] = (None, ())
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
