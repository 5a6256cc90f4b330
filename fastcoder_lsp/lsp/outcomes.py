"""The outcome of each question of a session: shown, or empty for a reason.

The user is notified once if a whole minute of typing brings no suggestion.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from fastcoder_lsp.core import Reason
from fastcoder_lsp.lsp.reasons import PASSING, Reasons
from fastcoder_lsp.lsp.status import Reporter
from fastcoder_lsp.workspace.document import Position

SILENT_S: Final = 60.0
PAUSE_S: Final = 15.0
"""After such a pause the user is not typing: the minute starts again with the next question."""
_MIN_ANSWERS: Final = 10
_INTENDED: Final = frozenset(
    (
        *("off", "ignored", "secret", "rejected", "in-word", "in-comment", "in-string", "in-prose"),
        *("deletion", "short", "by-key", "snoozed"),
    )
)
"""Reasons that the user's own settings, switches and keys cause."""


class SilenceWatch:
    """Detects a minute of typing without a suggestion."""

    def __init__(self) -> None:
        self._since_s = self._last_s = 0.0
        self._reported = False
        self._counts: Counter[str] = Counter()
        self._latest: dict[str, Reason] = {}

    def shown(self) -> None:
        """A suggestion was shown."""
        self._counts.clear()

    def empty(self, reason: Reason, now_s: float) -> Reason | None:
        """Record an empty answer; returns the most frequent reason if the user is to be notified now."""
        if self._reported or reason.code in _INTENDED:
            return None
        if not self._counts or now_s - self._last_s > PAUSE_S:
            self._counts.clear()
            self._since_s = now_s
        self._last_s = now_s
        self._counts[reason.code] += 1
        self._latest[reason.code] = reason
        if now_s - self._since_s < SILENT_S or self._counts.total() < _MIN_ANSWERS:
            return None
        self._reported = True
        return self._most_frequent()

    def _most_frequent(self) -> Reason:
        """The most frequent reason; those that mere typing causes count only if there are no others."""
        relevant = {code: times for code, times in self._counts.items() if code not in PASSING}
        if not relevant:
            return Reason(
                "slow",
                "You kept typing before any suggestion was ready.",
                "Pause for a moment, or set `model` to a smaller model.",
            )
        return self._latest[max(relevant, key=lambda code: relevant[code])]


class Outcomes:
    """Receives every answer. `clock`: seconds."""

    def __init__(self, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self.reasons = Reasons(clock)
        self._reporter = reporter
        self._clock = clock
        self._watch = SilenceWatch()

    def shown(self, uri: str, at: Position) -> None:
        """A suggestion is shown."""
        self.reasons.shown(uri, at)
        self._watch.shown()

    def empty(self, uri: str, at: Position, reason: Reason) -> None:
        """Nothing is shown; notify the user once after a whole minute of that."""
        self.reasons.keep(uri, at, reason)
        report = self._watch.empty(reason, self._clock())
        if report is None or (report.code == "error" and self._reporter.current.state == "error"):
            return  # the model's error was reported when it occurred
        self._reporter.notice(f"no suggestion for a minute. {report.text} {report.hint}".strip())
