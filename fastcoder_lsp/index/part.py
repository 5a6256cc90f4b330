"""A part: some files' tokens with the order of their places, in memory or mapped from a segment. Never changes.

`tokens_N` holds a separator (-1), the first file's tokens, a separator, the second file's, …, and a last separator. A
*place* p of a file is a position with a token before it and a token at it: `tokens_N[p - 1]` ends a context and
`tokens_N[p]` continues it. `order_M` holds every place, sorted by tokens p-1, p-2, …, where a separator is the least.
So all places that follow the same n tokens are one range, for every n, and one search finds the longest match.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from pydivsufsort import divsufsort
from pydivsufsort.dll import libdivsufsort

Tokens32 = npt.NDArray[np.int32]

SEPARATOR = -1
LARGEST_ID = 2**24 - 1
MOST_TOKENS = 500_000_000  # bound on a part's tokens: four bytes a token must stay below 2^31 bytes for the sorter


def file_starts(lengths: Sequence[int]) -> npt.NDArray[np.int64]:
    """The offsets of files of these lengths, and N: file i is `tokens_N[starts[i] : starts[i + 1] - 1]`."""
    starts = np.ones(len(lengths) + 1, np.int64)
    starts[1:] += np.cumsum(np.array(lengths, np.int64) + 1)
    return starts


def fill(files: Sequence[Tokens32], starts: npt.NDArray[np.int64], tokens_N: Tokens32) -> None:
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
    starts: npt.NDArray[np.int64]
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
