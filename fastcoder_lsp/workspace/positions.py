r"""Positions as the protocol counts them, and where they lie in a line of Python text.

Owns the counting of UTF-8, UTF-16 and UTF-32 units. Knows lines one at a time, never documents. A unit inside a
character belongs to that character's start; units past the end of a line belong to its end.
"""

from dataclasses import dataclass
from enum import Enum


class Encoding(Enum):
    """What `character` counts in a position, as agreed with the client."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a document: `line` from 0, `character` in units of the agreed encoding."""

    line: int
    character: int


def units_to_index(line: str, units: int, encoding: Encoding) -> int:
    """The character index in `line` (without its end) where `units` lead; clamped to the line."""
    if units <= 0:
        return 0
    if encoding is Encoding.UTF32 or line.isascii():
        return min(units, len(line))
    width = 2 if encoding is Encoding.UTF16 else 1
    codec = "utf-16-le" if encoding is Encoding.UTF16 else "utf-8"
    try:
        encoded = line[:units].encode(codec)  # a character takes at least one unit
    except UnicodeEncodeError:
        return _walk(line, units, encoding)
    return len(encoded[: units * width].decode(codec, "ignore"))  # a character cut in two is dropped


def index_to_units(line: str, index: int, encoding: Encoding) -> int:
    """How many units come before the character at `index` of `line`."""
    before = line[:index]
    if encoding is Encoding.UTF32 or before.isascii():
        return len(before)
    if encoding is Encoding.UTF16:
        return len(before.encode("utf-16-le", "surrogatepass")) // 2
    return len(before.encode("utf-8", "surrogatepass"))


def _walk(line: str, units: int, encoding: Encoding) -> int:
    """The slow way, for lines with half a surrogate pair, which no codec can cut."""
    for index, character in enumerate(line):
        units -= index_to_units(character, 1, encoding)
        if units < 0:
            return index
    return len(line)
