"""Times for a server on a network: what a question has, when an unwanted answer ends, pauses after failures."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fastcoder_lsp.completion.question import Policy, Question
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.remote.failures import RemoteError

AUTOMATIC_MS: Final = 400.0
"""Users type on after that; the text is shown when it is ready."""
INVOKED_MS: Final = 5_000.0
IDLE_MS: Final = 30_000.0
"""How long an answer may continue with no pending question."""
_KEPT_MS: Final = 12.0
"""Reserved for the way to the editor."""


def allowed_ms(question: Question, *, patient: bool = False) -> float:
    """The budget of a question; infinite means to wait for the whole answer.

    `patient`: the server has not been identified yet, so the question gets the budget of an invoked one.
    """
    policy = question.policy
    invoked, automatic = policy.invoked_ms or INVOKED_MS, policy.automatic_ms or AUTOMATIC_MS
    chosen = max(invoked, automatic) if patient else invoked if question.request.invoked else automatic
    return chosen if math.isinf(chosen) else max(0.0, chosen - _KEPT_MS)


def idle_ms(policy: Policy) -> float:
    """How long an answer may continue with no pending question."""
    return policy.background_ms or IDLE_MS


def by_kind(policy: Policy) -> dict[str, float]:
    """Milliseconds by the kind of question."""
    return {
        "automatic": policy.automatic_ms or AUTOMATIC_MS,
        "invoked": policy.invoked_ms or INVOKED_MS,
        "background": idle_ms(policy),
    }


class PendingQuestion:
    """A question that waits for its answer, and the timer of its budget.

    Attributes:
        question: may be renamed.
        spans: its times so far.
        allowed_ms: its budget.

    Args:
        question: as it was asked.
        now_ms: the time, by the service's clock.
        patient: see `allowed_ms`.
        overdue: called when the budget ends, unless `over` came first.
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
        """Add the time since the last call to this span."""
        measured = self.spans.close()
        self.spans.add(span, measured["total"] - sum(ms for name, ms in measured.items() if name != "total"))

    def over(self) -> None:
        """Stop the timer: the question is answered or withdrawn."""
        if self._bell is not None:
            self._bell.cancel()


class IdleTimeout:
    """A timer that runs while no question is pending.

    Args:
        over: called at its end.
    """

    def __init__(self, over: Callable[[], object]) -> None:
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, policy: Policy) -> None:
        """Start the timer."""
        self.end()
        self._timer = asyncio.get_running_loop().call_later(idle_ms(policy) / 1e3, self._over)

    def end(self) -> None:
        """Stop the timer: a question is pending, or the answer has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0)


@dataclass(slots=True)
class Backoff:
    """How long a failing server is left alone: longer after each failure in a row, or as long as it asks for.

    Attributes:
        steps_s: after the first failure, the second, and so on; the last one after all others.
        failure: the last one; None while all is well.
        until_ms: before then the server is not asked again.
    """

    steps_s: tuple[float, ...] = PAUSES_S
    failure: RemoteError | None = None
    until_ms: float = 0.0
    _in_a_row: int = 0

    def failed(self, error: RemoteError, now_ms: float) -> None:
        """Record a failure."""
        step_s = self.steps_s[min(self._in_a_row, len(self.steps_s) - 1)]
        self._in_a_row += 1
        self.failure, self.until_ms = error, now_ms + 1e3 * max(step_s, error.wait_s)

    def answered(self) -> None:
        """Record an answer, which ends the backoff."""
        self.failure, self._in_a_row, self.until_ms = None, 0, 0.0

    def holds(self, now_ms: float) -> RemoteError | None:
        """The failure for which the server is not asked now; None when it may be asked."""
        if self.failure is None or now_ms >= self.until_ms:
            return None
        return self.failure
