"""The rules of typing: which runs of a history are typed, their keys, the time between them, and what is accepted.

Pure: no clock, no server. Whatever types, and the ceiling, share these rules.

**Keys.** A key inserts one character; Enter brings the indentation of the next line along, as editors do. The line of
a run is opened first, with its indentation, so the keys are what is left to type.

**Accepting.** Tab takes a suggestion whole: that is what Tab does in every editor. The person presses it when what is
shown agrees with what comes next for at least one whole word, and then deletes the part that does not, as one more key.
What counts as not typed is the agreeing part, up to the last whole word (a person deletes whole words, and types the
word that was half right anew) and up to a whole key. A word is a run of word characters; the rest of one that is begun
counts as one. Accepting word by word would bring the same characters in; Tab is the stricter model, since the server
has to follow a text that is wrong for one key.

The *strict* taker reads before accepting: a text is taken where all of it comes next, and of any other text the first
line, where that is all that is left of the line being typed. Both hold three characters at least, and nothing wrong
is ever brought in.

**Pauses.** The time between keys is 1/speed on average, spread log-normally as keystroke studies find it; a person
also looks around before typing at a new place, and at times thinks at the start of a line, however fast the fingers.
"""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.datasets.histories import RecordedEdit, Step, TypedRun

SPREAD = 0.3
"""Standard deviation of the logarithm of the time between two keys."""
NEW_PLACE_S = (1.0, 2.5)
"""Shortest and longest look around before the first key at a new place."""
THINKING_S = (0.5, 1.5)
THINKING_SHARE = 0.3
"""So many lines begin with a thought of so many seconds."""
LEAST_STRICT = 3
"""Characters that are worth a strict taker's while."""
PLAIN_KEYS = 480
"""Keys of a history that are typed where no limit is asked for."""
LONGEST_SHARE = 4
"""No run of the plain subset is longer than this part of all its keys, so that several places are seen."""
PART_KEYS = 240
"""Keys of a part of a history, about: what a person types in a minute or two."""
LONGEST_RUN = 120
"""Keys of a run in a part at most, so that a part is of several places."""

_KEY = re.compile(r"\n[ \t]*|[^\n]")
_BLANKS = re.compile(r"[ \t]*")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Subset:
    """`steps` of a history up to the last run that is typed; `typed`: the places of those runs in them.

    `runs`: how many runs the history has; `keys`: that are typed in all, with no accept.
    """

    steps: tuple[Step, ...]
    typed: frozenset[int]
    runs: int
    keys: int

    def typed_steps(self) -> dict[int, RecordedEdit]:
        """The runs that are typed, by their places and in their order."""
        steps = enumerate(self.steps)
        return {place: step for place, step in steps if place in self.typed and isinstance(step, RecordedEdit)}


def choose_runs(steps: Sequence[Step], limit: int | None, seed: int) -> Subset:
    """`limit` runs by the seed's choice; without, as many as make up `PLAIN_KEYS`."""
    lengths = _lengths(steps)
    candidates = [place for place, length in lengths.items() if length]
    random.Random(seed).shuffle(candidates)  # noqa: S311 a sample, no secret
    if limit is not None:
        return _subset(steps, candidates[:limit], lengths)
    return _subset(steps, _fitting(candidates, lengths, PLAIN_KEYS, PLAIN_KEYS // LONGEST_SHARE), lengths)


def history_parts(steps: Sequence[Step], most_keys: int | None, seed: int) -> list[Subset]:
    """The runs of a history in a random order, cut into parts of some hundred keys; each in the history's own order.

    Each run is in one part at most, so that parts can be typed in any order. Another bound on keys changes the last
    parts alone.
    """
    lengths = _lengths(steps)
    order = [place for place, length in lengths.items() if 0 < length <= LONGEST_RUN]
    random.Random(seed).shuffle(order)  # noqa: S311 a sample, no secret
    parts: list[list[int]] = [[]]
    for place in _fitting(order, lengths, sum(lengths.values()) if most_keys is None else most_keys, LONGEST_RUN):
        parts[-1].append(place)
        if sum(lengths[one] for one in parts[-1]) >= PART_KEYS:
            parts.append([])
    return [_subset(steps, part, lengths) for part in parts if part]


def keys_of(step: RecordedEdit) -> tuple[str, ...]:
    return keys(step.text.removesuffix("\n"))


def opening(said: str) -> str:
    """The indentation that an opened line begins with: that of the first line of `said`."""
    match = _BLANKS.match(said)
    assert match is not None
    return match.group()


def keys(said: str) -> tuple[str, ...]:
    """The text of each key; `opening` and all keys together are `said`."""
    return tuple(_KEY.findall(said, len(opening(said))))


def cursors(run: TypedRun, *, auto_indent: bool = True) -> Iterator[tuple[str, str, str]]:
    """Yield (key, text before the cursor, text after it): "" for the opened line, then each key of the run."""
    said = run.text.removesuffix("\n")
    opened, strokes = (opening(said), keys(said)) if auto_indent else ("", tuple(said))
    before, after = run.document[: run.offset] + opened, run.text[len(said) :] + run.document[run.offset :]
    yield "", before, after
    for key in strokes:
        before += key
        yield key, before, after


def waits(strokes: Sequence[str], speed: float, seed: str) -> tuple[float, ...]:
    """Seconds before each of `strokes`, typed at `speed` keys a second; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 typing needs no secrets
    seconds = []
    for place, _ in enumerate(strokes):
        wait = chance.lognormvariate(-SPREAD * SPREAD / 2, SPREAD) / speed
        thinks = chance.random() < THINKING_SHARE
        look, thought = chance.uniform(*NEW_PLACE_S), chance.uniform(*THINKING_S)
        if place == 0:
            wait += look
        elif strokes[place - 1].startswith("\n") and thinks:
            wait += thought
        seconds.append(wait)
    return tuple(seconds)


def accepted_keys(suggestion: str, coming: Sequence[str]) -> int:
    """How many of the keys `coming` an accept of `suggestion` saves; 0 where a person does not accept it."""
    text = "".join(coming)
    count = _whole_keys(coming, agreeing(suggestion, text))
    kept = sum(map(len, coming[:count]))
    return count if _WORD.search(text[:kept]) else 0


def strictly_accepted_keys(suggestion: str, coming: Sequence[str]) -> int:
    """The same of a strict taker."""
    text, whole = "".join(coming), suggestion.rstrip("\n")
    shown, line = suggestion.partition("\n")[0], text.partition("\n")[0]
    if len(whole.strip()) >= LEAST_STRICT and text.startswith(whole):
        return _whole_keys(coming, len(whole))
    if len(line.strip()) >= LEAST_STRICT and shown.rstrip() == line.rstrip():
        return _whole_keys(coming, len(line))
    return 0


@dataclass(frozen=True, slots=True)
class Accepter:
    """A rule by which a person accepts suggestions.

    Attributes:
        accepted_keys: how many of the keys to come an accept of a suggestion saves.
        takes_all: whether an accept brings in all of a suggestion, the wrong rest too; else what is right alone.
    """

    accepted_keys: Callable[[str, Sequence[str]], int]
    takes_all: bool


TAB = Accepter(accepted_keys, takes_all=True)
STRICT = Accepter(strictly_accepted_keys, takes_all=False)


def agreeing(suggestion: str, text: str) -> int:
    """How many characters of `text` a suggestion brings in, in whole words; 0 where there is none whole."""
    end = next(
        (place for place, (a, b) in enumerate(zip(suggestion, text, strict=False)) if a != b),
        min(len(suggestion), len(text)),
    )
    while end and (_inside_word(suggestion, end) or _inside_word(text, end)):
        end -= 1
    return end if _WORD.search(text[:end]) else 0


def typing_seconds(strokes: Sequence[str], speed: float) -> float:
    """The average seconds of typing `strokes`, without accepts."""
    lines = sum(key.startswith("\n") for key in strokes)
    thinking = lines * THINKING_SHARE * math.fsum(THINKING_S) / 2
    return len(strokes) / speed + math.fsum(NEW_PLACE_S) / 2 + thinking


def _whole_keys(coming: Sequence[str], characters: int) -> int:
    """How many of the keys `coming` so many characters hold."""
    length = count = 0
    for key in coming:
        length += len(key)
        if length > characters:
            break
        count += 1
    return count


def _inside_word(text: str, place: int) -> bool:
    """Whether a word goes on at `place`."""
    return place < len(text) and bool(_WORD.match(text[place - 1])) and bool(_WORD.match(text[place]))


def _lengths(steps: Sequence[Step]) -> dict[int, int]:
    """The place of each run that a person typed → its keys."""
    return {
        place: len(keys_of(step)) for place, step in enumerate(steps) if isinstance(step, RecordedEdit) and step.typed
    }


def _fitting(places: Sequence[int], lengths: Mapping[int, int], most: int, longest: int) -> list[int]:
    """As many of `places`, in their order, as `most` keys allow, none of them longer than `longest`."""
    chosen = []
    for place in places:
        if lengths[place] <= min(most, longest):
            chosen.append(place)
            most -= lengths[place]
    return chosen


def _subset(steps: Sequence[Step], places: Sequence[int], lengths: Mapping[int, int]) -> Subset:
    end = max(places, default=-1) + 1
    return Subset(tuple(steps[:end]), frozenset(places), len(lengths), sum(lengths[place] for place in places))
