"""Time as arithmetic: how long a request may take, and what of the model's work a stretch of time can hold.

Owns no clock: it is told how long things took. Milliseconds throughout.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fastcoder_lsp.completion.policy import Policy
from fastcoder_lsp.core import StepCosts

_LINE_STEPS = 16
"""Steps without drafts that say a line, as a rule."""
_LINE_PREFILL = 256
"""Tokens of a prompt that are new after a change of place in the same file."""
ANSWER_MS = 12.0
"""Kept back of every budget, beside what it takes to find a beginning worth showing: for the way to the client."""
CHUNK_MS = 60.0
"""One stretch of a prefill takes no longer, so that a newer request need not wait."""
_EFFICIENT = 2.5
"""A stretch may take so many times what a single token takes, on slow machines too."""
_LEARNING = 0.15
_WARY = 2.0
"""Mean deviations above the mean that are reckoned with."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a request may take from its arrival, and what is spent on a suggestion while nobody waits."""

    automatic_ms: float
    invoked_ms: float
    background_ms: float

    @classmethod
    def of(cls, policy: Policy, costs: StepCosts) -> "Budgets":
        """What `policy` says; what it leaves open is chosen by the time that a line takes, its prompt included.

        Between 200 ms, the pause between two keys of an ordinary typist, and 400 ms: after that a person has typed on,
        and gets the rest when it is made. Who asks by a key waits at least five times as long, and for two lines
        however slow the machine is.
        """
        line = _LINE_STEPS * costs.step_ms(1) + _LINE_PREFILL * costs.prefill_ms
        automatic = min(max(200.0, line), 400.0)
        return cls(
            policy.automatic_ms or automatic,
            policy.invoked_ms or max(5 * automatic, 2 * line),
            policy.background_ms or min(10 * automatic, 4000.0),
        )


class Pace:
    """What steps and prefills will take: the measured costs, times how much slower they were of late.

    On a busy machine, and with a long prompt in the cache, that is more than what was measured at the start.
    """

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs
        self._steps, self._prefills, self._beginnings_ms = _Expected(1.0), _Expected(1.0), _Expected(0.0)

    def step_ms(self, rows: int) -> float:
        """What a step of so many rows will take, hardly ever more."""
        return self._steps.wary() * self._costs.step_ms(rows)

    def prefill_ms(self, tokens: int) -> float:
        """What so many tokens of a prompt will take in one stretch, hardly ever more."""
        return self._prefills.wary() * self._plain_prefill_ms(tokens)

    def answer_ms(self) -> float:
        """What is to be kept back of a budget for the answer itself."""
        return ANSWER_MS + self._beginnings_ms.wary()

    def rows_within(self, ms: float, at_most: int) -> int:
        """The widest step that `ms` holds, 0 where it holds none."""
        return _largest(at_most, lambda rows: self.step_ms(rows) <= ms)

    def stretch_within(self, ms: float, at_most: int) -> int:
        """How many tokens of a prompt are to be computed in one stretch that `ms` holds, 0 where it holds none."""
        stretch = max(CHUNK_MS, _EFFICIENT * self.prefill_ms(1))
        return _largest(at_most, lambda tokens: self.prefill_ms(tokens) <= min(ms, stretch))

    def stepped(self, rows: int, took_ms: float) -> None:
        """A step of so many rows took so long."""
        self._steps.learn(took_ms / self._costs.step_ms(rows))

    def prefilled(self, tokens: int, took_ms: float) -> None:
        """A stretch of a prefill took so long."""
        self._prefills.learn(took_ms / self._plain_prefill_ms(tokens))

    def begun(self, took_ms: float) -> None:
        """To find a beginning worth showing took so long."""
        self._beginnings_ms.learn(took_ms)

    def _plain_prefill_ms(self, tokens: int) -> float:
        """A pass reads all weights, and works on every token; a step of as many rows does more."""
        costs = self._costs
        return min(costs.step_ms(tokens), costs.step_ms(1) + tokens * costs.prefill_ms)


class _Expected:
    """A value that comes again: its moving mean from `start` on, and the moving mean of the distance to it."""

    def __init__(self, start: float) -> None:
        self._mean, self._deviation = start, 0.0

    def wary(self) -> float:
        """What is exceeded only now and then."""
        return self._mean + _WARY * self._deviation

    def learn(self, value: float) -> None:
        """One more observation."""
        distance = value - self._mean
        self._mean += _LEARNING * distance
        self._deviation += _LEARNING * (abs(distance) - self._deviation)


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
