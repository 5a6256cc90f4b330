"""Time: the budget of a request, estimates of what work takes, and the budget of background work.

An estimate is the measured cost, times how much slower work was recently. A stall (a stopped process, a suspended
machine, a burst of other work, a clock that jumped) looks like a slow piece of work and says nothing about the next
one. So the estimator ignores a single slow piece, believes many of them only up to a bound, takes all of it back after
a few quick ones in a row, and forgets what is a few seconds old. Milliseconds throughout.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastcoder_lsp.completion.question import Clock, Policy, Question
from fastcoder_lsp.core import Pieces, StepCosts
from fastcoder_lsp.runtime.costs import believable

T = TypeVar("T")
ANSWER_MS = 12.0  # reserved in every budget for the way to the client, besides the time that the answer itself needs
FIRST_MS, FIRST_INVOKED_MS = 1000.0, 1200.0
"""Bound on the prefill of the first prompt at a new place, while the user types or waits after asking by a key: the
window is shortened to fit, and the whole prompt is prefilled later, for a user who stays (`scheduling/prefetch`)."""
_LEAST_FIRST = 192  # the fewest tokens of a first prompt, however slow the machine is
_LEAST_TOKEN_MS = 1e-6  # lower bound on a prefill's time: a clock that stood still shows none
CHUNK_MS = 60.0  # bound on one stretch of a prefill, so that a newer request need not wait
MOST = 6.0
"""Bound on estimates, as a multiple of the measured cost. Slower work is late by one piece; an unbounded estimate
would find that nothing fits, and suppress every later answer."""
FORGET_MS = 5000.0  # older observations are ignored
SLICE_MS = 10.0  # of a search for code of other files, which the next piece of work may interrupt
_EFFICIENT = 2.5  # a stretch may take this many times the time of a single token, on slow machines too
_SEEN, _IN_A_ROW = 8, 3
_OVER = 1.5  # after a few pieces in a row, the next one rarely exceeds this multiple of the slowest of them
_ALONE = 2.0  # bound on the estimate after a single slow piece, as a multiple of the usual value
_BEGINNING_MS, _MOST_BEGINNING_MS = 3.0, 40.0
_UNKNOWN = StepCosts((1, 8, 64), (30.0, 40.0, 120.0), 1.0)
"""Costs of an unmeasured machine; measurements soon replace them."""
LINE_STEPS = 16  # steps without drafts that usually make a line
_LINE_PREFILL = 256  # new tokens of a prompt after a move within the same file
_MOST_INVOKED_MS = 60_000.0  # the user has given up after this time; longer than the settings allow
MOST_MS = 8500.0
"""Work after a request stops after this time, whatever the setting."""
PREPARING_MS = 14_000.0
"""The same where a prompt is prepared: a slow machine needs it to read the longest one."""
OWED_MS = 30_000.0
"""The same where nothing was shown at the place yet, and no other limit is set: the waiting client's text comes first,
and the time reserved for preparing after it."""
_CHARGED_MS = 1000.0  # a longer piece of work was interrupted; the budget is charged no more than this for it


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long a request may take from its arrival, and how much background work may follow it."""

    automatic_ms: float
    invoked_ms: float
    background_ms: float

    @classmethod
    def of(cls, policy: Policy, costs: StepCosts) -> "Budgets":
        """The budgets of `policy`; those that it leaves open follow from the time of a line, its prompt included.

        They lie between 200 ms, the pause between two keys of an ordinary typist, and 400 ms: a later answer comes
        after the next key, and is shown when it is made. A request by key gets at least five times as long, and enough
        for two lines on the slowest machine. `costs` must be believable (`costs.believable`).
        """
        line = LINE_STEPS * costs.step_ms(1) + _LINE_PREFILL * costs.prefill_ms
        automatic = min(max(200.0, line), 400.0)
        return cls(
            policy.automatic_ms or automatic,
            policy.invoked_ms or min(max(5 * automatic, 2 * line), _MOST_INVOKED_MS),
            policy.background_ms or min(10 * automatic, 4000.0),
        )

    def by_kind(self) -> dict[str, float]:
        """Name without its unit → milliseconds."""
        return {"automatic": self.automatic_ms, "invoked": self.invoked_ms, "background": self.background_ms}


def first_tokens(question: Question, latency: "LatencyEstimator") -> int | None:
    """How many tokens to prefill before the first text at a new place; None where the wait has no limit."""
    invoked = question.request.invoked
    if not math.isfinite(question.policy.invoked_ms if invoked else question.policy.automatic_ms):
        return None
    token_ms = max(latency.prefill_ms(_LINE_PREFILL) / _LINE_PREFILL, _LEAST_TOKEN_MS)
    return max(_LEAST_FIRST, int((FIRST_INVOKED_MS if invoked else FIRST_MS) / token_ms))


@dataclass(slots=True)
class BackgroundBudget:
    """The time left for background work after `question`, in milliseconds."""

    question: Question
    granted_ms: float
    left_ms: float
    owed_ms: float  # extra, if nothing was shown at the question's place
    kept_ms: float  # extra for preparing alone, since finishing a long text on a slow machine takes all the rest
    again_ms: float  # extra for a text by a prepared prompt, since prefilling that may take all the rest
    prepare: bool  # whether to prepare the document for the next question, when the user pauses

    @classmethod
    def of(cls, question: Question, budgets: Budgets) -> "BackgroundBudget":
        """The budget of a new question."""
        granted = min(budgets.background_ms, MOST_MS)
        limited = question.policy.background_ms > 0
        owed, kept = (0.0, 0.0) if limited else (max(OWED_MS - granted, 0.0), PREPARING_MS - granted)
        return cls(question, granted, granted, owed, kept, 0.0 if limited else granted, question.policy.ahead)

    def room_ms(self, *, owed: bool) -> float:
        """How much time finishing may take now, in milliseconds."""
        return self.left_ms + (self.owed_ms if owed else 0.0)

    def preparing_ms(self) -> float:
        """How much time preparing may take now, in milliseconds."""
        return max(self.left_ms, 0.0) + self.kept_ms if self.prepare else 0.0

    def charge(self, ms: float, *, preparing: bool = False) -> None:
        """Charge a piece of work."""
        ms = min(max(ms, 0.0), _CHARGED_MS)
        kept = min(ms, self.kept_ms) if preparing else 0.0
        self.kept_ms -= kept
        self.left_ms -= ms - kept

    def again(self) -> None:
        """Grant time for the text to be made again, by a prepared prompt."""
        self.owed_ms += min(self.left_ms, 0.0)
        self.left_ms, self.again_ms = max(self.left_ms, self.again_ms), 0.0

    def end(self) -> None:
        """Stop finishing."""
        self.left_ms = -self.owed_ms


class LatencyEstimator:
    """Estimates an upper bound on the time of steps and prefills, apart from rare exceptions.

    Implausible `costs` are replaced. `clock` gives the age of observations.
    """

    def __init__(self, costs: StepCosts, clock: Clock) -> None:
        self.costs = costs if believable(costs) else _UNKNOWN
        self._steps, self._prefills = _RecentHigh(1.0, MOST, clock), _RecentHigh(1.0, MOST, clock)
        self._beginnings_ms = _RecentHigh(_BEGINNING_MS, _MOST_BEGINNING_MS, clock)

    def step_ms(self, rows: int) -> float:
        """The time of a step of so many rows."""
        return self._steps.high() * self.costs.step_ms(rows)

    def prefill_ms(self, tokens: int) -> float:
        """The time of a stretch of so many prompt tokens."""
        return self._prefills.high() * self.costs.prompt_ms(tokens)

    def answer_ms(self) -> float:
        """The part of a budget that the answer itself needs."""
        return ANSWER_MS + self._beginnings_ms.high()

    def rows_within(self, ms: float, at_most: int) -> int:
        """The widest step that fits into `ms`; 0 if none does."""
        slower = self._steps.high()
        return _largest(at_most, lambda rows: slower * self.costs.step_ms(rows) <= ms)

    def chunk_ms(self) -> float:
        """How long a step may take, so that a newer request need not wait."""
        return max(CHUNK_MS, _EFFICIENT * self.step_ms(1))

    def stretch_within(self, ms: float, at_most: int) -> int:
        """The longest stretch of a prompt that fits into `ms`, in tokens; 0 if none does, at least 1 without limit."""
        slower = self._prefills.high()
        most_ms = min(ms, max(CHUNK_MS, _EFFICIENT * slower * self.costs.prompt_ms(1)))
        return _largest(at_most, lambda tokens: slower * self.costs.prompt_ms(tokens) <= most_ms)

    def stepped(self, rows: int, took_ms: float) -> None:
        """Learn the time of a step of so many rows."""
        self._steps.saw(took_ms / self.costs.step_ms(rows))

    def prefilled(self, tokens: int, took_ms: float) -> None:
        """Learn the time of a stretch of a prefill."""
        self._prefills.saw(took_ms / self.costs.prompt_ms(tokens))

    def answered(self, took_ms: float) -> None:
        """Learn how long it took to find a beginning worth showing."""
        self._beginnings_ms.saw(took_ms)


class _RecentHigh:
    """A value's recent observations, and a bound, at most `most`, that it rarely exceeds.

    `usual`: the value without recent observations. `clock` is in milliseconds.
    """

    def __init__(self, usual: float, most: float, clock: Clock) -> None:
        self._usual, self._most, self._clock = usual, most, clock
        self._seen: deque[tuple[float, float]] = deque(maxlen=_SEEN)

    def high(self) -> float:
        """The bound: all but the highest of the last few values stay below it."""
        now = self._clock()
        # The absolute distance: a clock that jumped back makes old observations no fresher.
        fresh = [value for when, value in self._seen if abs(now - when) < FORGET_MS]
        if not fresh:
            return self._usual
        high = min(fresh[0], _ALONE * self._usual) if len(fresh) == 1 else sorted(fresh)[-2]
        if len(fresh) >= _IN_A_ROW:
            high = min(high, _OVER * max(fresh[-_IN_A_ROW:]))
        return min(high, self._most)

    def saw(self, value: float) -> None:
        if value >= 0 and math.isfinite(value):
            self._seen.append((self._clock(), value))


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The result of work that was done in slices."""

    result: T


def slice_of(work: Pieces[T], clock: Clock) -> Done[T] | None:
    """Do some of the work, for about `SLICE_MS`; returns its result at its end, until then None."""
    started = clock()
    try:
        while True:
            next(work)
            if clock() - started >= SLICE_MS:
                return None
    except StopIteration as end:
        return Done(end.value)


def _largest(at_most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `at_most` that fits, if all up to some number fit; 0 for none."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
