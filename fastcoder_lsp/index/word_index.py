"""The word index: posting lists of files by word, and the one file on the disk that keeps them, mapped when it is read.

It stores numbers of words and of files; no text, and none can be recovered. `prompt/retrieval` ranks pieces of files.

Two immutable kinds of lists: `Postings` for many files, where a table says where each word's list begins, and
`FewPostings`, sorted pairs. A file counts once for each of its words, however often the word occurs: the ranking of
pieces counts again.

The file appears whole. A mapped list takes memory only once it is read. Layout, little-endian:

    magic 8 bytes | version, words, files F, postings P, bytes of keys K: int64 each | CRC-32 of everything else
    | padding to 64 bytes | starts int32[words + 1] | lengths float32[F] | stamps int64[F] | files uint16[P] | keys

Keys are joined by zero bytes, which no path contains. Version 1 is the first. The version also changes whenever a text
gets other words than before.
"""

import mmap
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Floats, Int32s, Int64s
from fastcoder_lsp.core.files import appearing, check_room, private_folder
from fastcoder_lsp.index.terms import TERMS

_WORDS_AT_ONCE = TERMS // 64  # words merged at once: it bounds the memory of a merge to a fraction of the lists


@dataclass(frozen=True, slots=True)
class Postings:
    """The files that hold each word."""

    starts: Int32s
    """Int32 (TERMS + 1), the start of each word's list in `files`, uint16 numbers of files, each list unordered."""
    files: npt.NDArray[np.uint16]

    def counts(self, terms: Int32s) -> Int32s:
        """The number of files that hold each of these words."""
        return self.starts[terms + 1] - self.starts[terms]

    def files_of(self, term: int) -> list[int]:
        """The numbers of the files that hold a word."""
        files: list[int] = self.files[self.starts[term] : self.starts[term + 1]].tolist()
        return files

    def add_scores(self, terms: Int32s, weights: Floats, scores: Floats) -> None:
        """Add each word's weight to the scores of its files; `scores` is indexed by their numbers."""
        _add(self.files, self.starts[terms], self.starts[terms + 1], weights, scores)


@dataclass(frozen=True, slots=True)
class FewPostings:
    """The same for a few files, made in little time and memory."""

    terms: Int32s  # int32, ascending
    files: npt.NDArray[np.uint16]  # uint16, the file that holds the word at the same place in `terms`

    def counts(self, terms: Int32s) -> Int32s:
        """The number of files that hold each of these words."""
        begins, ends = self._places(terms)
        return (ends - begins).astype(np.int32)

    def files_of(self, term: int) -> list[int]:
        """The numbers of the files that hold a word."""
        begins, ends = self._places(np.asarray([term], np.int32))
        files: list[int] = self.files[begins[0] : ends[0]].tolist()
        return files

    def add_scores(self, terms: Int32s, weights: Floats, scores: Floats) -> None:
        """As `Postings.add_scores`."""
        _add(self.files, *self._places(terms), weights, scores)

    def _places(self, terms: Int32s) -> tuple[Int64s, Int64s]:
        return np.searchsorted(self.terms, terms), np.searchsorted(self.terms, terms, side="right")


EMPTY = Postings(np.zeros(TERMS + 1, np.int32), np.zeros(0, np.uint16))
NO_FEW = FewPostings(np.zeros(0, np.int32), np.zeros(0, np.uint16))


def postings_of(numbers: Sequence[int], terms: Sequence[Int32s]) -> FewPostings:
    """The lists of some files: each one's number, and its words, each once."""
    if not terms:
        return NO_FEW
    words = np.concatenate(terms)
    files = np.repeat(np.asarray(numbers, np.uint16), [len(one) for one in terms])
    order = np.argsort(words, kind="stable")
    return FewPostings(words[order], files[order])


def merged(many: Postings, few: FewPostings, numbers: Int32s) -> Postings:
    """Merge both, with files renumbered.

    `many` is the larger one; the caller drops it, so memory for both is taken once. `numbers` holds a file's new number
    by its old one; negative: the file is gone.
    """
    starts = np.zeros(TERMS + 1, np.int32)
    together = np.empty(len(many.files) + len(few.files), np.uint16)
    edges = np.searchsorted(few.terms, np.arange(0, TERMS + 1, _WORDS_AT_ONCE))
    at = 0
    for block, low in enumerate(range(0, TERMS, _WORDS_AT_ONCE)):
        begins = many.starts[low : low + _WORDS_AT_ONCE + 1]
        changed = slice(edges[block], edges[block + 1])
        words = np.concatenate(
            [np.repeat(np.arange(_WORDS_AT_ONCE, dtype=np.int32), np.diff(begins)), few.terms[changed] - low]
        )
        files = numbers[np.concatenate([many.files[begins[0] : begins[-1]], few.files[changed]])]
        kept = files >= 0
        words, files = words[kept], files[kept]
        end = at + len(words)
        together[at:end] = files[np.argsort(words, kind="stable")]
        starts[low + 1 : low + _WORDS_AT_ONCE + 1] = at + np.cumsum(np.bincount(words, minlength=_WORDS_AT_ONCE))
        at = end
    return Postings(starts, together[:at])


def _add(
    files: npt.NDArray[np.uint16], begins: Int32s | Int64s, ends: Int32s | Int64s, weights: Floats, scores: Floats
) -> None:
    for begin, end, weight in zip(begins.tolist(), ends.tolist(), weights.tolist(), strict=True):
        scores[files[begin:end]] += weight


MAGIC = b"FCLSPWRD"
VERSION = 1
MOST_BYTES = 1_000_000_000  # bound on a file that is read: larger than any that is written
_HEADER = struct.Struct("<8s5qI")
_HEADER_SIZE = 64
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class StoredWords:
    """The content of an index, by files' numbers."""

    postings: Postings
    keys: tuple[str, ...]
    lengths: Floats  # float32, how many different words each file has
    stamps: Int64s  # int64, which change when a file changes


def write(path: Path, words: StoredWords) -> None:
    """Write an index to `path`, in a folder that only the user may enter; after an OSError the old file remains."""
    postings = words.postings
    keys = "\0".join(words.keys).encode("utf-8", "surrogatepass")
    parts = (
        np.ascontiguousarray(postings.starts, "<i4"),
        np.ascontiguousarray(words.lengths, "<f4"),
        np.ascontiguousarray(words.stamps, "<i8"),
        np.ascontiguousarray(postings.files, "<u2"),
        np.frombuffer(keys, np.uint8),
    )
    header = _HEADER.pack(MAGIC, VERSION, TERMS, len(words.keys), len(postings.files), len(keys), 0)
    crc = zlib.crc32(header)
    for part in parts:
        crc = zlib.crc32(part.data, crc)
    folder = private_folder(path.parent)
    check_room(folder, _HEADER_SIZE + sum(part.nbytes for part in parts))
    with appearing(path) as file:
        file.write((header[: -struct.calcsize("<I")] + struct.pack("<I", crc)).ljust(_HEADER_SIZE, b"\0"))
        for part in parts:
            file.write(part.data)


def read(path: Path) -> StoredWords | None:
    """The index at `path`; None if there is none, or it is not in this program's format. Raises OSError."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_SIZE)
            sizes = _sizes(header)
            if sizes is None or path.stat().st_size != _HEADER_SIZE + sum(sizes):
                return None
            if not _whole(header, iter(lambda: file.read(_BLOCK), b"")):
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        return None
    starts_at, lengths_at, stamps_at, files_at, keys_at = np.cumsum((_HEADER_SIZE, *sizes[:-1])).tolist()
    count, postings = sizes[1] // 4, sizes[3] // 2
    words = StoredWords(
        Postings(np.frombuffer(mapped, "<i4", TERMS + 1, starts_at), np.frombuffer(mapped, "<u2", postings, files_at)),
        tuple(mapped[keys_at:].decode("utf-8", "surrogatepass").split("\0")) if count else (),
        np.frombuffer(mapped, "<f4", count, lengths_at).copy(),
        np.frombuffer(mapped, "<i8", count, stamps_at).copy(),
    )
    return words if len(words.keys) == count else None


def _sizes(header: bytes) -> tuple[int, int, int, int, int] | None:
    """Bytes of the file's sections after its header; None if the header is not ours."""
    if len(header) < _HEADER_SIZE:
        return None
    magic, version, terms, files, postings, keys, _ = _HEADER.unpack(header[: _HEADER.size])
    if (magic, version, terms) != (MAGIC, VERSION, TERMS) or not all(
        0 <= n < MOST_BYTES for n in (files, postings, keys)
    ):
        return None
    return 4 * (TERMS + 1), 4 * files, 8 * files, 2 * postings, keys


def _whole(header: bytes, blocks: Iterator[bytes]) -> bool:
    """Whether the checksum is right, so that every number in the file is one that we wrote."""
    *known, stored = _HEADER.unpack(header[: _HEADER.size])
    crc = zlib.crc32(_HEADER.pack(*known, 0))
    for block in blocks:
        crc = zlib.crc32(block, crc)
    return bool(crc == stored)


MOST_FILES = 60_000  # numbers are 16 bits; some are left for files that changed since the last merge
LEAST_MERGED, MOST_MERGED = 256, 2048  # changed files that trigger a merge: a quarter of all, within these limits
MOST_TERMS = 600  # different words of one file: a longer one is data, or is found by its first words
MOST_POSTINGS = 18_000_000  # Bound over all files: 36 MB. Files beyond it are not indexed.
MOST_ASKED = 64  # most words of a question that are looked up: the rarest
COMMON = 0.4  # words that a larger share of many files has are not looked up: they say little, and their lists are long
_MANY = 1000
_SPARE = 256  # files that may be added before the arrays by number have to grow
_NUMBERS = np.iinfo(np.uint16).max


class WordIndex:
    """Ranks the files that use some words most. The caller chooses the key of a file, a path.

    Two tiers: the lists of all files, and those of recently changed files, which are rebuilt at the first question
    after a change. Bounded in files and in words a file. One thread changes it (`put`, `remove`, `merge`, `adopt`),
    another may search: merging takes long, but blocks no search.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: Postings = EMPTY
        self._recent: FewPostings | None = NO_FEW
        self._numbers: dict[str, int] = {}
        self._keys: list[str | None] = []
        self._lengths = np.zeros(_SPARE, np.float32)
        self._stamps = np.zeros(_SPARE, np.int64)
        self._waiting: dict[str, Int32s] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: str) -> bool:
        return key in self._numbers

    def known(self) -> list[str]:
        """All files."""
        with self._lock:
            return list(self._numbers)

    def stamp(self, key: str) -> int | None:
        """The stamp that was given with a file's words; None if the file is unknown."""
        with self._lock:
            number = self._numbers.get(key)
            return int(self._stamps[number]) if number is not None else None

    def full(self) -> bool:
        """Whether the index takes no more files."""
        return len(self._numbers) >= MOST_FILES or len(self._base.files) >= MOST_POSTINGS

    def put(self, key: str, terms: Int32s, stamp: int = 0) -> bool:
        """Set a file's words, in any order, and the 64 bits that `stamp` returns; False if there is too much."""
        self.remove(key)
        if len(self._keys) >= _NUMBERS:
            self.merge()
        if self.full():
            return False
        words, first = np.unique(terms, return_index=True)
        if len(words) > MOST_TERMS:
            words = np.sort(terms[np.sort(first)[:MOST_TERMS]])
        with self._lock:
            number = len(self._keys)
            self._numbers[key] = number
            self._keys.append(key)
            if number >= len(self._lengths):
                self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
                self._stamps = np.concatenate([self._stamps, np.zeros_like(self._stamps)])
            self._lengths[number], self._stamps[number] = len(words), stamp
            self._waiting[key] = words
            self._recent = None
        return True

    def remove(self, key: str) -> None:
        """Remove a file that is gone, or may no longer be read."""
        with self._lock:
            number = self._numbers.pop(key, None)
            if number is not None:
                self._keys[number] = None
                if self._waiting.pop(key, None) is not None:
                    self._recent = None

    def due(self) -> bool:
        """Whether so much has changed that `merge` is worth it."""
        return len(self._waiting) >= max(LEAST_MERGED, min(len(self._numbers) // 4, MOST_MERGED))

    def merge(self, least: int = 1) -> None:
        """Merge changes into the main lists: a second for 50,000 files; searches go on meanwhile.

        Does nothing if fewer than `least` files have changed or gone: a merge moves mapped lists into memory.
        """
        if len(self._waiting) + len(self._keys) - len(self._numbers) < least:
            return
        with self._lock:
            base, changed = self._base, self._changed()
            kept = [number for number, key in enumerate(self._keys) if key is not None]
        numbers = np.full(_NUMBERS + 1, -1, np.int32)
        numbers[kept] = np.arange(len(kept), dtype=np.int32)
        together = merged(base, changed, numbers)
        with self._lock:
            self._base = together
            self._lengths = np.concatenate([self._lengths[kept], np.zeros(_SPARE, np.float32)])
            self._stamps = np.concatenate([self._stamps[kept], np.zeros(_SPARE, np.int64)])
            self._keys = [self._keys[number] for number in kept]
            self._numbers = {key: number for number, key in enumerate(self._keys) if key is not None}
            self._waiting, self._recent = {}, NO_FEW

    def stored(self) -> StoredWords:
        """The whole index, merged, for storing; it does not change."""
        self.merge()
        with self._lock:
            count = len(self._keys)
            keys = tuple(key for key in self._keys if key is not None)
            return StoredWords(self._base, keys, self._lengths[:count].copy(), self._stamps[:count].copy())

    def adopt(self, words: StoredWords) -> None:
        """Replace the whole index."""
        with self._lock:
            self._base, self._keys = words.postings, list(words.keys)
            self._lengths = np.concatenate([words.lengths, np.zeros(_SPARE, np.float32)])
            self._stamps = np.concatenate([words.stamps, np.zeros(_SPARE, np.int64)])
            self._numbers = {key: number for number, key in enumerate(words.keys)}
            self._waiting, self._recent = {}, NO_FEW

    def weights(self, terms: Int32s) -> Floats:
        """The weight of each word: BM25's inverse document frequency over files, never negative."""
        with self._lock:
            return self._weights(terms)

    def best(self, terms: Int32s, most: int) -> list[str]:
        """The `most` files that match these words best, best first; each word is given once."""
        with self._lock:
            files, numbers = len(self._numbers), len(self._keys)
            if not files or not len(terms):
                return []
            weights = self._weights(terms)
            if files >= _MANY:
                telling = weights > np.log(1 / COMMON)
                terms, weights = terms[telling], weights[telling]
            rarest = np.argsort(-weights, kind="stable")[:MOST_ASKED]
            scores = np.zeros(numbers, np.float32)
            for tier in (self._base, self._changed()):
                tier.add_scores(terms[rarest], weights[rarest], scores)
            lengths = self._lengths[:numbers]
            scores /= 0.6 + 0.4 * np.maximum(lengths, 16.0) / max(float(lengths.mean()), 1.0)
            wide = min(most + numbers - files, numbers)  # as many more as are gone
            least = max(float(np.partition(scores, numbers - wide)[numbers - wide]), 1e-30)
            first = np.flatnonzero(scores >= least)
            first = first[np.argsort(-scores[first], kind="stable")]
            keys = [self._keys[number] for number in first.tolist()]
        return [key for key in keys if key is not None][:most]

    def holding(self, terms: Sequence[int], *, partly: bool = False) -> list[str]:
        """The files that hold all of these words; `partly`: and those so long that the index lacks some of theirs."""
        with self._lock:
            kept: set[int] | None = None
            for term in terms:
                of = set[int]()
                for tier in (self._base, self._changed()):
                    of.update(tier.files_of(term))
                kept = of if kept is None else kept & of
            found = kept or set[int]()
            if partly:
                found |= set(np.flatnonzero(self._lengths[: len(self._keys)] >= MOST_TERMS).tolist())
            keys = [self._keys[number] for number in sorted(found) if number < len(self._keys)]
        return [key for key in keys if key is not None]

    def _weights(self, terms: Int32s) -> Floats:
        files = max(len(self._numbers), 1)
        # Removed files count until the next merge; they are few.
        counts = np.minimum(self._base.counts(terms) + self._changed().counts(terms), files)
        return np.asarray(np.log1p((files - counts + 0.5) / (counts + 0.5)), np.float32)

    def _changed(self) -> FewPostings:
        if self._recent is None:
            names = list(self._waiting)
            self._recent = postings_of([self._numbers[name] for name in names], [self._waiting[name] for name in names])
        return self._recent
