"""Times for a server on a network: answer budgets, the idle timeout, and backoff after failures."""

import math
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from fastcoder_lsp.completion.question import Clock, Policy, Question
from fastcoder_lsp.remote.failures import RemoteError
from fastcoder_lsp.scheduling.budget import BackgroundBudget, Budgets

AUTOMATIC_MS: Final = 400.0
"""Users type on after that; a later text is shown as a late suggestion."""
INVOKED_MS: Final = 5_000.0
IDLE_MS: Final = 30_000.0
"""How long an answer may continue with no pending question."""


def budgets_of(policy: Policy) -> Budgets:
    """The budgets of `policy`; defaults where it sets none, because a server's speed is unknown."""
    return Budgets(
        policy.automatic_ms or AUTOMATIC_MS, policy.invoked_ms or INVOKED_MS, policy.background_ms or IDLE_MS
    )


class IdleTimeout(BackgroundBudget):
    """Ends an answer that has had no pending question for too long; counts from the first such moment.

    `least_ms`: the least time that it gives where the policy sets none.
    """

    def __init__(self, question: Question, clock: Clock, least_ms: float = 0.0) -> None:
        allowed_ms = question.policy.background_ms or max(least_ms, IDLE_MS)
        super().__init__(question, allowed_ms, allowed_ms, owed_ms=0.0, kept_ms=0.0, again_ms=0.0, prepare=False)
        self._clock, self._since_ms = clock, math.inf

    @override
    def room_ms(self, *, owed: bool) -> float:
        now_ms = self._clock()
        self._since_ms = min(self._since_ms, now_ms)
        return self.granted_ms - (now_ms - self._since_ms)


PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0)


@dataclass(slots=True)
class Backoff:
    """How long a failing server is not asked: longer after each consecutive failure, or as long as it demands.

    Attributes:
        pauses_s: after the first failure, the second, and so on; the last one repeats.
        failure: the last one; None after an answer.
        until_ms: the server is not asked before.
    """

    pauses_s: tuple[float, ...] = PAUSES_S
    failure: RemoteError | None = None
    until_ms: float = 0.0
    _consecutive: int = 0

    def failed(self, error: RemoteError, now_ms: float) -> None:
        """Record a failure."""
        step_s = self.pauses_s[min(self._consecutive, len(self.pauses_s) - 1)]
        self._consecutive += 1
        self.failure, self.until_ms = error, now_ms + 1e3 * max(step_s, error.wait_s)

    def answered(self) -> None:
        """Record an answer, which ends the backoff."""
        self.failure, self._consecutive, self.until_ms = None, 0, 0.0

    def blocking_failure(self, now_ms: float) -> RemoteError | None:
        """The failure because of which the server is not asked now; None when it may be asked."""
        if self.failure is None or now_ms >= self.until_ms:
            return None
        return self.failure
