"""How much of a text the user is likely to want, by the model's probabilities of its words.

The chance of the next word is its probability to a power that is known from replays (docs/calm.md has the curve). The
chances decide whether a text appears by itself, and where it ends.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import prod

from fastcoder_lsp.core.bounds import Natural
from fastcoder_lsp.core.certainty import Certainty, wordy
from fastcoder_lsp.core.differences import first_difference

_WORD = re.compile(r"\s*(?:\w+|[^\w\s]+)")  # a word or a run of signs, and the blanks before it
_LETTERS = re.compile(r"\w*\Z")
_NEW, _UNHEARD, _DEEPER, _IN_PROSE = 2.0, 6.0, 6.0, 2.0
"""Powers of the probability: of a word that is not begun; of one that nothing in sight has; of one after more blanks in
an indentation that is begun; more so in prose."""
_MOST_WORDS = 60  # words of a text that are judged
FEWEST_SHOWN = 3  # characters, without blanks, of a part that appears by itself: accepting it takes a key, too
MOST_INSIDE = 120  # characters of a text whose places are judged, as the user types along


@dataclass(frozen=True, slots=True)
class LeastChances:
    """Least chances: of the first word, without which nothing is shown; of all words up to one; of further lines.

    `begun`: the user types along a shown text, so that the word under way counts by its probability alone.
    """

    first: float = 0.0
    words: float = 0.0
    lines: float = 0.0
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Doubts:
    """How far to trust the model at a place.

    `before`: its line left of it; `heard`: whether the document or the prompt has a word; `prose`: whether it lies in a
    comment or string; `grows`: whether the last word may go on.
    """

    before: str
    heard: Callable[[str], bool]
    prose: bool = False
    grows: bool = False

    def powers(self, text: str, begin: int, end: int) -> list[float]:
        """The power of the probability of a word of `text`, for each offset at which it begins or goes on."""
        word = text[begin:end].lstrip()
        if not begin and text[:1] == word[:1]:
            word = _LETTERS.findall(self.before)[0] + word
        is_heard = not _is_letter(word[:1]) or (self.grows and end == len(text)) or self.heard(word)
        past = (self.before[-1:] + text[:end]).rjust(end + 1)

        def power(at: int) -> float:
            if not is_heard:
                return _UNHEARD
            if self._deepens(text, at):
                return _DEEPER
            return 1.0 if _is_letter(past[at]) and _is_letter(text[at]) else _NEW

        return [power(at) * (_IN_PROSE if self.prose else 1.0) for at in range(begin, end)]

    def _deepens(self, text: str, at: int) -> bool:
        """Whether the character at an offset is a blank that goes on with an indentation."""
        line = text.rfind("\n", 0, at) + 1
        left = [one for one in ("" if line else self.before, text[line:at]) if one]
        return text[at] in " \t" and bool(left) and all(map(str.isspace, left))


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: its end, in characters; its chance, given all before it; whether a shown part may end there."""

    end: Natural
    chance: float
    ends: bool


@dataclass(frozen=True, slots=True)
class Chances:
    """The chances of a text's words; those of words that are not known are 1.

    `inside`: for each of the first offsets, the probability of the word that begins or goes on there; `kept`: the
    chance that the user wants it.
    """

    words: tuple[Word, ...] = ()
    inside: tuple[float, ...] = ()
    kept: tuple[float, ...] = ()

    def sure_length(self, rest: str, at: int, limits: LeastChances) -> int:
        """The length of the beginning of `rest`, the text from the offset `at` on, that keeps the limits; 0 if none.

        A part of fewer than `FEWEST_SHOWN` characters is none, unless it is what is left of a shown text.
        """
        length = self._longest(rest, at, limits)
        is_tiny = length < len(rest) and len("".join(rest[:length].split())) < FEWEST_SHOWN
        return 0 if is_tiny and not limits.begun else length

    def _longest(self, rest: str, at: int, limits: LeastChances) -> int:
        is_within = limits.begun and all(word.end != at for word in self.words)
        chances = self.inside if is_within else self.kept
        chance = chances[at] if at < len(chances) else 1.0
        if chance < limits.first:
            return 0
        begin, kept = len(rest) - len(rest.lstrip()), 0
        for number, word in enumerate(word for word in self.words if word.end > at):
            chance *= word.chance if number else 1.0
            if chance < (limits.lines if "\n" in rest[begin : word.end - at] else limits.words):
                return kept
            kept = word.end - at if word.ends else kept
        return len(rest)


UNKNOWN = Chances()


def chances_of(
    text: str,
    certainty: Certainty,
    may_end: Callable[[int], bool],
    doubts: Doubts | None = None,
    most_inside: int = MOST_INSIDE,
) -> Chances:
    """The chances of the words of `text`, up to where the output that `certainty` weighs says another text.

    `may_end`: whether a shown part may end at an offset. `doubts`: None trusts the model's probabilities.
    `most_inside`: how many offsets are judged as well.
    """
    said = b"".join(row.token for row in certainty.rows)[len(certainty.healing) :].decode(errors="ignore")
    dropped = max(_blanks(said) - _blanks(text), 0)  # by post-processing
    known = text[: first_difference(text, said[dropped:])]
    offsets = list(accumulate((len(char.encode()) for char in known), initial=dropped))
    judged, words, inside, powers, begin = _WeighedBytes(certainty), list[Word](), list[float](), list[float](), 0
    for end in (match.end() for match in islice(_WORD.finditer(known), _MOST_WORDS)):
        whole, behind = wordy(known[end - 1].encode()), begin > 0 and wordy(known[begin - 1].encode())
        chance = judged.chance(offsets[begin], offsets[end], whole=whole, behind=behind)
        power = doubts.powers(known, begin, end) if doubts is not None else [1.0] * (end - begin)
        words.append(Word(end, chance ** power[0], may_end(end)))
        if begin < most_inside:
            stop = min(end, most_inside)
            going_on = [
                judged.chance(offsets[at], offsets[end], whole=whole, behind=False) for at in range(begin + 1, stop)
            ]
            inside += [chance, *going_on]
            powers += power[: stop - begin]
        begin = end
    return Chances(tuple(words), tuple(inside), tuple(map(pow, inside, powers)))


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


class _WeighedBytes:
    """The bytes of an output, with the probabilities of their tokens."""

    def __init__(self, certainty: Certainty) -> None:
        self._rows = certainty.rows
        lengths = (len(row.token) for row in self._rows)
        self._ends = list(accumulate(lengths, initial=-len(certainty.healing)))[1:]

    def chance(self, begin: int, end: int, *, whole: bool, behind: bool) -> float:
        """The probability of the bytes from `begin` to `end`, given all before.

        `whole`: and that a word ends there; `behind`: given that a word ends at `begin`.
        """
        return prod(self._shares(begin, end, whole=whole, behind=behind))

    def _shares(self, begin: int, end: int, *, whole: bool, behind: bool) -> Iterator[float]:
        first = bisect_right(self._ends, begin)
        for row, stop in zip(self._rows[first:], self._ends[first:], strict=True):
            at = stop - len(row.token)
            if at >= end:
                if whole:
                    yield _share(row.likely, lambda piece: not wordy(piece))
                return
            skipped = max(begin - at, 0)
            needed, is_last = row.token[skipped : end - at], stop >= end
            typed = [(one[skipped:], share) for one, share in row.likely if one.startswith(row.token[:skipped])]

            def agrees(rest: bytes, needed: bytes = needed, is_last: bool = is_last) -> bool:
                if not is_last:
                    return rest == needed
                more = rest[len(needed) :]
                return rest.startswith(needed) and not (whole and more and wordy(more))

            yield _share([one for one in typed if one[0] and not (behind and wordy(one[0]))], agrees)
            behind = False


def _share(likely: Sequence[tuple[bytes, float]], agrees: Callable[[bytes], bool]) -> float:
    """The share of the tokens that agree; 0 where none is likely."""
    total = sum(share for _, share in likely)
    return sum(share for piece, share in likely if agrees(piece)) / total if total else 0.0
