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

from fastcoder_lsp.completion.question import Clock, Policy, Question
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.runtime.costs import believable
from fastcoder_lsp.runtime.first_hour import FirstHour

ANSWER_MS = 12.0
"""Kept back of every budget, beside what it takes to find a beginning worth showing: for the way to the client."""
FIRST_MS, FIRST_INVOKED_MS = 1000.0, 1200.0
"""Reading the first prompt at a new place takes no longer, while the user types or waits after asking by a key: the
window is shorter where it would, and the whole prompt is read between keys."""
_LEAST_FIRST = 192
"""Tokens of a first prompt, however slow the machine is."""
_LEAST_TOKEN_MS = 1e-6
"""A clock that stood still shows prefills that take no time."""
CHUNK_MS = 60.0
"""One stretch of a prefill takes no longer, so that a newer request need not wait."""
MOST = 6.0
"""So many times what was measured is reckoned with at most: work that takes longer still is late by one piece of it,
while a belief that nothing fits any more would keep every later answer away."""
FORGET_MS = 5000.0
"""Older observations say nothing about the next piece of work."""
_EFFICIENT = 2.5
"""A stretch may take so many times what a single token takes, on slow machines too."""
_SEEN, _IN_A_ROW = 8, 3
_OVER = 1.5
"""After a few pieces in a row, the next one takes hardly longer than so many times the slowest of them."""
_ALONE = 2.0
"""Times the usual value: the most that a first slow piece is believed."""
_BEGINNING_MS, _MOST_BEGINNING_MS = 3.0, 40.0
_UNKNOWN = StepCosts((1, 8, 64), (30.0, 40.0, 120.0), 1.0)
"""Of a machine that nothing sensible is known about: what is measured soon takes its place."""
LINE_STEPS = 16
"""Steps without drafts that say a line, as a rule."""
_LINE_PREFILL = 256
"""Tokens of a prompt that are new after a change of place in the same file."""
_MOST_INVOKED_MS = 60_000.0
"""A person who asked by a key has left by then; more than the settings allow."""
MOST_MS = 8500.0
"""Of work after a request, whatever is allowed: ten seconds after it all is quiet…"""
PREPARING_MS = 14_000.0
"""Of work after a request where a prompt is prepared: what a slow machine needs to read the longest one."""
OWED_MS = 30_000.0
"""…unless nothing was shown at the place yet and nobody has set another limit: the text is made for whoever waits,
and what is kept for preparing comes after it."""
_CHARGED_MS = 1000.0
"""A piece of work that took longer was interrupted; it is not charged with what it did not use."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long a request may take from its arrival, and how much background work may follow it."""

    automatic_ms: float
    invoked_ms: float
    background_ms: float

    @classmethod
    def of(cls, policy: Policy, costs: StepCosts) -> "Budgets":
        """What `policy` says; what it leaves open is chosen by the time that a line takes, its prompt included.

        Between 200 ms, the pause between two keys of an ordinary typist, and 400 ms: after that a person has typed on,
        and gets the rest when it is made. Who asks by a key waits at least five times as long, and for two lines
        however slow the machine is. `costs` are believable (`costs.believable`).
        """
        line = LINE_STEPS * costs.step_ms(1) + _LINE_PREFILL * costs.prefill_ms
        automatic = min(max(200.0, line), 400.0)
        return cls(
            policy.automatic_ms or automatic,
            policy.invoked_ms or min(max(5 * automatic, 2 * line), _MOST_INVOKED_MS),
            policy.background_ms or min(10 * automatic, 4000.0),
        )

    def by_kind(self) -> dict[str, float]:
        """The name of each without its unit → milliseconds."""
        return {"automatic": self.automatic_ms, "invoked": self.invoked_ms, "background": self.background_ms}


def first_tokens(question: Question, latency: "LatencyEstimator") -> int | None:
    """How many tokens may be read before the first text at a new place; None where the wait has no limit."""
    invoked = question.request.invoked
    if not math.isfinite(question.policy.invoked_ms if invoked else question.policy.automatic_ms):
        return None
    token_ms = max(latency.prefill_ms(_LINE_PREFILL) / _LINE_PREFILL, _LEAST_TOKEN_MS)
    return max(_LEAST_FIRST, int((FIRST_INVOKED_MS if invoked else FIRST_MS) / token_ms))


@dataclass(slots=True)
class BackgroundBudget:
    """How much background work may follow `question`.

    Attributes:
        question: the one that all of it is for.
        granted_ms: so much at first.
        left_ms: so much of that is left.
        owed_ms: so much more where nothing was shown at the question's place.
        kept_ms: so much more for preparing alone: finishing a long text on a slow machine takes all the rest.
        again_ms: so much more for a text by a prompt that was prepared: reading that may take all the rest.
        prepare: whether the document is to be prepared for the next question, when the user pauses.
    """

    question: Question
    granted_ms: float
    left_ms: float
    owed_ms: float
    kept_ms: float
    again_ms: float
    prepare: bool

    @classmethod
    def of(cls, question: Question, budgets: Budgets) -> "BackgroundBudget":
        """The budget that a new question brings."""
        granted = min(budgets.background_ms, MOST_MS)
        limited = question.policy.background_ms > 0
        owed, kept = (0.0, 0.0) if limited else (max(OWED_MS - granted, 0.0), PREPARING_MS - granted)
        return cls(question, granted, granted, owed, kept, 0.0 if limited else granted, question.policy.ahead)

    def room_ms(self, *, owed: bool) -> float:
        """How much finishing may be done now, in milliseconds."""
        return self.left_ms + (self.owed_ms if owed else 0.0)

    def preparing_ms(self) -> float:
        """How much may be prepared now, in milliseconds."""
        return max(self.left_ms, 0.0) + self.kept_ms if self.prepare else 0.0

    def charge(self, ms: float, *, preparing: bool = False) -> None:
        """A piece of work took so long."""
        ms = min(max(ms, 0.0), _CHARGED_MS)
        kept = min(ms, self.kept_ms) if preparing else 0.0
        self.kept_ms -= kept
        self.left_ms -= ms - kept

    def again(self) -> None:
        """The text is made anew, by a prompt that was prepared."""
        self.owed_ms += min(self.left_ms, 0.0)
        self.left_ms, self.again_ms = max(self.left_ms, self.again_ms), 0.0

    def end(self) -> None:
        """Nothing more may be finished."""
        self.left_ms = -self.owed_ms


class LatencyEstimator:
    """Estimates what steps and prefills will take at most, apart from rare exceptions.

    Args:
        costs: as measured; not taken where they cannot be true.
        clock: tells how old an observation is.
        first_hour: told of each observation, too.
    """

    def __init__(self, costs: StepCosts, clock: Clock, first_hour: FirstHour | None = None) -> None:
        self._first_hour = first_hour
        self.costs = costs if believable(costs) else _UNKNOWN
        self._steps, self._prefills = _RecentHigh(1.0, MOST, clock), _RecentHigh(1.0, MOST, clock)
        self._beginnings_ms = _RecentHigh(_BEGINNING_MS, _MOST_BEGINNING_MS, clock)

    def step_ms(self, rows: int) -> float:
        """How long a step of so many rows takes."""
        return self._steps.high() * self.costs.step_ms(rows)

    def prefill_ms(self, tokens: int) -> float:
        """How long a stretch of so many prompt tokens takes."""
        return self._prefills.high() * self._plain_prefill_ms(tokens)

    def answer_ms(self) -> float:
        """The part of a budget that the answer itself needs."""
        return ANSWER_MS + self._beginnings_ms.high()

    def rows_within(self, ms: float, at_most: int) -> int:
        """The widest step that `ms` holds, 0 where it holds none."""
        slower = self._steps.high()
        return _largest(at_most, lambda rows: slower * self.costs.step_ms(rows) <= ms)

    def stretch_within(self, ms: float, at_most: int) -> int:
        """How many tokens of a prompt are to be computed in one stretch that `ms` holds, 0 where it holds none.

        One at least where `ms` is infinite.
        """
        slower = self._prefills.high()
        most_ms = min(ms, max(CHUNK_MS, _EFFICIENT * slower * self._plain_prefill_ms(1)))
        return _largest(at_most, lambda tokens: slower * self._plain_prefill_ms(tokens) <= most_ms)

    def stepped(self, rows: int, took_ms: float) -> None:
        """A step of so many rows took so long."""
        self._steps.saw(took_ms / self.costs.step_ms(rows))
        if self._first_hour is not None:
            self._first_hour.stepped(rows, took_ms)

    def prefilled(self, tokens: int, took_ms: float) -> None:
        """A stretch of a prefill took so long."""
        self._prefills.saw(took_ms / self._plain_prefill_ms(tokens))
        if self._first_hour is not None:
            self._first_hour.prefilled(tokens, took_ms)

    def answered(self, took_ms: float) -> None:
        """Learn how long it took to find a beginning worth showing."""
        self._beginnings_ms.saw(took_ms)

    def _plain_prefill_ms(self, tokens: int) -> float:
        """A pass reads all weights, and works on every token; a step of as many rows does more."""
        costs = self.costs
        return min(costs.step_ms(tokens), costs.step_ms(1) + tokens * costs.prefill_ms)


class _RecentHigh:
    """A value's recent observations, and a bound that it rarely exceeds.

    Args:
        usual: what it is where nothing was seen of late.
        most: what is reckoned with at most.
        clock: milliseconds.
    """

    def __init__(self, usual: float, most: float, clock: Clock) -> None:
        self._usual, self._most, self._clock = usual, most, clock
        self._seen: deque[tuple[float, float]] = deque(maxlen=_SEEN)

    def high(self) -> float:
        """The bound: all but the highest of the last few values stay below it."""
        now = self._clock()
        # By the distance either way: a clock that jumped back makes what was seen no fresher.
        fresh = [value for when, value in self._seen if abs(now - when) < FORGET_MS]
        if not fresh:
            return self._usual
        high = min(fresh[0], _ALONE * self._usual) if len(fresh) == 1 else sorted(fresh)[-2]
        if len(fresh) >= _IN_A_ROW:
            high = min(high, _OVER * max(fresh[-_IN_A_ROW:]))
        return min(high, self._most)

    def saw(self, value: float) -> None:
        """One more observation; what no clock can have measured is none."""
        if value >= 0 and math.isfinite(value):
            self._seen.append((self._clock(), value))


def _largest(at_most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `at_most` that fits, of numbers that fit up to some one; 0 for none."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
