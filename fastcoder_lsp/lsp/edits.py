"""The state of next edits in a session: the user's changes, the gate, and the edits that were sent to the editor."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fastcoder_lsp.edits.elsewhere import SOURCE as ELSEWHERE
from fastcoder_lsp.edits.gate import EditGate
from fastcoder_lsp.edits.history import EditHistory, Judge
from fastcoder_lsp.edits.minimal import apply
from fastcoder_lsp.edits.values import Edit, EditQuestion
from fastcoder_lsp.lsp.reasons import Reasons
from fastcoder_lsp.lsp.usage import UsageCounter
from fastcoder_lsp.observe import SpanStatistics

_MOST_OFFERS: Final = 8  # edits of several files that may still be made
_MOST_SENT: Final = 64  # edits that were sent and may still be accepted or rejected


@dataclass(slots=True)
class SentEdit:
    """An edit that was sent: one of those (`answer`) that answer a question.

    `kind`: one of `learned.KINDS`. `shown` once the editor has shown it, `settled` once it was accepted or rejected,
    `made` once it was accepted.
    """

    question: EditQuestion
    edit: Edit
    answer: Sequence[Edit]
    kind: str = "model"
    shown: bool = False
    settled: bool = False
    made: bool = False


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """The edits of a file, perhaps another one: `question` has its text, and its version if it is open."""

    question: EditQuestion
    edits: tuple[Edit, ...]
    is_open: bool


@dataclass(slots=True)
class EditCounts:
    """Counts since the start: requests, answers with edits, and edits that were shown, accepted and rejected."""

    requests: int = 0
    suggested: int = 0
    shown: int = 0
    accepted: int = 0
    rejected: int = 0


def now_ms() -> float:
    """The clock of the history and the gate."""
    return time.monotonic() * 1e3


class NextEdits:
    """The state of a session.

    `may_read`: whether the rules allow to remember the changes of the document with this URI. `is_secret` judges its
    lines.
    """

    def __init__(self, may_read: Callable[[str], bool], is_secret: Judge, usage: UsageCounter) -> None:
        self.clock, self._usage = now_ms, usage
        self.history, self.gate = EditHistory(may_read, is_secret), EditGate()
        self.reasons, self.counts, self.spans = Reasons(), EditCounts(), SpanStatistics()
        self._ids = itertools.count(1)
        self._sent: OrderedDict[str, SentEdit] = OrderedDict()
        self._offers: OrderedDict[str, tuple[OfferedFile, ...]] = OrderedDict()

    def changed(self, uri: str, path: str, folder: str, before: str, after: str, *, accepted: bool) -> None:
        """A document changed. `accepted`: it accepted a suggestion; edits that it accepts or undoes are found here."""
        accepted = self._accepts(uri, before, after) or accepted
        if not accepted and (undone := self._undone(uri, after)) is not None:
            self.gate.undone(undone.question, undone.answer)
        self.history.note(uri, path, before, after, self.clock(), accepted=accepted, folder=folder)

    def send(self, question: EditQuestion, edits: Sequence[Edit], kind: str) -> list[str]:
        """Record edits of a kind that answer a question; returns their ids."""
        ids = [f"edit-{next(self._ids)}" for _ in edits]
        self._sent.update((name, SentEdit(question, edit, edits, kind)) for name, edit in zip(ids, edits, strict=True))
        while len(self._sent) > _MOST_SENT:
            self._sent.popitem(last=False)
        self.counts.suggested += 1
        return ids

    def offer(self, files: Sequence[OfferedFile]) -> str:
        """Record edits of several files that are offered as one; returns their id."""
        name = f"edits-{next(self._ids)}"
        self._offers[name] = tuple(files)
        while len(self._offers) > _MOST_OFFERS:
            self._offers.popitem(last=False)
        return name

    def offered(self, name: object) -> Sequence[OfferedFile] | None:
        """The files of an offer that the user has not made or rejected yet."""
        return self._offers.get(name) if isinstance(name, str) else None

    def settle_offer(self, name: object, *, made: bool) -> None:
        """The user made an offer, or rejected it."""
        if isinstance(name, str) and (files := self._offers.pop(name, None)):
            self.judge(files[0].question.language, ELSEWHERE, made=made)
            self.counts.accepted += made
            self.counts.rejected += not made

    def shown(self, name: object) -> None:
        """The editor shows an edit."""
        if (sent := self._found(name)) is not None and not sent.shown:
            sent.shown = True
            self.counts.shown += 1
            self._usage.edit_shown(sent.question.language)

    def accepted(self, name: object) -> None:
        """The user accepted an edit, by the editor's command."""
        self.settle_offer(name, made=True)
        if (sent := self._found(name)) is not None:
            self._settle(sent, accepted=True)

    def rejected(self, name: object) -> None:
        """The user rejected an edit."""
        self.settle_offer(name, made=False)
        if (sent := self._found(name)) is not None and not sent.settled:
            self._settle(sent, accepted=False)
            self.gate.rejected(sent.question, sent.answer, self.clock())

    def judge(self, language: str, kind: str, *, made: bool) -> None:
        """Count that the user made or rejected an answer of a kind."""
        self.gate.learned.settle(kind, language, made=made)
        self._usage.edit_settled(language, kind, made=made)

    def renamed(self, old: str, new: str, path: str, folder: str) -> None:
        """A document has a new name."""
        self.history.rename(old, new, path, folder)
        self.reasons.rename(old, new)

    def clear(self) -> None:
        """Forget the user's changes: no edits are wanted."""
        self.history.clear()
        self._sent.clear()
        self._offers.clear()

    def _found(self, name: object) -> SentEdit | None:
        return self._sent.get(name) if isinstance(name, str) else None

    def _accepts(self, uri: str, before: str, after: str) -> bool:
        """Whether a change applies an edit that was sent, or all edits of its answer."""
        for sent in reversed(self._sent.values()):
            if sent.question.uri != uri or sent.question.text != before:
                continue
            if after in {apply(before, [sent.edit]), apply(before, sent.answer)}:
                self._settle(sent, accepted=True)
                return True
        return False

    def _undone(self, uri: str, after: str) -> SentEdit | None:
        """The edit that was made in the text which a change restores."""
        latest = (sent for sent in reversed(self._sent.values()) if sent.made and sent.question.uri == uri)
        return next((sent for sent in latest if sent.question.text == after), None)

    def _settle(self, sent: SentEdit, *, accepted: bool) -> None:
        if sent.settled:
            return
        sent.settled, sent.made, question = True, accepted, sent.question
        if not any(other.settled and other.answer is sent.answer for other in self._sent.values() if other is not sent):
            self.judge(question.language, sent.kind, made=accepted)  # the edits of an answer are one for the user
        if accepted:
            self.counts.accepted += 1
            self.gate.accepted()
            self._usage.accepted(question.uri, question.language, "edit", sent.edit.start, sent.edit.text)
        else:
            self.counts.rejected += 1
