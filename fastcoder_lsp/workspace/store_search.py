"""Finding a text in a store, for people: where it stands, letter by letter, and how much of it drafters match.

Owns reading the live files' texts back from their tokens. Drafters never do that: they match tokens, and a text that a
person types seldom begins and ends where tokens do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from fastcoder_lsp.index.searcher import LONGEST, Searcher, StoreSnapshot


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
    snapshot: StoreSnapshot,
    text: str,
    encode: Callable[[str], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    limit: int,
) -> Answer:
    """Search a text; at most `limit` places of it are named."""
    context = list(encode(text))
    length, count = Searcher([snapshot]).longest(context, LONGEST)
    return Answer(len(context), length, count, tuple(islice(_read_all(snapshot, text, decode), limit)))


def _read_all(snapshot: StoreSnapshot, text: str, decode: Callable[[Sequence[int]], str]) -> Iterator[Found]:
    """Every occurrence of `text` in the live files."""
    for key, tokens in sorted(snapshot.files().items()):
        whole = decode(tokens.tolist())
        at = whole.find(text)
        while at >= 0:
            end = at + len(text)
            yield Found(key, whole.count("\n", 0, end) + 1, whole[end : end + 80])
            at = whole.find(text, at + 1)
