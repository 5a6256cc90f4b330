"""Many glob patterns at once as one automaton, whose states are the bits of one number.

A letter moves all of them together, by a handful of operations on that number, so what a name costs is bounded by its
length and by the number of signs, whatever the patterns are: nothing is ever tried a second way. Owns the running;
knows no syntax (`patterns`).

Of a pattern with k signs, bit i says "its first i signs are matched", bit k that it matches; patterns lie one after
the other in their order, so the last one that matches has the highest bit.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

_KEPT_MASKS: Final = 128
"""Letters whose masks are remembered."""


@dataclass(frozen=True, slots=True)
class LetterSet:
    """A bracket expression; never matches "/"."""

    negated: bool
    letters: frozenset[str]
    ranges: tuple[tuple[str, str], ...]
    classes: tuple[Callable[[str], bool], ...]

    def __len__(self) -> int:
        """How much there is to look at."""
        return 1 + len(self.ranges) + len(self.classes)

    def holds(self, letter: str) -> bool:
        """Whether it matches a letter."""
        found = (
            letter in self.letters
            or any(low <= letter <= high for low, high in self.ranges)
            or any(test(letter) for test in self.classes)
        )
        return found != self.negated and letter != "/"


@dataclass(slots=True)
class Pattern:
    """Signs (a letter, a set, None: anything but "/"), and before which of them stars stand.

    `stars` loop on all but "/", `globstars` on everything; `skips`: those of a `**/`, which may also be nothing.
    """

    signs: list[str | LetterSet | None] = field(default_factory=list)
    stars: list[int] = field(default_factory=list)
    globstars: list[int] = field(default_factory=list)
    skips: list[int] = field(default_factory=list)


class Automaton:
    """Some patterns at once. A run's state is a number; `start` begins it, `step` takes it on."""

    def __init__(self, patterns: Sequence[tuple[int, bool, Pattern]]) -> None:
        self._letters: dict[str, list[int]] = {}
        self._sets: dict[LetterSet, list[int]] = {}
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
            for place, sign in enumerate(pattern.signs, at + 1):
                if sign is None:
                    anything.append(place)
                elif isinstance(sign, str):
                    self._letters.setdefault(sign, []).append(place)
                else:
                    self._sets.setdefault(sign, []).append(place)
            at += len(pattern.signs) + 1
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
        """How many bits a state has."""
        return self._size

    def step(self, state: int, text: str) -> int:
        """The state after reading `text`."""
        for letter in text:
            if not state:
                break
            fresh = (state << 1) & self._mask(letter)
            state = (
                fresh
                | (fresh & self._skips) << 1
                | (state & self._globstars)
                | (0 if letter == "/" else state & self._stars)
            )
        return state

    def rule(self, state: int, *, is_folder: bool) -> int:
        """The number of the last rule that matches what was stepped over; -1: none."""
        matching = state & (self._of_folders if is_folder else self._of_files)
        return self._rules[bisect.bisect_left(self._ends, matching.bit_length() - 1)] if matching else -1

    def _mask(self, letter: str) -> int:
        """The states that are reached by `letter`."""
        mask = self._masks.get(letter)
        if mask is None:
            places = list(self._letters.get(letter, ()))
            for letters, where in self._sets.items():
                if letters.holds(letter):
                    places += where
            mask = self._bits(places) | (0 if letter == "/" else self._anything)
            if len(self._masks) >= _KEPT_MASKS:
                self._masks = {}  # not one by one: several threads ask
            self._masks[letter] = mask
        return mask

    def _bits(self, places: Iterable[int]) -> int:
        bits = bytearray(self._size // 8 + 1)
        for place in places:
            bits[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(bits, "little")
