"""Why nothing was shown: the last empty answers of each document, for `fastcoder/why`.

Owns what is kept, how much of it, and how the front's own decisions read; all other reasons come from below. No text of
the user's is kept.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from fastcoder_lsp.completion import reasons
from fastcoder_lsp.config import Settings
from fastcoder_lsp.config.resolve import shown as printable
from fastcoder_lsp.core import Reason
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.workspace import rules
from fastcoder_lsp.workspace.document import Position
from fastcoder_lsp.workspace.paths import path_of

PASSING: Final = frozenset(("superseded", "cancelled", "changed"))
"""Reasons that every key causes: they say nothing about the place."""
_ANSWERS: Final = 20
_DOCUMENTS: Final = 50
MAX_NAME: Final = 1000  # characters of a file's name or path, whose control characters are not shown
_NEOVIMS_UNNAMED: Final = "file://"  # Neovim's URI for a buffer without a name


@dataclass(frozen=True, slots=True)
class Silence:
    """Empty answers one after the other for one reason: how many, when the last of them came (s), and where."""

    reason: Reason
    at: Position
    moment_s: float
    times: int = 1


@dataclass(frozen=True, slots=True)
class LastSuggestion:
    """The last suggestion of a document: when, and where."""

    at: Position
    moment_s: float


@dataclass(slots=True)
class _DocumentHistory:
    """A document's last empty answers, the latest last, its last suggestion, and the hints that the user was told."""

    silences: deque[Silence] = field(default_factory=lambda: deque(maxlen=_ANSWERS))
    shown: LastSuggestion | None = None
    told: set[str] = field(default_factory=set)


class Reasons(PerDocument[_DocumentHistory]):
    """The last empty answers, and the last suggestion, of the documents that were asked about of late.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(_DocumentHistory, _DOCUMENTS)
        self._clock = clock

    def keep(self, uri: str, at: Position, reason: Reason) -> None:
        """An answer was empty. It takes the place of one like it just before: many of a kind push out nothing else."""
        kept = self.fetch(uri).silences
        silence = Silence(reason, at, self._clock())
        if kept and _alike(kept[-1], silence):
            silence = replace(silence, times=kept.pop().times + 1)
        kept.append(silence)

    def replace_slow(self, uri: str, at: Position, reason: Reason) -> None:
        """Replace a slow answer at a place by its final reason."""
        kept = self.fetch(uri).silences
        if kept and (kept[-1].reason.code, kept[-1].at) == ("slow", at):
            kept.append(replace(kept.pop(), reason=reason))

    def shown(self, uri: str, at: Position) -> None:
        """An answer was a suggestion."""
        self.fetch(uri).shown = LastSuggestion(at, self._clock())

    def told(self, uri: str) -> set[str]:
        """The hints that the user was told for the whole document."""
        return self.fetch(uri).told

    def silences(self, uri: str) -> tuple[Silence, ...]:
        """The last empty answers of a document, the latest first."""
        kept = self.get(uri)
        return tuple(reversed(kept.silences)) if kept is not None else ()

    def last_shown(self, uri: str) -> LastSuggestion | None:
        """The last suggestion of a document."""
        kept = self.get(uri)
        return kept.shown if kept is not None else None

    def ago_s(self, moment_s: float) -> float:
        """How long ago that was."""
        return max(0.0, self._clock() - moment_s)


def of_rule(rule: rules.ExclusionReason, settings: Settings, size: int, longest: int) -> Reason:
    """Why there is nothing in a document that a rule excludes; `size`: its bytes, `longest`: characters of a line."""
    if rule is rules.ExclusionReason.SECRET:
        return reasons.secret_file()
    if rule is rules.ExclusionReason.TOO_LARGE:
        return reasons.large_file(size, settings.read_max_file_bytes)
    if rule is rules.ExclusionReason.LONG_LINES:
        return reasons.long_line(longest, settings.read_max_line_length)
    return reasons.ignored(rule.value)


def document_name(uri: str) -> str:
    """A document's name for the user."""
    return "this document" if uri == _NEOVIMS_UNNAMED else printable(PurePath(path_of(uri) or uri).name, MAX_NAME)


def sentences(what: str, reason: Reason) -> list[str]:
    """What there is not, why, and what to do."""
    return [f"{what}: {reason.text}", *([reason.hint] if reason.hint else [])]


def unknown_document() -> Reason:
    """The client has not opened it."""
    return Reason(
        "changed",
        "The editor has not opened this document for fastcoder, or has closed it.",
        "Open it again. Only files and new, unnamed documents get suggestions.",
    )


def stale_document() -> Reason:
    """A change of the document was lost."""
    return Reason(
        "error",
        "A change of this document did not reach fastcoder: its message was malformed or too long.",
        "Close the document and open it again.",
    )


def menu_waited(budget_ms: float) -> Reason:
    """The completion menu did not wait for it."""
    return Reason(
        "slow",
        f"The suggestion was not ready within {budget_ms:.0f} ms, the limit of the completion menu.",
        "Press the next key to see it, or raise `popup.budget_ms`.",
    )


def no_room() -> Reason:
    """There is a suggestion that no editor could draw at this place."""
    return Reason("nothing", "Editors cannot show this suggestion here.", "")


def _alike(first: Silence, second: Silence) -> bool:
    if first.reason.code in PASSING:
        return first.reason == second.reason
    return (first.reason.code, first.at) == (second.reason.code, second.at)
