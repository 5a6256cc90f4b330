"""Counts of a session's use: suggestions shown and accepted, and the counts for `fastcoder-lsp report`.

A suggestion counts as shown once, however often the client asks while the user types along it. It counts as accepted
when one edit inserts at least two of its characters in its place (typing inserts one), or by the editor's command. A
thread writes, so that no disk delays the editor; counts that could not be written are tried again with the next ones.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

from fastcoder_lsp.core.differences import first_difference
from fastcoder_lsp.documents import LatestDocuments
from fastcoder_lsp.edits.learned import LearnedKinds, counted_as, read_counts
from fastcoder_lsp.usage import OTHER, CountKey, UsageStore, language_name, rightness, today, wait_class
from fastcoder_lsp.workspace.document import ContentChange

logger = logging.getLogger(__name__)

WRITE_S: Final = 60.0
KEPT_S: Final = 60.0  # an accepted text that stands in the document after this time was kept
LEARNED_DAYS: Final = 30  # latest days with counts that say which edits are wanted
_MOST_JUDGED: Final = 256  # accepted texts that wait for their judgement
_BEFORE: Final = 40  # characters before an accepted text by which it is found again


class UsageCounter:
    """The counts of a session, on the event loop's thread.

    `text_of`: a document's text, or None once closed. `cpu_s`: CPU seconds of the session's work so far.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: UsageStore,
        enabled: Callable[[], bool],
        text_of: Callable[[str], str | None],
        cpu_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._loop, self._store, self._enabled, self._text_of = loop, store, enabled, text_of
        self._cpu_s = cpu_s
        self._told_cpu_s: float | None = None  # None before the first count: a start is no typing
        self._counts: Counter[CountKey] = Counter()
        self._writer = ThreadPoolExecutor(1, "fastcoder-usage")
        self._timer: asyncio.TimerHandle | None = None
        self._judgements: set[asyncio.TimerHandle] = set()
        self._failed = False

    def shown(self, language: str, source: str, wait_ms: float, *, changed: bool = False) -> None:
        """A suggestion was shown after so long a wait; `source` and `changed` as in `CountKey`."""
        self._count(language, source, "shown")
        self._count(language, source, wait_class(wait_ms))
        if changed:
            self._count(language, source, "changed")

    def compare_later(self, uri: str, language: str, source: str, start: int, text: str) -> None:
        """After a minute, compare `text`, shown at `start`, with what was written there, if anything was."""
        now = self._text_of(uri)
        if now is None:
            return
        before, after = now[max(start - _BEFORE, 0) : start], now[start : start + _BEFORE]

        def compare(later: str) -> None:
            place = later.find(before)
            written = later[place + len(before) :]
            if place < 0 or written[:_BEFORE] == after:
                return
            found = rightness(text, written)
            self._count(language, source, "compared")
            self._count(language, source, "word right", int(found.first_word))
            self._count(language, source, "line right", int(found.right > 0))
            self._count(language, source, "lines", found.lines)
            self._count(language, source, "lines right", found.right)

        self._look_later(uri, compare)

    def typed(self, language: str, characters: int) -> None:
        """The user typed so many characters."""
        self._count(language, "keys", "typed", characters)

    def edit_shown(self, language: str) -> None:
        """The editor shows a next edit."""
        self._count(language, "edit", "shown")

    def edit_settled(self, language: str, kind: str, *, made: bool) -> None:
        """The user made or rejected a next edit of a kind."""
        self._count(language, "edit", counted_as(kind, made=made))

    def learn(self, learned: LearnedKinds) -> None:
        """Add the latest days' counts of made and rejected edits, once they are read."""
        if self._enabled():
            self._writer.submit(self._read_edits, learned)

    def _read_edits(self, learned: LearnedKinds) -> None:
        try:
            counts = self._store.read()
        except (OSError, sqlite3.Error) as error:
            logger.info("the counts of edits could not be read: %s", error)
            return
        days = sorted({key.day for key in counts})[-LEARNED_DAYS:]
        edits = ((key.language, key.what, number) for key, number in counts.items() if key.day in days)
        with contextlib.suppress(RuntimeError):  # the session has ended
            self._loop.call_soon_threadsafe(learned.learn, *read_counts(edits))

    def accepted(self, uri: str, language: str, source: str, start: int, text: str) -> None:
        """`text` at `start` was accepted; after a minute it counts as kept if it still stands there."""
        self._count(language, source, "accepted")
        now = self._text_of(uri)
        if now is None:
            return
        expected = now[max(start - _BEFORE, 0) : start] + text

        def judge(later: str) -> None:
            self._count(language, source, "judged")
            if expected in later:
                self._count(language, source, "kept")

        self._look_later(uri, judge)

    def _look_later(self, uri: str, judge: Callable[[str], None]) -> None:
        if not self._enabled() or len(self._judgements) >= _MOST_JUDGED:
            return

        def look() -> None:
            self._judgements.discard(handle)
            if (later := self._text_of(uri)) is not None:
                judge(later)

        handle = self._loop.call_later(KEPT_S, look)
        self._judgements.add(handle)

    def characters(self, language: str, source: str, number: int) -> None:
        """Accepting inserted so many characters."""
        self._count(language, source, "characters", number)

    def close(self) -> None:
        """Write what is left."""
        for handle in (*self._judgements, *filter(None, (self._timer,))):
            handle.cancel()
        self._write()
        self._writer.shutdown(wait=True)

    def _count(self, language: str, source: str, what: str, number: int = 1) -> None:
        if not self._enabled() or not number:
            return
        if self._told_cpu_s is None:
            self._told_cpu_s = self._cpu_s()
        self._counts[CountKey(today().isoformat(), language_name(language), source, what)] += number
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_S, self._write)

    def _write(self) -> None:
        self._timer = None
        counts, self._counts = self._counts, Counter()
        if counts and self._enabled():
            now_s = self._cpu_s()
            cpu_ms = round(1000 * (now_s - (self._told_cpu_s or 0.0)))
            self._told_cpu_s = now_s
            if cpu_ms > 0:  # another model process counts anew
                counts[CountKey(today().isoformat(), OTHER, "keys", "cpu")] += cpu_ms
            self._writer.submit(self._add, counts)

    def _add(self, counts: "Counter[CountKey]") -> None:
        try:
            self._store.add(counts)
            self._failed = False
        except (OSError, sqlite3.Error) as error:
            if not self._failed:
                logger.warning("the counts for `fastcoder-lsp report` could not be written: %s", error)
            self._failed = True
            with contextlib.suppress(RuntimeError):  # the session has ended
                self._loop.call_soon_threadsafe(self._counts.update, counts)


def typed_characters(changes: Iterable[ContentChange]) -> int:
    """How many of the changes are a key: a character, a pair of brackets or quotes, or a line break with its blanks."""
    texts = [change.text for change in changes if change.start is not None]
    return sum(len(text) == 1 or text in _PAIRS or (text[:1] in "\r\n" and text.isspace()) for text in texts)


_PAIRS: Final = ("()", "[]", "{}", '""', "''", "``")
_DOCUMENTS = 32
OnAccept: TypeAlias = Callable[[str, str, int, str, int, bool], None]
"""Told of an accept: the document, the suggestion's source, where it starts, its accepted text, how many characters of
it were inserted now, and whether it was accepted for the first time."""


@dataclass(slots=True)
class _ShownSuggestion:
    """`text` replaces what follows `start`; the document contains `taken` of its characters."""

    number: int
    uri: str
    source: str
    start: int
    text: str
    taken: int = 0
    accepted: bool = False
    changes: bool = False  # whether it replaced a text along which the user typed, and does not begin with it


@dataclass(slots=True)
class AcceptCounts:
    """How many suggestions were shown and accepted; `accepted_characters` counts characters inserted by accepting."""

    shown: int = 0
    accepted: int = 0
    accepted_characters: int = 0


class Accepts:
    """The latest suggestion of each document, and the counts. `on_accept`: told of every accept."""

    def __init__(self, on_accept: OnAccept | None = None) -> None:
        self._on_accept = on_accept
        self._latest: LatestDocuments[_ShownSuggestion] = LatestDocuments(_DOCUMENTS)
        self.counts = AcceptCounts()  # since the start

    def shown(self, uri: str, document: str, start: int, text: str, source: str = "model") -> int:
        """Record a suggestion on the screen; returns its number, for the accept command."""
        last = self._latest.get(uri)
        if last is not None and _continues(last, document, start, text):
            return last.number
        self.counts.shown += 1
        number, changes = self.counts.shown, last is not None and _replaces(last, document, start, text)
        self._latest.put(
            uri, _ShownSuggestion(number, uri, source, start, text, _common(document, start, text), changes=changes)
        )
        return number

    def has_changed(self, uri: str) -> bool:
        """Whether the latest suggestion replaced another one under the user's eyes."""
        last = self._latest.get(uri)
        return last is not None and last.changes

    def may_be_accepted(self, uri: str) -> bool:
        """Whether a change of this document could be an accept."""
        return uri in self._latest

    def changed(self, uri: str, document: str) -> int | None:
        """Record one edit to `document`, the new text; returns the suggestion's end if the edit completed it."""
        last = self._latest.get(uri)
        if last is None:
            return None
        here, taken = _common(document, last.start, last.text), last.taken
        last.taken = here
        if here - taken < 2:
            return None
        self._count_accept(last, here - taken)
        return last.start + here if here == len(last.text) else None

    def accept_command(self, number: int) -> None:
        """Record the editor's accept command; `changed` counts the text that it inserts."""
        for shown in self._latest.values():
            if shown.number == number:
                self._count_accept(shown, 0)

    def closed(self, uri: str) -> None:
        """Forget the document."""
        self._latest.forget(uri)

    def _count_accept(self, shown: _ShownSuggestion, characters: int) -> None:
        first, shown.accepted = not shown.accepted, True
        self.counts.accepted += first
        self.counts.accepted_characters += characters
        if self._on_accept is not None:
            text = shown.text[: shown.taken] or shown.text
            self._on_accept(shown.uri, shown.source, shown.start, text, characters, first)


def _continues(last: _ShownSuggestion, document: str, start: int, text: str) -> bool:
    typed = start - last.start
    return (
        0 <= typed < len(last.text) and last.text[typed:] == text and document.startswith(last.text[:typed], last.start)
    )


def _replaces(last: _ShownSuggestion, document: str, start: int, text: str) -> bool:
    typed = start - last.start
    along = 0 <= typed < len(last.text) and document.startswith(last.text[:typed], last.start)
    return along and not text.startswith(last.text[typed:])


def _common(text: str, start: int, suggestion: str) -> int:
    """How many characters of `suggestion` stand in `text` from `start`."""
    return first_difference(text[start : start + len(suggestion)], suggestion)
