"""Recent suggestions by document: one that still fits answers without the model, another one is a draft."""

import re
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Literal

from fastcoder_lsp.core import Counts, Reason, StepTrace
from fastcoder_lsp.core.bounds import Natural, Short
from fastcoder_lsp.core.chances import UNKNOWN, Chances, LeastChances
from fastcoder_lsp.core.differences import first_difference
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.syntax import CLOSER_OF, indent

TYPED_BY_EDITORS = ")]}>\"'`"
MOST_CHARACTERS = 2_000_000  # bound on the texts that a document's suggestions were made for
_ABOVE = 8_000  # characters in which the line of an opening bracket is looked for
_NEAR = 48  # characters left of a place that identify it after edits elsewhere
_FAR = 400  # after so many typed characters a suggestion says nothing about its place any more
_AT_REST_MS = 20_000.0  # a dismissal expires after this time
_WORD_TAKEN = re.compile(r"\w\W")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_CLOSED_BELOW = re.compile(r"\n[ \t]*[)\]}>]*")

Rule = Literal["middle_of_word", "rejections", "secret", "invoked", "snoozed", "deletion", "comment", "string", "prose"]
"""Why a suggestion is suppressed at a place."""


@dataclass(frozen=True, slots=True)
class CursorContext:
    """The text on both sides of the cursor, the popup's selected entry already inserted."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class CachedSuffix:
    """The rest of a suggestion: insert `text`, replacing `replaces` characters to the right; `interim` as it has it."""

    text: str
    replaces: Natural
    interim: bool = field(default=False, compare=False)
    unsure: bool = field(default=False, compare=False)  # only a request by key shows it
    finish: Short = field(default="", compare=False)  # why the suggestion ended, "" while it may continue
    begin: Natural = field(default=0, compare=False, repr=False)  # where it begins in the suggestion
    chances: Chances = field(default=UNKNOWN, compare=False, repr=False)  # of the suggestion

    def is_unsure(self, limits: LeastChances) -> bool:
        """Whether only a request by key shows it."""
        held = self.unsure and not limits.begun  # what is shown does not vanish as the user types along
        return held or not self.chances.sure_length(self.text, self.begin, limits)

    def sure(self, limits: LeastChances, after: str) -> "CachedSuffix":
        """The part that keeps the limits; `after`: the text right of the cursor."""
        length = self.chances.sure_length(self.text, self.begin, limits)
        return self if length == len(self.text) else self._until(length, after)

    def first_lines(self, most: int, after: str) -> "CachedSuffix":
        """Its first `most` lines, not counting leading blank ones; `after`: the text right of the cursor."""
        lead = _BLANK_LINES.match(self.text)
        begin = lead.end() if lead else 0
        lines = self.text[begin:].split("\n")
        if not 0 < most < len(lines):
            return self
        return self._until(len(self.text[:begin] + "\n".join(lines[:most]).rstrip()), after)

    def apart(self, place: CursorContext) -> "CachedSuffix":
        """This text, which ends with a line, so that a closing bracket right of the cursor goes below it."""
        own, opened, closer = place.before.rpartition("\n")[2], place.before[-1:], place.after[:1]
        between = CLOSER_OF.get(opened) == closer and self.text.lstrip(" \t").startswith("\n")
        alone = not own.strip() and closer in CLOSER_OF.values()
        if self.replaces or not (between or alone) or not self.text.rpartition("\n")[2].strip():
            return self
        first = indent(self.text.lstrip("\n").partition("\n")[0]) if between else own + indent(self.text)
        above = reversed(place.before[-_ABOVE:].split("\n"))
        opening = next((indent(line) for line in above if line.strip() and len(indent(line)) < len(first)), None)
        return self if opening is None else replace(self, text=f"{self.text}\n{opening}")

    def _until(self, length: int, after: str) -> "CachedSuffix":
        """Its first `length` characters."""
        text, covers, at = self.text[:length], 0, 0
        for covers in range(self.replaces + 1):  # only what the shorter text says too
            at = text.find(after[covers], at) + 1 if covers < self.replaces else 0
            if not at:
                break
        return replace(self, text=text, replaces=covers)


@dataclass(frozen=True, slots=True)
class Work:
    """The work for a suggestion: counts, every step, and `core.Completion.context`."""

    counts: Counts
    trace: tuple[StepTrace, ...]
    context: tuple[Short, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion for a place."""

    place: CursorContext
    text: str
    replaces: Natural = 0  # how many characters right of the place it replaces
    others: tuple["Suggestion", ...] | None = None  # more candidates for this place; None if they were not computed
    work: Work | None = field(default=None, compare=False, repr=False)
    """The work for it, while it is stored; not compared."""
    reason: Reason | None = field(default=None, compare=False)  # why the text is empty
    interim: bool = field(default=False, compare=False)
    """Its prompt was partial; a pause or a request by key replaces it by one with the whole prompt."""
    unsure: tuple[Natural, ...] = field(default=(), compare=False, repr=False)
    """Lengths of its beginnings after which only a request by key shows the rest (`postprocess.useful`)."""
    finish: Short = field(default="", compare=False)
    """Why it ended, "" while it may continue (`core.Completion.finish`)."""
    chances: Chances = field(default=UNKNOWN, compare=False, repr=False)

    def rest(self, place: CursorContext) -> CachedSuffix | None:
        """The rest of this suggestion at `place`; None where it does not fit there, or nothing is left."""
        if not place.before.startswith(self.place.before):
            return None
        typed = place.before[len(self.place.before) :]
        if len(typed) >= len(self.text) or not self.text.startswith(typed):
            return None
        rest, unsure = self.text[len(typed) :], len(typed) in self.unsure
        known = self.finish, len(typed), self.chances
        if place.after == self.place.after:
            return CachedSuffix(rest, self.replaces, self.interim, unsure, *known)
        closers = inserted(self.place, place)
        # The user typed an opening bracket or quote and the editor closed it: the rest brings its own closer.
        if closers is not None and _closes(closers, rest):
            return CachedSuffix(rest, len(closers) + self.replaces, self.interim, unsure, *known)
        # A line break between two brackets put the closing one on a line below: the rest ends above it.
        if closers is not None and (above := self._above(closers, rest)):
            return CachedSuffix(above, 0, self.interim, unsure, *known)
        return None

    def _above(self, closers: str, rest: str) -> str:
        """The part of `rest` above the closers that the editor put on a line below; "" where it has none."""
        below = closers + self.place.after[: self.replaces]
        if not _CLOSED_BELOW.fullmatch(below):
            return ""
        if below.isspace():
            return rest.removesuffix(below) if rest.endswith(below) else ""
        above, found, _ = rest.partition(below)
        return above if found or not self.finish else ""


def inserted(old: CursorContext, new: CursorContext) -> str | None:
    """The closers that the editor put right of the cursor while the user typed from `old` to `new`; "" for none.

    None where other text has changed there.
    """
    typed, text = new.before[len(old.before) :], new.after[: len(new.after) - len(old.after)]
    if not new.after.endswith(old.after):
        return None
    opened = len(text) <= len(typed) and _are_closers(text)
    return text if opened or not text or ("\n" in typed and _CLOSED_BELOW.fullmatch(text)) else None


def _are_closers(text: str) -> bool:
    """Whether `text` consists only of closers that editors insert by themselves, and is not empty."""
    return bool(text) and all(letter in TYPED_BY_EDITORS for letter in text)


def _closes(closers: str, rest: str) -> bool:
    if not _are_closers(closers):
        return False
    found = accumulate(closers, lambda place, closer: rest.find(closer, place) + 1 or len(rest) + 1, initial=0)
    return list(found)[-1] <= len(rest)


class SuggestionMemory(PerDocument[deque[Suggestion]]):
    """The last suggestions of the last documents."""

    def __init__(self, documents: int = 16, suggestions: int = 12) -> None:
        super().__init__(partial(deque[Suggestion], maxlen=suggestions), documents)

    def remember(self, document: str, suggestion: Suggestion, *, instead: bool = False) -> None:
        """Remember a suggestion; `instead`: it replaces any other for its place."""
        if not suggestion.text:
            return
        of = self.fetch(document)
        if instead:
            for other in [one for one in of if one.place == suggestion.place]:
                of.remove(other)
        of.appendleft(suggestion)
        # Each holds the whole text: keep only a few of a huge one.
        while len(of) > 1 and sum(len(one.place.before) + len(one.place.after) for one in of) > MOST_CHARACTERS:
            of.pop()

    def recall(self, document: str, place: CursorContext) -> CachedSuffix | None:
        """The rest of the latest suggestion that continues at `place`."""
        rests = (suggestion.rest(place) for suggestion in self.get(document) or ())
        return next((rest for rest in rests if rest is not None), None)

    def recall_all(self, document: str, place: CursorContext) -> tuple[CachedSuffix, ...]:
        """All candidates for exactly this place, the first one first; empty if alternatives were not computed."""
        for suggestion in self.get(document) or ():
            if suggestion.others is not None and suggestion.place == place:
                all_of_it = (suggestion, *suggestion.others)
                return tuple(CachedSuffix(one.text, one.replaces, one.interim, finish=one.finish) for one in all_of_it)
        return ()


class OutdatedSuggestions(PerDocument[deque[Suggestion]]):
    """The last suggestions of each document, taken or not."""

    def __init__(self, documents: int = 16, suggestions: int = 6) -> None:
        super().__init__(partial(deque[Suggestion], maxlen=suggestions), documents)

    def keep(self, document: str, suggestion: Suggestion) -> None:
        """Remember a suggestion, whole or not."""
        if not suggestion.text.strip():
            return
        of = self.fetch(document)
        if of and of[0].place.before == suggestion.place.before and suggestion.text.startswith(of[0].text):
            of.popleft()  # the new one is longer
        of.appendleft(suggestion)

    def expected(self, document: str, place: CursorContext) -> tuple[str, ...]:
        """Likely texts at `place` in view of earlier suggestions, the likeliest first."""
        texts = (rest_after(suggestion, place) for suggestion in self.get(document) or ())
        return tuple(dict.fromkeys(text for text in texts if text.strip()))


class Rejections:
    """Counts dismissals in a row: suggestions shown while typing, followed by other text.

    After too many, at most one suggestion per line is shown, until one is accepted, requested by key, or some time
    passes.
    """

    def __init__(self) -> None:
        self._streak = 0
        self._shown: tuple[str, CursorContext, str] | None = None
        self._rejected_in: tuple[str, int] | None = None
        self._rejected_ms = 0.0

    def shown(self, document: str, place: CursorContext, text: str) -> None:
        """Record a shown text; the rest of the last one does not count again."""
        if self._shown is None or not self._shown[2].endswith(text):
            self._shown = document, place, text

    def taken(self) -> None:
        """Reset the count: a suggestion was accepted, or requested by key."""
        self._streak, self._shown = 0, None

    def asked(self, document: str, place: CursorContext, now_ms: float) -> None:
        """Judge the last suggestion by the next question."""
        if abs(now_ms - self._rejected_ms) > _AT_REST_MS:  # in both directions: a clock may be put back
            self._streak = 0
        if self._shown is None:
            return
        where, then, text = self._shown
        typed = place.before[len(then.before) :] if place.before.startswith(then.before) else None
        if where == document and typed is not None and text.startswith(typed):
            if _WORD_TAKEN.search(typed) or typed == text:
                self.taken()
            return
        self._shown = None
        self._streak += 1
        self._rejected_in, self._rejected_ms = _line(document, place), now_ms

    def too_many(self, document: str, place: CursorContext, most: int) -> bool:
        """Whether this line has had its suggestion after `most` dismissals in a row; 0: no limit."""
        return 0 < most <= self._streak and self._rejected_in == _line(document, place)


def in_word(place: CursorContext) -> bool:
    """Whether the cursor is in a word that continues to its right."""
    return _wordy(place.before[-1:]) and _wordy(place.after[:1])


def rest_after(suggestion: Suggestion, place: CursorContext) -> str:
    """The part of `suggestion` still to come at `place`; "" where the two are unrelated.

    Aligns the text typed since with the suggestion: first their common beginning, then, from where they differ, the
    last whole token (a word or a run of signs) that the suggestion contains too.
    """
    typed = _typed_since(suggestion, place)
    if typed is None:
        return ""
    shared = first_difference(suggestion.text, typed)
    if shared == len(typed):
        return suggestion.text[shared:]
    text, tail = suggestion.text[shared:], typed[shared:]
    for length in range(min(len(tail), len(text)), 0, -1):
        piece = tail[-length:]
        found = text.find(piece)
        # Cut no word in two on either side.
        if piece.strip() and found >= 0 and _begins(tail, len(tail) - length) and _begins(text, found):
            return text[found + length :]
    # Perhaps only a name changed: take the text after the old name.
    return text[_word(text) :] if _word(tail) == len(tail) else ""


def _typed_since(suggestion: Suggestion, place: CursorContext) -> str | None:
    """The text typed since the suggestion; None where its place is gone, or too far back."""
    site = len(suggestion.place.before)
    if not place.before.startswith(suggestion.place.before):
        near = suggestion.place.before[-_NEAR:]
        found = place.before.rfind(near, max(0, len(place.before) - _NEAR - _FAR)) if near else -1
        if found < 0:
            return None
        site = found + len(near)
    typed = place.before[site:]
    return typed if len(typed) <= _FAR else None


def _word(text: str) -> int:
    return next((i for i, letter in enumerate(text) if not (letter.isalnum() or letter == "_")), len(text))


def _begins(text: str, at: int) -> bool:
    return at == 0 or not (_word(text[at - 1]) and _word(text[at]))


def _line(document: str, place: CursorContext) -> tuple[str, int]:
    return document, place.before.rfind("\n")


def _wordy(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
