"""A question whose answer somebody waits for, and the bell that rings when its time is over."""

import asyncio
import math
from collections.abc import Callable

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.remote.budgets import allowed_ms


class Waiting:
    """One question.

    Attributes:
        question: that; it may be renamed.
        spans: what it took so far.
        allowed_ms: what it has.

    Args:
        question: as it was asked.
        now_ms: the time, by the service's clock.
        patient: see `budgets.allowed_ms`.
        overdue: called when its time is over, unless it was answered before.
    """

    def __init__(self, question: Question, now_ms: float, overdue: Callable[[], None], *, patient: bool) -> None:
        self.question, self.spans = question, Spans.since(question.opened_s)
        self.allowed_ms = allowed_ms(question, patient=patient)
        self._bell: asyncio.TimerHandle | None = None
        if not math.isinf(self.allowed_ms):
            waited_ms = 0.0 if patient else now_ms - question.asked_ms
            in_s = max(0.0, self.allowed_ms - waited_ms) / 1e3
            self._bell = asyncio.get_running_loop().call_later(in_s, overdue)

    def came(self, span: str) -> None:
        """Something came of it: the time since the last thing that did belongs to this span."""
        measured = self.spans.close()
        self.spans.add(span, measured["total"] - sum(ms for name, ms in measured.items() if name != "total"))

    def over(self) -> None:
        """Nobody waits any more."""
        if self._bell is not None:
            self._bell.cancel()
