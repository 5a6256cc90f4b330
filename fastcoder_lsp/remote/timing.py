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
"""A person has typed on after that, and gets the text when it is made."""
INVOKED_MS: Final = 5_000.0
IDLE_MS: Final = 30_000.0
"""So long an answer may go on that nobody waits for."""
_KEPT_MS: Final = 12.0
"""Kept back of a budget for the way to the editor."""


def allowed_ms(question: Question, *, patient: bool = False) -> float:
    """What the question has; infinite: it is answered when the answer is whole.

    `patient`: it has to wait until the server has said what it is, and has all the time of one asked by a key.
    """
    policy = question.policy
    invoked, automatic = policy.invoked_ms or INVOKED_MS, policy.automatic_ms or AUTOMATIC_MS
    chosen = max(invoked, automatic) if patient else invoked if question.request.invoked else automatic
    return chosen if math.isinf(chosen) else max(0.0, chosen - _KEPT_MS)


def idle_ms(policy: Policy) -> float:
    """How long what nobody waits for may go on."""
    return policy.background_ms or IDLE_MS


def by_kind(policy: Policy) -> dict[str, float]:
    """The name of each → milliseconds."""
    return {
        "automatic": policy.automatic_ms or AUTOMATIC_MS,
        "invoked": policy.invoked_ms or INVOKED_MS,
        "background": idle_ms(policy),
    }


class PendingQuestion:
    """One question.

    Attributes:
        question: that; it may be renamed.
        spans: what it took so far.
        allowed_ms: what it has.

    Args:
        question: as it was asked.
        now_ms: the time, by the service's clock.
        patient: see `allowed_ms`.
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


class IdleTimeout:
    """A time that runs from the last moment when somebody waited.

    Args:
        over: called at its end.
    """

    def __init__(self, over: Callable[[], object]) -> None:
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, policy: Policy) -> None:
        """From now on nobody waits."""
        self.end()
        self._timer = asyncio.get_running_loop().call_later(idle_ms(policy) / 1e3, self._over)

    def end(self) -> None:
        """Somebody waits, or nothing is said any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0)


@dataclass(slots=True)
class Backoff:
    """The failures in a row.

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
        """It failed once more."""
        step_s = self.steps_s[min(self._in_a_row, len(self.steps_s) - 1)]
        self._in_a_row += 1
        self.failure, self.until_ms = error, now_ms + 1e3 * max(step_s, error.wait_s)

    def answered(self) -> None:
        """It has answered a question."""
        self.failure, self._in_a_row, self.until_ms = None, 0, 0.0

    def holds(self, now_ms: float) -> RemoteError | None:
        """Why it is not asked now; None where it may be."""
        if self.failure is None or now_ms >= self.until_ms:
            return None
        return self.failure
