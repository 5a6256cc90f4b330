"""Words of code as numbers: every identifier, and the parts that it is put together from.

`get_userName` is four words: itself, `get`, `user` and `name`, all in small letters. A word's number is a hash: two
words may share one, which costs a little precision and no vocabulary.
"""

import re
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from zlib import crc32

import numpy as np

from fastcoder_lsp.core import Pieces
from fastcoder_lsp.core.arrays import Int32s

TERMS = 1 << 20  # numbers that a word may have
LEAST_LETTERS = 2
LONGEST = 80  # letters of an identifier that are read: longer ones are data
_KNOWN = 10_000  # identifiers whose numbers are remembered: three megabytes
_IDENTIFIER = re.compile(r"\n|[^\W\d]\w+")
_IDENTIFIER_ASCII = re.compile(r"\n|[A-Za-z_]\w+", re.ASCII)  # the same for ASCII texts, in less time
_LINE_END = -1  # the end of a line, among the numbers of words
_PIECE = 16_000  # characters of a part of a text, in some two milliseconds
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")


@dataclass(frozen=True, slots=True)
class LineTerms:
    """The words of a text, line by line."""

    terms_W: Int32s  # int32, the words' numbers in their order
    starts_L: Int32s  # int32, the start of each line's words, and the end

    @property
    def lines(self) -> int:
        """How many lines the text has."""
        return len(self.starts_L) - 1

    @classmethod
    def joined(cls, parts: "Sequence[LineTerms]") -> "LineTerms":
        """The words of a text from those of its parts, which all but the last one end with a line feed."""
        if len(parts) == 1:
            return parts[0]
        *others, last = parts
        before = np.cumsum([0, *(len(part.terms_W) for part in others)], dtype=np.int32)
        starts = [part.starts_L[:-2] + begin for part, begin in zip(others, before, strict=False)]
        terms = np.concatenate([part.terms_W for part in parts])
        return cls(terms, np.concatenate([*starts, last.starts_L + before[-1]]))


class Terms:
    """Words to numbers; remembers the parts of identifiers. Not thread-safe."""

    def __init__(self) -> None:
        self._known = _Known()
        self._numbers_of = self._known.__getitem__

    def allow(self, names: int) -> None:
        """Number at most so many further identifiers, which takes most of the time; others count as no words."""
        self._known.left = names

    @property
    def exhausted(self) -> bool:
        """Whether no further identifier is numbered, so that a text's words may lack some."""
        return self._known.left <= 0

    def of_lines(self, text: str) -> LineTerms:
        """All words of a text by its lines, which end with line feeds."""
        identifier = _IDENTIFIER_ASCII if text.isascii() else _IDENTIFIER
        found = array("i", chain.from_iterable(map(self._numbers_of, identifier.findall(text))))
        numbers = np.frombuffer(found, np.int32) if found else _NONE
        ends = np.flatnonzero(numbers == _LINE_END)
        starts = np.zeros(len(ends) + 2, np.int32)
        starts[1:-1] = ends - np.arange(len(ends))
        starts[-1] = len(numbers) - len(ends)
        return LineTerms(numbers[numbers != _LINE_END], starts)

    def by_pieces(self, text: str) -> "Pieces[tuple[LineTerms, bool]]":
        """`of_lines`, part by part; and whether no identifier lacks its number (see `allow`)."""
        parts, begin, complete = list[LineTerms](), 0, True
        while begin < len(text) or not parts:
            end = text.find("\n", begin + _PIECE) + 1 or len(text)
            parts.append(self.of_lines(text[begin:end]))
            complete, begin = complete and not self.exhausted, end
            yield
        return LineTerms.joined(parts), complete

    def of(self, text: str) -> Int32s:
        """All words of a text in their order."""
        return self.of_lines(text).terms_W


class _Known(dict[str, tuple[int, ...]]):
    """Identifier, or a line's end → its words' numbers; a dictionary, whose look-up is faster than a method of ours."""

    left = sys.maxsize

    def __missing__(self, name: str) -> tuple[int, ...]:
        if self.left <= 0 and name != "\n":
            return ()
        self.left -= 1
        if len(self) >= _KNOWN:
            self.clear()
        if name == "\n":
            numbers: tuple[int, ...] = (_LINE_END,)
        else:
            numbers = tuple(crc32(word.encode("utf-8", "surrogatepass")) % TERMS for word in words_of(name))
        self[name] = numbers
        return numbers


_NONE = np.zeros(0, np.int32)


def number_of(identifier: str) -> int:
    """The number of a whole identifier, whatever its letters' case."""
    return crc32(identifier[:LONGEST].lower().encode("utf-8", "surrogatepass")) % TERMS


def words_of(identifier: str) -> list[str]:
    """An identifier and, if it has several, its parts; each once, in small letters."""
    whole = identifier[:LONGEST]
    parts = [part.lower() for part in _PART.findall(whole) if len(part) >= LEAST_LETTERS]
    return list(dict.fromkeys([whole.lower(), *parts]))
