"""When a next edit is worth asking for, and worth showing: better none than a wrong one.

The rules are those that published editors use: cursortab's (unmodified documents, a lone deletion), Sweep's (pastes,
insertions above the cursor, large rewrites there, reverts, blank lines, cut answers) and Copilot's (a pause after a
rejection, rejections remembered). A request by key passes those about timing and place, which spare the user
interruptions, but not those about the edit itself. Times are passed in.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum
from typing import Final

from fastcoder_lsp.core import Change, Reason
from fastcoder_lsp.core.differences import changed
from fastcoder_lsp.edits.learned import LearnedKinds
from fastcoder_lsp.edits.minimal import NEAR_LINES, Patch, patches_of
from fastcoder_lsp.edits.values import Edit, EditQuestion

FAST_CHANGES: Final = 3
FAST_MS: Final = 500.0  # so many changes within this time, the last one within it, too, are fast typing
PASTE_CHARACTERS: Final = 200
PASTE_LINES: Final = 8
PASTE_MS: Final = 1_500.0  # Sweep: text inserted within this time counts as pasted from so many characters or lines on
DELETIONS: Final = 3  # cursortab: fewer in a row correct a slip; from so many on, the user rewrites
PAUSE_MS: Final = 5_000.0  # after a rejection, as in Copilot
MOST_ABOVE: Final = 5  # Sweep: lines added, and lines deleted, above the cursor
_MOST_REJECTED: Final = 64
_MOST_OWN: Final = 3  # latest changes of a file that an edit must not take back
_BY_KEY: Final = "To get an edit anyway, press the key that requests one."


@dataclass(frozen=True, slots=True)
class Inserted:
    """The text that one change inserted: when, how much, and whether it was an accepted suggestion."""

    at_ms: float
    characters: int
    lines: int = 0
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class EditFacts:
    """A document's state as the gate sees it, from `EditHistory.facts`."""

    now_ms: float  # on the clock of `inserted`, its latest changes, the newest last
    modified: bool = True  # the user has changed the document since it was opened
    inserted: tuple[Inserted, ...] = ()


class EditGate:
    """The rules, and the rejections of one front; `learned`: which kinds of edits its user wants."""

    def __init__(self) -> None:
        self.learned = LearnedKinds()
        self._rejected: OrderedDict[int, None] = OrderedDict()
        self._rejected_ms = float("-inf")

    def before(self, question: EditQuestion, facts: EditFacts) -> Reason | None:
        """Why the model is not asked; None if it is."""
        if not question.history:
            return _unmodified(elsewhere=False)
        if question.invoked:
            return None
        if not facts.modified:
            return _unmodified(elsewhere=True)
        deletions = next((n for n, one in enumerate(reversed(facts.inserted)) if one.characters), len(facts.inserted))
        if 0 < deletions < DELETIONS:
            return Reason("edit-deletion", "Your last change only deleted text.", _BY_KEY)
        since = [inserted for inserted in facts.inserted if facts.now_ms - inserted.at_ms < PASTE_MS]
        typed = [inserted for inserted in since if not inserted.accepted]
        characters, lines = sum(one.characters for one in typed), sum(one.lines for one in typed)
        if characters >= PASTE_CHARACTERS or lines >= PASTE_LINES:
            return Reason("edit-pasted", "You have just pasted text.", _BY_KEY)
        if (held := self.typing(facts)) is not None:
            return held
        if facts.now_ms - self._rejected_ms < PAUSE_MS:
            return Reason("edit-paused", "Paused for some seconds: you rejected the last edit.", _BY_KEY)
        return None

    def typing(self, facts: EditFacts) -> Reason | None:
        """The rule about fast typing alone, which needs no text."""
        if sum(facts.now_ms - one.at_ms < FAST_MS for one in facts.inserted) < FAST_CHANGES:
            return None
        return Reason("edit-typing", "You are typing.", "Pause for half a second.")

    def unwanted(self, question: EditQuestion, kind: str) -> Reason | None:
        """Why no edits of a kind are shown unasked; None if they are."""
        if question.invoked:
            return None
        if self.learned.is_silent(kind):
            return Reason("edit-silent", "You rejected the last edits of this kind.", _BY_KEY)
        if self.learned.is_unwanted(kind, question.language):
            return Reason("edit-unwanted", "You reject most edits of this kind in this language.", _BY_KEY)
        return None

    def after(
        self,
        question: EditQuestion,
        edits: Sequence[Edit],
        probability: float,
        threshold: float,
        *,
        cut: bool = False,
        kind: str = "model",
    ) -> Reason | None:
        """Why edits of a kind are not shown; None if they are.

        `probability`: the joint one of the tokens that differ from the old text; `threshold`: the setting
        `edits.threshold`. `cut`: the answer reached the token limit.
        """
        if cut:
            return Reason("edit-cut", "The answer reached the token limit.", "")
        patches = patches_of(question.text, edits)
        if not patches:
            return Reason("edit-none", "The edit model suggests no change.", "")
        if all(_written(patch.old) == _written(patch.new) for patch in patches):
            return Reason("edit-blank", "The edit changes blank lines only.", "")
        if (reason := self.unwanted(question, kind)) is not None:
            return reason
        if not question.invoked and (reason := self._blocking_reason(question, patches, kind)) is not None:
            return reason
        if probability < threshold:
            return Reason(
                "edit-unsure",
                f"The model is unsure of the edit: {probability:.0%}, and the threshold is {threshold:.0%}.",
                "To see such edits, lower `edits.threshold`.",
            )
        return None

    def rejected(self, question: EditQuestion, edits: Sequence[Edit], at_ms: float) -> None:
        """The user rejected `edits` of the question's text."""
        self._rejected_ms = at_ms
        self.undone(question, edits)

    def undone(self, question: EditQuestion, edits: Sequence[Edit]) -> None:
        """The user took back `edits`, which were made in the question's text."""
        self._rejected[_identity(question, patches_of(question.text, edits))] = None
        while len(self._rejected) > _MOST_REJECTED:
            self._rejected.popitem(last=False)

    def accepted(self) -> None:
        """The user accepted an edit: the pause after a rejection ends."""
        self._rejected_ms = float("-inf")

    def _blocking_reason(self, question: EditQuestion, patches: Sequence[Patch], kind: str) -> Reason | None:
        """The rule about interruptions that holds back an edit which nobody has asked for."""
        cursor = question.text.count("\n", 0, question.offset)
        added, deleted = sum(len(patch.new) for patch in patches), sum(len(patch.old) for patch in patches)
        if kind != "import" and not deleted and all(patch.line < cursor for patch in patches):
            return Reason("edit-above", "The edit only inserts lines above the cursor.", _BY_KEY)
        above = all(patch.line + len(patch.old) <= cursor for patch in patches)
        if above and min(added, deleted) > MOST_ABOVE:
            return Reason("edit-above", "The edit rewrites many lines above the cursor.", _BY_KEY)
        own = [change for change in question.history if change.path == question.path][-_MOST_OWN:]
        if any(_takes_back(patch, change) for change in own for patch in patches):
            return Reason("edit-revert", "The edit undoes your last change.", _BY_KEY)
        if _identity(question, patches) in self._rejected:
            return Reason("edit-rejected", "You have rejected or undone this edit before.", _BY_KEY)
        return None


def _unmodified(*, elsewhere: bool) -> Reason:
    if elsewhere:
        return Reason("edit-unmodified", "You have not changed this document yet.", _BY_KEY)
    return Reason("edit-unmodified", "You made no change lately.", "Make a change: next edits follow from it.")


def _written(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines if line.strip()]


def _takes_back(patch: Patch, change: Change) -> bool:
    """Whether a patch restores what a change replaced, or only deletes lines that the change wrote."""
    done = Patch(change.line, _lines(change.old), _lines(change.new)).trimmed()
    if not -NEAR_LINES <= patch.line - done.line <= NEAR_LINES + len(done.new):
        return False
    gone, back = _written(patch.old), _written(patch.new)
    if not back:
        return bool(gone) and set(gone) <= set(_written(done.new))
    return gone == _written(done.new) and back == _written(done.old)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.removesuffix("\n").split("\n")) if text else ()


def _identity(question: EditQuestion, patches: Sequence[Patch]) -> int:
    """A rejection's key; the same edit further up or down is the same."""
    return hash((question.uri, *((patch.old, patch.new) for patch in patches)))


_MOST_PAIRS = 32_768
"""Pairs of equal tokens between the first and the last change: an eighth of a second at the worst. With more of them
all of the answer's tokens between these changes count."""


def rewrite_probability(old: Sequence[int], answer: Sequence[int], log_probabilities: Sequence[float]) -> float:
    """The joint probability of an answer's tokens that differ from the old text; 1 where none does.

    Copied tokens count nothing, so that long regions are no less sure than short ones. Where the answer only leaves old
    tokens out, the token after them counts: the model said it instead of them. `old`: the tokens of the answer that
    changes nothing; with an end mark if `answer` has one. `log_probabilities`: of each answer token, given those before
    it.
    """
    return exp(fsum(log_probabilities[place] for place in differing(old, answer) if place < len(answer)))


def differing(old: Sequence[int], answer: Sequence[int]) -> frozenset[int]:
    """The places of the answer's tokens that differ from the old text, as `rewrite_probability` counts them."""
    parts = changed(tuple(old), tuple(answer), _MOST_PAIRS)
    return frozenset(place for _, _, first, last in parts for place in range(first, max(last, first + 1)))
