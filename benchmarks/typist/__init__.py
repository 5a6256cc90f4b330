"""The rules of typing: which runs of a history are typed, their keys, the time between them, and what is accepted.

No clock, no server: whatever types, and the ceiling, share these rules and the loop of a `Typist`. Each edit gives the
request before it up and asks anew, as VS Code does; what is left of the ghost text stays while the next key agrees.

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.datasets.histories import RecordedEdit, Step, TypedRun, steps
from fastcoder_lsp.client.client import Ghost
from fastcoder_lsp.errors import UsageError

AFTER_S = 0.7
"""Seconds that a person looks at a finished run before going on to the next place."""
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
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Subset:
    """`steps` of a history up to the last run that is typed, at the places `typed`; `runs`: of the whole history."""

    steps: tuple[Step, ...]
    typed: frozenset[int]
    runs: int
    keys: int

    def typed_steps(self) -> dict[int, RecordedEdit]:
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


def chosen(folder: Path, name: str, limit: int | None, seed: int) -> Subset:
    """`choose_runs` of the history `name`; raises UsageError where none of its runs can be typed."""
    subset = choose_runs(tuple(steps(folder, name)), limit, seed)
    if not subset.typed:
        raise UsageError(f"no run of {name} can be typed", "Without --limit only short runs are.")
    return subset


def history_parts(steps: Sequence[Step], most_keys: int | None, seed: int) -> list[Subset]:
    """The runs of a history in a random order, cut into parts of some hundred keys; each in the history's own order.

    Another bound on keys changes the last parts alone.
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
    return said[: len(said) - len(said.lstrip(" \t"))]


def keys(said: str) -> tuple[str, ...]:
    return tuple(_KEY.findall(said, len(opening(said))))


def cursors(run: TypedRun) -> Iterator[tuple[str, str, str]]:
    """Yield (key, text before the cursor, text after it): "" for the opened line, then each key of the run."""
    said = run.text.removesuffix("\n")
    before, after = run.document[: run.offset] + opening(said), run.text[len(said) :] + run.document[run.offset :]
    yield "", before, after
    for key in keys(said):
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
    text, whole = "".join(coming), suggestion.rstrip("\n")
    shown, line = suggestion.partition("\n")[0], text.partition("\n")[0]
    if len(whole.strip()) >= LEAST_STRICT and text.startswith(whole):
        return _whole_keys(coming, len(whole))
    if len(line.strip()) >= LEAST_STRICT and shown.rstrip() == line.rstrip():
        return _whole_keys(coming, len(line))
    return 0


@dataclass(frozen=True, slots=True)
class Accepter:
    """A rule of accepting: the keys to come that an accept saves, and whether it brings in the wrong rest, too."""

    accepted_keys: Callable[[str, Sequence[str]], int]
    takes_all: bool


TAB = Accepter(accepted_keys, takes_all=True)
STRICT = Accepter(strictly_accepted_keys, takes_all=False)


def agreeing(suggestion: str, text: str) -> int:
    """How many characters of `text` a suggestion brings in, in whole words; 0 where there is none whole."""
    differing = (place for place, (a, b) in enumerate(zip(suggestion, text, strict=False)) if a != b)
    end = next(differing, min(len(suggestion), len(text)))
    while end and (_inside_word(suggestion, end) or _inside_word(text, end)):
        end -= 1
    return end if _WORD.search(text[:end]) else 0


def typing_seconds(strokes: Sequence[str], speed: float) -> float:
    lines = sum(key.startswith("\n") for key in strokes)
    thinking = lines * THINKING_SHARE * math.fsum(THINKING_S) / 2
    return len(strokes) / speed + math.fsum(NEW_PLACE_S) / 2 + thinking


def _whole_keys(coming: Sequence[str], characters: int) -> int:
    length = count = 0
    for key in coming:
        length += len(key)
        if length > characters:
            break
        count += 1
    return count


def _inside_word(text: str, place: int) -> bool:
    return place < len(text) and bool(_WORD.match(text[place - 1])) and bool(_WORD.match(text[place]))


def _lengths(steps: Sequence[Step]) -> dict[int, int]:
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


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """Before key `key` of the typed run `run`, everything before it being there."""

    run: int
    key: int


class Typist:
    """A person who types runs of a history; a subclass says where the keys go, by the methods from `text` on.

    `typed`, `saved`, `saved_in`: keys that were pressed and that accepts brought in, in all and by run. `on_key` hears
    at each key how many are behind.
    """

    def __init__(
        self, *, speed: float, seed: int, on_key: Callable[[int], object] = lambda _: None, taker: Accepter = TAB
    ) -> None:
        self.ghost: Ghost | None = None
        self.path, self.cursor = "", 0
        self.strokes: tuple[str, ...] = ()
        self.typed = self.saved = self.accepts = 0
        self.saved_in = Counter[int]()
        self._speed, self._seed, self._on_key, self._taker = speed, seed, on_key, taker

    def keys(self, subset: Subset) -> Iterator[float]:
        behind = 0
        runs = subset.typed_steps()
        for place, step in enumerate(subset.steps):
            if (run := runs.get(place)) is not None:
                yield from self._run(place, run, behind)
                behind += len(self.strokes)
            else:
                self.leave()
                self.take(step)
                yield 0.0
        self.leave()

    def leave(self) -> None:
        self.cancel()
        self.ghost = None

    def _run(self, run: int, step: RecordedEdit, behind: int) -> Iterator[float]:
        """Open the line of a run, in place of what it replaces, and type it."""
        self.leave()
        self.path, self.cursor = step.path, step.offset
        before, said = self.text(), step.text.removesuffix("\n")
        opened, self.strokes = opening(said), keys(said)
        self._change(step.delete, opened + step.text[len(said) :])
        self.cursor = step.offset + len(opened)
        self.ask(KeyPosition(run, 0), through=False)
        pauses = waits(self.strokes, self._speed, f"{self._seed} {run}")
        key = 0
        while key < len(self.strokes):
            yield pauses[key]
            coming = self.strokes[key:]
            saved = self._taker.accepted_keys(self.ghost.text, coming) if self.ghost else 0
            if saved:
                self.accepts += 1
                self.saved += saved
                self.saved_in[run] += saved
                yield from self._accept(KeyPosition(run, key + saved), "".join(coming[:saved]))
                key += saved
            else:
                self.typed += 1
                self._press(KeyPosition(run, key + 1), coming[0])
                key += 1
            self._on_key(behind + key)
        yield AFTER_S
        expected = before[: step.offset] + step.text + before[step.offset + step.delete :]
        assert self.text() == expected, "what was typed is not what the history has"

    def _press(self, after: KeyPosition, key: str) -> None:
        ghost = self.ghost
        self._change(0, key)
        self.ghost = ghost.after_typing(key) if ghost is not None else None
        self.ask(after, through=self.ghost is not None)

    def _accept(self, after: KeyPosition, kept: str) -> Iterator[float]:
        """Bring in what the taker takes of the suggestion; what is wrong of it is deleted at the next key."""
        assert self.ghost is not None
        ghost = self.ghost
        taken = ghost.text if self._taker.takes_all else kept
        wrong = len(taken) - len(kept)
        self._change(ghost.replaces, taken)
        if taken == ghost.text:  # no editor tells of a part
            self.tell_accepted(ghost)
        self.ask(None if wrong else after, through=False)
        if wrong:
            yield 1 / self._speed
            self.cursor -= wrong
            self._change(wrong, "")
            self.ask(after, through=False)

    def _change(self, delete: int, text: str) -> None:
        """Replace `delete` characters right of the cursor by `text`; the cursor stands behind it."""
        self.leave()
        self.edit(delete, text)
        self.cursor += len(text)

    def text(self) -> str:
        """The document at `path`."""
        raise NotImplementedError

    def take(self, step: Step) -> None:
        """Make a step that is not typed."""
        raise NotImplementedError

    def edit(self, delete: int, text: str) -> None:
        """Replace `delete` characters behind the cursor by `text`."""
        raise NotImplementedError

    def ask(self, place: KeyPosition | None, *, through: bool) -> None:
        """Ask for a suggestion at the cursor; `through`: whether the last key went along the one that was shown."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Give the open request up, if there is one."""
        raise NotImplementedError

    def tell_accepted(self, ghost: Ghost) -> None:
        """Tell that all of a suggestion was accepted."""
        raise NotImplementedError
