"""Searching pinned snapshots: the drafters' queries of the datastore.

A snapshot never changes and keeps its data alive, so a search never sees half an update. One thread searches
repositories and corpora one after the other: a search costs far less than handing it to another thread.

`search_text` is for people: it reads the live files' texts back from their tokens. Drafters match tokens, but a text
that a person types seldom begins and ends at token boundaries.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from fastcoder_lsp.index import merge, search_kernel
from fastcoder_lsp.index.merge import weave
from fastcoder_lsp.index.part import FileRecord, IndexedFile, Liveness, Part, Tokens32, build_part, liveness

LONGEST = merge.DEPTH  # the greatest n_max: orders are exact up to it


@dataclass(frozen=True, slots=True)
class LivePart:
    """A part in a snapshot: `dead` files do not count; `recent` parts are edits of this session."""

    part: Part
    dead: frozenset[int]
    live: Liveness | None
    recent: bool


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """One state of a store; recent parts first, newest first. `generation` grows with every change of the store."""

    parts: tuple[LivePart, ...]
    generation: int

    def files(self) -> dict[str, Tokens32]:
        """key → tokens of every live file (views)."""
        return {
            entry.part.records[file].key: entry.part.tokens_of(file)
            for entry in self.parts
            for file in range(len(entry.part.records))
            if file not in entry.dead
        }


NOTHING = StoreSnapshot((), 0)


@dataclass(frozen=True, slots=True)
class Hits:
    """The matches of a context's end, and their continuations.

    `length`: tokens of the longest match in a live file, 0 for none, at `count` places. `continuations_HD`: the tokens
    after the sampled ones, -1 past the end of a file; recent edits first. `rows_H`, `places_H`: the parts that hold
    them, and the places there, for `Searcher.position`.
    """

    length: int
    count: int
    continuations_HD: Tokens32
    rows_H: Tokens32
    places_H: Tokens32


@dataclass(frozen=True, slots=True)
class TokenPosition:
    """The position of a token: its file's key in the store, and how many of the file's tokens come before it."""

    key: str
    token: int


class Searcher:
    """Searches the snapshots of one or several stores as if they were one. Cheap to make: once for a decode or a step.

    `prefer`: the key of the file being edited; its hits come first if it was edited in this session.
    """

    def __init__(self, snapshots: Sequence[StoreSnapshot], prefer: str = "") -> None:
        parts = [entry for snapshot in snapshots for entry in snapshot.parts if entry.part.records]
        parts.sort(key=lambda entry: (not entry.recent, bool(prefer) and not _holds(entry, prefer)))
        self._parts = tuple(parts)
        self._rows_P8 = np.array([_row(entry) for entry in parts], np.int64).reshape(-1, len(search_kernel.ROW))
        self._scratch_4P = np.empty((4, len(parts)), np.int64)

    def longest(self, context: Sequence[int], n_max: int) -> tuple[int, int]:
        """Length of the longest match of the end of `context`, at most `n_max`, and how many places have it."""
        hits = self.search(context, n_max, 0, 0)
        return hits.length, hits.count

    def search(self, context: Sequence[int], n_max: int, max_hits: int, depth: int) -> Hits:
        """The longest match, of at most `n_max` tokens, of the end of `context`, and continuations of `depth` tokens.

        Of more than `max_hits` places it takes an even sample. `n_max` is at most `LONGEST`.
        """
        assert 0 < n_max <= LONGEST
        backwards_L = np.array(context[-n_max:][::-1], np.int32)
        continuations_HD, hits_H2 = np.empty((max_hits, depth), np.int32), np.empty((max_hits, 2), np.int32)
        length, count, taken = self._search(backwards_L, continuations_HD, hits_H2)
        return Hits(length, count, continuations_HD[:taken], hits_H2[:taken, 0], hits_H2[:taken, 1])

    def fill(self, backwards_L: Tokens32, rows_HD: Tokens32, hits_H2: Tokens32) -> tuple[int, int]:
        """`search` without new memory: the longest match, and how many of `rows_HD` were filled with continuations.

        `backwards_L`: the context, its last token first; all of it may match. `hits_H2`: out: row and place of each
        hit.
        """
        assert 0 < len(backwards_L) <= LONGEST
        length, _, taken = self._search(backwards_L, rows_HD, hits_H2[: len(rows_HD)])
        return length, taken

    def _search(self, backwards_L: Tokens32, continuations_HD: Tokens32, hits_H2: Tokens32) -> tuple[int, int, int]:
        found: tuple[int, int, int] = search_kernel.search(
            self._rows_P8, backwards_L, continuations_HD, hits_H2, self._scratch_4P
        )
        return found

    def position(self, hits: Hits, hit: int) -> TokenPosition:
        """The position of a sampled hit."""
        part = self._parts[int(hits.rows_H[hit])].part
        place = int(hits.places_H[hit])
        file = part.file_at(place)
        return TokenPosition(part.records[file].key, place - int(part.starts[file]))


def _holds(entry: LivePart, key: str) -> bool:
    return entry.recent and any(
        record.key == key and file not in entry.dead for file, record in enumerate(entry.part.records)
    )


def _row(entry: LivePart) -> tuple[int, ...]:
    part, live = entry.part, entry.live
    arrays = part.tokens_N.ctypes.data, len(part.tokens_N), part.order_M.ctypes.data, len(part.order_M)
    if live is None:
        return *arrays, 0, 0, 0, int(entry.recent)
    return *arrays, live.bits.ctypes.data, live.before.ctypes.data, len(live.bits), int(entry.recent)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place: the file's key, the line where the text ends (from 1), and the text after it."""

    key: str
    line: int
    follows: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A drafter's result: `length` of the text's `tokens` tokens match at `count` places. `found`: the whole text."""

    tokens: int
    length: int
    count: int
    found: tuple[Occurrence, ...]


def search_text(
    snapshot: StoreSnapshot,
    text: str,
    encode: Callable[[str], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    limit: int,
) -> SearchResult:
    """Search a text; at most `limit` places of it are listed."""
    context = list(encode(text))
    length, count = Searcher([snapshot]).longest(context, LONGEST)
    return SearchResult(len(context), length, count, tuple(islice(_read_all(snapshot, text, decode), limit)))


def _read_all(snapshot: StoreSnapshot, text: str, decode: Callable[[Sequence[int]], str]) -> Iterator[Occurrence]:
    for key, tokens in sorted(snapshot.files().items()):
        whole = decode(tokens.tolist())
        at = whole.find(text)
        while at >= 0:
            end = at + len(text)
            yield Occurrence(key, whole.count("\n", 0, end) + 1, whole[end : end + 80])
            at = whole.find(text, at + 1)


_FILES = 8


def warm_up() -> None:
    """Run all of it on a few made-up files: seconds the first time on a machine, milliseconds after."""
    documents = [IndexedFile(FileRecord(str(file), ""), np.arange(3, dtype=np.int32)) for file in range(_FILES)]
    part, none_dead = build_part(documents), frozenset[int]()
    many, few = frozenset(range(_FILES - 1)), frozenset({0})
    live = liveness(part.order_M, part.starts, many)
    liveness(part.order_M, part.starts, few)
    weave([part, part], [many, none_dead], [live, None])
    snapshot = StoreSnapshot(
        (LivePart(part, many, live, recent=True), LivePart(part, none_dead, None, recent=False)), 0
    )
    Searcher([snapshot]).search((0, 1), 2, 2, 2)
