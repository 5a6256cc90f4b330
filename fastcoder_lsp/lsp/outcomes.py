"""What became of the questions of a session: shown, or empty for a reason; a silence that lasts is told.

Owns who hears of it: the reasons of the document, and the user after a silent minute.
"""

import time
from collections.abc import Callable

from fastcoder_lsp.core import Reason
from fastcoder_lsp.lsp.reasons import Reasons
from fastcoder_lsp.lsp.silence import SilentMinute
from fastcoder_lsp.lsp.status import Reporter
from fastcoder_lsp.workspace.positions import Position


class Outcomes:
    """Told of every answer.

    Args:
        reporter: tells the user.
        clock: seconds.
    """

    def __init__(self, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self.reasons = Reasons(clock)
        self._reporter = reporter
        self._clock = clock
        self._silent_minute = SilentMinute()

    def shown(self, uri: str, at: Position) -> None:
        """A suggestion is shown."""
        self.reasons.shown(uri, at)
        self._silent_minute.shown()

    def empty(self, uri: str, at: Position, reason: Reason) -> None:
        """Nothing is shown; a whole minute of that, while the user types, is told once."""
        self.reasons.keep(uri, at, reason)
        told = self._silent_minute.empty(reason, self._clock())
        if told is None or (told.code == "error" and self._reporter.current.state == "error"):
            return  # what is wrong with the model was said when it went wrong
        self._reporter.notice(f"no suggestion for a minute. {told.text} {told.hint}".strip())
