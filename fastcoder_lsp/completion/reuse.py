"""Answers that need no model: what the user types, deletes or accepts along a suggestion keeps the suggestion.

Owns the suggestions of late, per document and bounded. It answers only where the text on both sides of the cursor is
what the suggestion was made for, plus a part of the suggestion itself; any other edit makes it silent.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass
from itertools import accumulate

CLOSERS = ")]}>\"'`"
"""What editors type by themselves right of the cursor."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The rest of a suggestion: insert `text`, replacing `replaces` characters right of the cursor."""

    text: str
    replaces: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`text` was made for the place between `before` and `after`, to replace `replaces` characters right of it.

    `others`: more candidates for this place; None where nobody has looked for any.
    """

    before: str
    after: str
    text: str
    replaces: int = 0
    others: tuple["Suggestion", ...] | None = None

    def rest(self, before: str, after: str) -> Recalled | None:
        """What is left of this suggestion between two texts; None where they do not belong to it, or nothing is."""
        if not before.startswith(self.before):
            return None
        typed = before[len(self.before) :]
        if len(typed) >= len(self.text) or not self.text.startswith(typed):
            return None
        rest = self.text[len(typed) :]
        if after == self.after:
            return Recalled(rest, self.replaces)
        # An opening bracket or quote was typed, and the editor closed it: the rest brings its own closer.
        closers = after[: len(after) - len(self.after)]
        if len(closers) <= len(typed) and after.endswith(self.after) and _closes(closers, rest):
            return Recalled(rest, len(closers) + self.replaces)
        return None


def are_closers(text: str) -> bool:
    """Whether `text` is something, and all of it what editors type by themselves."""
    return bool(text) and all(letter in CLOSERS for letter in text)


def _closes(closers: str, rest: str) -> bool:
    """Whether `rest` holds all of `closers` in their order."""
    if not are_closers(closers):
        return False
    found = accumulate(closers, lambda place, closer: rest.find(closer, place) + 1 or len(rest) + 1, initial=0)
    return list(found)[-1] <= len(rest)


class SuggestionMemory:
    """The last suggestions of the last documents.

    Args:
        documents: how many documents are remembered.
        suggestions: how many suggestions of each.
    """

    def __init__(self, documents: int = 16, suggestions: int = 12) -> None:
        self._capacity = documents
        self._suggestions = suggestions
        self._of: OrderedDict[str, deque[Suggestion]] = OrderedDict()

    def remember(self, document: str, suggestion: Suggestion) -> None:
        """A suggestion was made."""
        if not suggestion.text:
            return
        of = self._of.setdefault(document, deque(maxlen=self._suggestions))
        self._of.move_to_end(document)
        of.appendleft(suggestion)
        while len(self._of) > self._capacity:
            self._of.popitem(last=False)

    def recall(self, document: str, before: str, after: str) -> Recalled | None:
        """The rest of the latest suggestion that goes on between these texts."""
        rests = (suggestion.rest(before, after) for suggestion in self._of.get(document, ()))
        return next((rest for rest in rests if rest is not None), None)

    def recall_all(self, document: str, before: str, after: str) -> tuple[Recalled, ...]:
        """All candidates for exactly this place, the first one first; empty where nobody has looked for others."""
        for suggestion in self._of.get(document, ()):
            if suggestion.others is not None and (suggestion.before, suggestion.after) == (before, after):
                all_of_it = (suggestion, *suggestion.others)
                return tuple(Recalled(candidate.text, candidate.replaces) for candidate in all_of_it)
        return ()

    def forget(self, document: str) -> None:
        """The document was closed."""
        self._of.pop(document, None)

    def rename(self, old: str, new: str) -> None:
        """The document has another name now."""
        if (of := self._of.pop(old, None)) is not None:
            self._of[new] = of

    def clear(self) -> None:
        """Another model or other settings: nothing of before holds."""
        self._of.clear()
