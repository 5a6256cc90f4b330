"""Counts the suggestions that were shown and accepted.

A suggestion counts as shown once, however often the client asks while the user types along it. It counts as accepted
when one edit inserts at least two of its characters in its place (typing inserts one), or by the editor's command.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fastcoder_lsp.documents import LatestDocuments

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


@dataclass(frozen=True, slots=True)
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
        self._numbers = 0
        self._shown = 0
        self._accepted = 0
        self._characters = 0

    def shown(self, uri: str, document: str, start: int, text: str, source: str = "model") -> int:
        """Record a suggestion on the screen; returns its number, for the accept command."""
        last = self._latest.get(uri)
        if last is not None and _continues(last, document, start, text):
            return last.number
        self._numbers += 1
        self._shown += 1
        self._latest.put(uri, _ShownSuggestion(self._numbers, uri, source, start, text, _common(document, start, text)))
        return self._numbers

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

    def counts(self) -> AcceptCounts:
        """The counts since the start."""
        return AcceptCounts(self._shown, self._accepted, self._characters)

    def _count_accept(self, shown: _ShownSuggestion, characters: int) -> None:
        first, shown.accepted = not shown.accepted, True
        self._accepted += first
        self._characters += characters
        if self._on_accept is not None:
            text = shown.text[: shown.taken] or shown.text
            self._on_accept(shown.uri, shown.source, shown.start, text, characters, first)


def _continues(last: _ShownSuggestion, document: str, start: int, text: str) -> bool:
    typed = start - last.start
    return (
        0 <= typed < len(last.text) and last.text[typed:] == text and document.startswith(last.text[:typed], last.start)
    )


def _common(text: str, start: int, suggestion: str) -> int:
    """How many characters of `suggestion` stand in `text` from `start`."""
    if text.startswith(suggestion, start):
        return len(suggestion)
    piece = text[start : start + len(suggestion)]
    return next((i for i, (a, b) in enumerate(zip(piece, suggestion, strict=False)) if a != b), len(piece))
