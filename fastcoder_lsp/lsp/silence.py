"""A silent minute: the user types, and for a whole minute nothing at all is shown. Said once, with what to do.

Owns when a silence is one to speak of. Told every answer; knows neither who asks nor how it is shown.
"""

from collections import Counter
from typing import Final

from fastcoder_lsp.core import Reason
from fastcoder_lsp.lsp.reasons import PASSING

SILENT_S: Final = 60.0
PAUSE_S: Final = 15.0
"""Who asks for nothing so long does not type: the silence begins anew with the next question."""
_FEWEST: Final = 10
_WANTED: Final = frozenset(("off", "ignored", "secret", "rejected", "in-word"))
"""Silence that the user's own settings, switches and keys ask for."""


class SilentMinute:
    """Watches the answers of one session."""

    def __init__(self) -> None:
        self._since_s = self._last_s = 0.0
        self._told = False
        self._counts: Counter[str] = Counter()
        self._latest: dict[str, Reason] = {}

    def shown(self) -> None:
        """A suggestion was shown."""
        self._counts.clear()

    def empty(self, reason: Reason, now_s: float) -> Reason | None:
        """An answer was empty; the most frequent reason of a silence that is to be told now."""
        if self._told or reason.code in _WANTED:
            return None
        if not self._counts or now_s - self._last_s > PAUSE_S:
            self._counts.clear()
            self._since_s = now_s
        self._last_s = now_s
        self._counts[reason.code] += 1
        self._latest[reason.code] = reason
        if now_s - self._since_s < SILENT_S or self._counts.total() < _FEWEST:
            return None
        self._told = True
        return self._most_frequent()

    def _most_frequent(self) -> Reason:
        """What typing alone brings about explains a silence only where there is nothing else."""
        telling = {code: times for code, times in self._counts.items() if code not in PASSING}
        if not telling:
            return Reason(
                "slow",
                "You typed on before each suggestion was ready.",
                "Pause for a moment, or set `model` to a smaller model.",
            )
        return self._latest[max(telling, key=lambda code: telling[code])]
