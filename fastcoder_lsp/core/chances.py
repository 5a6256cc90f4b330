"""How much of a text the user is likely to want, by the model's probabilities of its words.

On replays, the higher the chance of the first word, the more often it was right (docs/calm.md has the curve). So the
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
_MOST_WORDS = 60  # words of a text that are judged
MOST_INSIDE = 120  # characters of a text whose places are judged, as the user types along


@dataclass(frozen=True, slots=True)
class LeastChances:
    """Least chances: of the first word, without which nothing is shown; of all words up to one; of further lines."""

    first: float = 0.0
    words: float = 0.0
    lines: float = 0.0


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: its end, in characters; its chance, given all before it; whether a shown part may end there."""

    end: Natural
    chance: float
    ends: bool


@dataclass(frozen=True, slots=True)
class Chances:
    """The chances of a text's words; those of words that are not known are 1.

    `inside`: for each of the first offsets, the chance of the word that begins or goes on there.
    """

    words: tuple[Word, ...] = ()
    inside: tuple[float, ...] = ()

    def sure_length(self, rest: str, at: int, limits: LeastChances) -> int:
        """The length of the beginning of `rest`, the text from the offset `at` on, that keeps the limits; 0 if none."""
        chance = self.inside[at] if at < len(self.inside) else 1.0
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
    text: str, certainty: Certainty, may_end: Callable[[int], bool], most_inside: int = MOST_INSIDE
) -> Chances:
    """The chances of the words of `text`, up to where the output that `certainty` weighs says another text.

    `may_end`: whether a shown part may end at an offset. `most_inside`: how many offsets are judged as well.
    """
    said = b"".join(row.token for row in certainty.rows)[len(certainty.healing) :].decode(errors="ignore")
    known = text[: first_difference(text, said)]
    offsets = list(accumulate((len(char.encode()) for char in known), initial=0))
    judged, words, inside, begin = _WeighedBytes(certainty), list[Word](), list[float](), 0
    for end in (match.end() for match in islice(_WORD.finditer(known), _MOST_WORDS)):
        whole, behind = wordy(known[end - 1].encode()), begin > 0 and wordy(known[begin - 1].encode())
        chance = judged.chance(offsets[begin], offsets[end], whole=whole, behind=behind)
        words.append(Word(end, chance, may_end(end)))
        inside += [chance] * (begin < most_inside)
        for at in range(begin + 1, min(end, most_inside)):
            inside.append(judged.chance(offsets[at], offsets[end], whole=whole, behind=False))
        begin = end
    return Chances(tuple(words), tuple(inside))


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
