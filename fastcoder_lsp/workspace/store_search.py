"""Finding a text in a store, for people: first as drafters find it, then letter by letter.

Owns the way from a token place to a line of a file. A text that does not begin and end where tokens do is found by
reading every live file; drafters never do that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fastcoder_lsp.index.searcher import LONGEST, Hits, Searcher, Snapshot
from fastcoder_lsp.index.suffix_array import Tokens32

DEPTH = 16


@dataclass(frozen=True, slots=True)
class Found:
    """A place: the file's key, the line that the text ends in (from 1), and what follows the text."""

    key: str
    line: int
    follows: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What drafters find: `length` of the text's `tokens` tokens match at `count` places. `found`: the whole text."""

    tokens: int
    length: int
    count: int
    found: tuple[Found, ...]


def search_text(
    snapshot: Snapshot,
    text: str,
    encode: Callable[[str], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    limit: int,
) -> Answer:
    """Search a text: as tokens, and, where not all of them match, letter by letter."""
    context = list(encode(text))
    searcher = Searcher([snapshot])
    hits = searcher.search(context, LONGEST, limit, DEPTH)
    if hits.length < len(context):
        found = tuple(found for found, _ in zip(_read_all(snapshot, text, decode), range(limit), strict=False))
    else:
        files = snapshot.files()
        found = tuple(_found(searcher, hits, hit, files, decode) for hit in range(len(hits.rows_H)))
    return Answer(len(context), hits.length, hits.count, found)


def _found(
    searcher: Searcher,
    hits: Hits,
    hit: int,
    files: Mapping[str, Tokens32],
    decode: Callable[[Sequence[int]], str],
) -> Found:
    place = searcher.place(hits, hit)
    line = decode(files[place.key][: place.token].tolist()).count("\n") + 1
    return Found(place.key, line, decode([token for token in hits.continuations_HD[hit].tolist() if token >= 0]))


def _read_all(snapshot: Snapshot, text: str, decode: Callable[[Sequence[int]], str]) -> Iterator[Found]:
    """Every occurrence of `text` in the live files."""
    for key, tokens in sorted(snapshot.files().items()):
        whole = decode(tokens.tolist())
        at = whole.find(text)
        while at >= 0:
            end = at + len(text)
            yield Found(key, whole.count("\n", 0, end) + 1, whole[end : end + 80])
            at = whole.find(text, at + 1)
