"""A part: some files' tokens with the order of their places, in memory or mapped from a segment. Never changes.

Owns what a file in the store is (`IndexedFile`, `FileRecord`); knows nothing of which files are live.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.index.suffix_array import Tokens32, file_starts, fill, sort_places


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was when it was read: its key in the store, and what tells whether it has changed since.

    `modified_ns`, `size` and `changed_ns` (when its entry on the disk last changed, which nobody can set) are the file
    system's; all -1 where the text came from elsewhere. They are compared for being the same, never for order: a file
    that is restored is older, and a clock may be set back.
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
    """`records[i]` has the tokens `tokens_N[starts[i] : starts[i + 1] - 1]`; see `suffix_array` for the layout.

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
