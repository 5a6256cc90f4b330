"""The patterns of git's ignore files: their syntax, and one automaton that matches all patterns of a file at once.

A repository writes both the patterns and the names that they match, so the cost is bounded. A state of the automaton is
the bits of one integer, and each character moves all of them by a few operations. A name therefore costs its length
times the number of elements, whatever the patterns are: nothing backtracks.
Of a pattern with k elements, bit i means "its first i elements are matched", and bit k that it matches. The patterns'
bits follow in their order, so the last pattern that matches has the highest bit. Source: git's `wildmatch`.
"""

import bisect
import string
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_MAX_CACHED_MASKS: Final = 128


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A bracket expression; never matches "/"."""

    negated: bool
    chars: frozenset[str]
    ranges: tuple[tuple[str, str], ...]
    classes: tuple[Callable[[str], bool], ...]

    def __len__(self) -> int:
        """The cost of a test."""
        return 1 + len(self.ranges) + len(self.classes)

    def contains(self, char: str) -> bool:
        """Whether it matches a character."""
        found = (
            char in self.chars
            or any(low <= char <= high for low, high in self.ranges)
            or any(test(char) for test in self.classes)
        )
        return found != self.negated and char != "/"


@dataclass(slots=True)
class Pattern:
    """Elements (a character, a set, or None for anything but "/"), and the indexes of the elements that follow a star.

    `stars` loop on all but "/", `globstars` on everything. `skips` are those of a `**/`, which may match nothing.
    """

    elements: list[str | CharacterSet | None] = field(default_factory=list)
    stars: list[int] = field(default_factory=list)
    globstars: list[int] = field(default_factory=list)
    skips: list[int] = field(default_factory=list)


class Automaton:
    """Matches several patterns at once. A state is an integer: `start` is the first, `step` returns the next."""

    def __init__(self, patterns: Sequence[tuple[int, bool, Pattern]]) -> None:
        self._chars: dict[str, list[int]] = {}
        self._sets: dict[CharacterSet, list[int]] = {}
        self._masks: dict[str, int] = {}
        self._ends: list[int] = []
        self._rules: list[int] = []
        begins, anything, stars, globstars, skips, folder_ends = [], [], [], [], [], []
        at = 0
        for rule, only_folders, pattern in patterns:
            begins.append(at)
            stars += [at + place for place in pattern.stars]
            globstars += [at + place for place in pattern.globstars]
            skips += [at + place for place in pattern.skips]
            for place, element in enumerate(pattern.elements, at + 1):
                if element is None:
                    anything.append(place)
                elif isinstance(element, str):
                    self._chars.setdefault(element, []).append(place)
                else:
                    self._sets.setdefault(element, []).append(place)
            at += len(pattern.elements) + 1
            self._ends.append(at - 1)
            self._rules.append(rule)
            if only_folders:
                folder_ends.append(at - 1)
        self._size = at
        self._anything, self._stars, self._globstars = self._bits(anything), self._bits(stars), self._bits(globstars)
        self._skips = self._bits(skips)
        self._of_folders = self._bits(self._ends)
        self._of_files = self._of_folders & ~self._bits(folder_ends)
        first = self._bits(begins)
        self.start = first | (first & self._skips) << 1

    def __len__(self) -> int:
        """The number of bits of a state."""
        return self._size

    def step(self, state: int, text: str) -> int:
        """The state after reading `text`."""
        for char in text:
            if not state:
                break
            fresh = (state << 1) & self._mask(char)
            state = (
                fresh
                | (fresh & self._skips) << 1
                | (state & self._globstars)
                | (0 if char == "/" else state & self._stars)
            )
        return state

    def rule(self, state: int, *, is_folder: bool) -> int:
        """The number of the last rule that matches the text so far; -1 if none does."""
        matching = state & (self._of_folders if is_folder else self._of_files)
        return self._rules[bisect.bisect_left(self._ends, matching.bit_length() - 1)] if matching else -1

    def _mask(self, char: str) -> int:
        """The states that `char` leads to."""
        mask = self._masks.get(char)
        if mask is None:
            places = list(self._chars.get(char, ()))
            for chars, where in self._sets.items():
                if chars.contains(char):
                    places += where
            mask = self._bits(places) | (0 if char == "/" else self._anything)
            if len(self._masks) >= _MAX_CACHED_MASKS:
                self._masks = {}  # not one by one: several threads ask
            self._masks[char] = mask
        return mask

    def _bits(self, places: Iterable[int]) -> int:
        bits = bytearray(self._size // 8 + 1)
        for place in places:
            bits[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(bits, "little")


MAX_ELEMENTS: Final = 65_536  # Of all patterns of a file together. It bounds the work for a character.
MAX_SETS: Final = 500  # bracket expressions and ranges in a file: each new character tests all of them once
IGNORES_CASE: Final = sys.platform in ("darwin", "win32")
"""Whether names that differ only in case are the same, by git's defaults (`core.ignorecase`)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an entry is ignored (None if no pattern matches), and the state in which matching begins below it."""

    ignored: bool | None
    below: int


class Patterns:
    """The patterns of a file or setting that can match; `complete`: none was left out as too long or too many."""

    def __init__(self, lines: Iterable[str], *, ignores_case: bool = IGNORES_CASE) -> None:
        self._ignores_case = ignores_case
        self._negated: list[bool] = []
        of_names: list[tuple[int, bool, Pattern]] = []
        of_paths: list[tuple[int, bool, Pattern]] = []
        self.complete, elements, sets = True, 0, 0
        for line in lines:
            if line.startswith("#"):
                continue
            if len(line) > MAX_ELEMENTS:
                self.complete = False
                break
            rule = _rule(line.lower() if ignores_case else line)
            if rule is None:
                continue
            elements += len(rule.pattern.elements) + 1
            sets += sum(len(element) for element in rule.pattern.elements if isinstance(element, CharacterSet))
            if elements > MAX_ELEMENTS or sets > MAX_SETS:
                self.complete = False
                break
            of = of_names if rule.by_name else of_paths
            of.append((len(self._negated), rule.only_folders, rule.pattern))
            self._negated.append(rule.negated)
        self._of_names, self._of_paths = Automaton(of_names), Automaton(of_paths)
        self.start = self._of_paths.start

    def __bool__(self) -> bool:
        """Whether there is any pattern."""
        return bool(self._negated)

    def __len__(self) -> int:
        """The number of bits of a state, which is the cost of a letter."""
        return len(self._of_names) + len(self._of_paths)

    def match(self, state: int, name: str, *, is_folder: bool) -> Verdict:
        """The verdict on one part of a path; `state`: `start` for the patterns' folder, else the folder's verdict."""
        name = name.lower() if self._ignores_case else name
        names, paths = self._of_names, self._of_paths
        here = paths.step(state, name)
        by_name = names.rule(names.step(names.start, name), is_folder=is_folder)
        rule = max(by_name, paths.rule(here, is_folder=is_folder))
        return Verdict(None if rule < 0 else not self._negated[rule], paths.step(here, "/") if is_folder else 0)


class _NeverError(Exception):
    """The pattern can match nothing."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A line of the file. `by_name`: it matches an entry's name alone, else its path."""

    pattern: Pattern
    negated: bool
    only_folders: bool
    by_name: bool


def _rule(line: str) -> _Rule | None:
    text = _without_end(line.removesuffix("\r"))
    negated = text.startswith("!")
    text = text[negated:]
    only_folders = text.endswith("/")
    text = text[: len(text) - only_folders]
    by_name = "/" not in text
    text = text.removeprefix("/")
    if not text:
        return None
    try:
        return _Rule(_PatternParser(text, by_name=by_name).read(), negated, only_folders, by_name)
    except _NeverError:
        return None


def _without_end(line: str) -> str:
    """A line without trailing spaces; an escaped space stays."""
    end, at = 0, 0
    while at < len(line):
        escapes = line[at] == "\\"
        at += 1 + escapes
        if escapes or line[at - 1] != " ":
            end = at
    return line[:end]


class _PatternParser:
    """Parses one pattern; raises `_NeverError` if it can match nothing."""

    def __init__(self, text: str, *, by_name: bool) -> None:
        self._text, self._by_name = text, by_name
        # Git compares the text before the first special character literally, and only the rest as a pattern.
        self._special = next((at for at, char in enumerate(text) if char in "*?[\\"), len(text))
        self._at = 0
        self._read = Pattern()

    def read(self) -> Pattern:
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "*":
                self._star()
                continue
            self._at += 1
            if char == "?":
                self._read.elements.append(None)
            elif char == "[":
                self._read.elements.append(self._set())
            else:
                self._read.elements.append(self._escaped() if char == "\\" else char)
        return self._read

    def _escaped(self) -> str:
        char = self._next()
        self._at += 1
        return char

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _NeverError
        return self._text[self._at]

    def _star(self) -> None:
        text, begin, read = self._text, self._at, self._read
        while text[self._at : self._at + 1] == "*":
            self._at += 1
        rest, place = text[self._at : self._at + 2], len(read.elements)
        bounded = begin in (0, self._special) or text[begin - 1] == "/"
        if self._by_name or self._at - begin == 1 or not bounded or not (rest[:1] in ("", "/") or rest == "\\/"):
            read.stars.append(place)
        elif rest[:1] == "/" and place - 1 in read.skips:  # `**/**/` is `**/`
            self._at += 1
        else:
            read.globstars.append(place)
            if rest[:1] == "/":
                read.skips.append(place)
                read.elements.append("/")
                self._at += 1

    def _set(self) -> CharacterSet:
        """A bracket expression after its opening bracket."""
        negated = self._next() in "!^"
        self._at += negated
        chars: set[str] = set()
        ranges: list[tuple[str, str]] = []
        classes: list[Callable[[str], bool]] = []
        before, first = "", True
        while first or self._next() != "]":
            first = False
            char = self._next()
            self._at += 1
            after = self._text[self._at : self._at + 1]
            if char == "\\":
                before = self._escaped()
                chars.add(before)
            elif char == "-" and before and after not in ("", "]"):
                self._at += 1
                ranges.append((before, self._escaped() if after == "\\" else after))
                before = ""
            elif char == "[" and after == ":" and (test := self._class()) is not None:
                classes.append(test)
                before = ""
            else:
                before = char
                chars.add(char)
        self._at += 1
        return CharacterSet(negated, frozenset(chars), tuple(ranges), tuple(classes))

    def _class(self) -> Callable[[str], bool] | None:
        """A `[:name:]` after its first bracket; None if it is not a class."""
        end = self._text.find("]", self._at + 1)
        if end < 0:
            raise _NeverError
        name = self._text[self._at + 1 : end]
        if not name.endswith(":"):
            return None
        if name[:-1] not in _CLASSES:
            raise _NeverError
        self._at = end + 1
        return _CLASSES[name[:-1]]


_CLASSES: Final[Mapping[str, Callable[[str], bool]]] = {
    name: frozenset(chars).__contains__
    for name, chars in {
        "alnum": string.ascii_letters + string.digits,
        "alpha": string.ascii_letters,
        "blank": " \t",
        "cntrl": "".join(map(chr, (*range(32), 127))),
        "digit": string.digits,
        "graph": "".join(map(chr, range(33, 127))),
        "lower": string.ascii_lowercase,
        "print": "".join(map(chr, range(32, 127))),
        "punct": string.punctuation,
        "space": " \t\n\v\f\r",
        "upper": string.ascii_uppercase,
        "xdigit": string.hexdigits,
    }.items()
}
