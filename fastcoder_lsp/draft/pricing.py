"""The price of asking a drafter that runs a model: forecast before the first draft, measured after.

Such a drafter pays if its tokens would otherwise take longer than the draft. One that does not pay is tried again when
a trial is a small part of the time since the last one. Draft and step are timed in the same steps, so a busy machine
raises both prices alike.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastcoder_lsp.core import StepCosts

BELIEVED = 2.0  # assumed tokens a step of a drafter without a record, drafting alone
MOST = 8.0  # bound on the tokens a step that a record promises
TYPICAL = 512  # tokens of a text over which a draft is timed, if the drafter reads that many
TIMES = 4
"""Drafts that are timed in a forecast and in a trial; the least time is the price, since other load only adds time."""
OWN_TIME = time.perf_counter if os.name == "nt" else time.thread_time
"""The calling thread's own CPU time, which a busy machine does not change; Windows counts it in steps of 16 ms."""
BESIDE = 0.35
"""The part of a drafter's accepted tokens that no other source of `auto` proposes: EAGLE's layer for the 0.5B model had
0.94 accepted in a step in which it drafted, and brought 0.33."""
STEP_TOKENS = 2.0  # assumed tokens in a step of `auto` before the first one
STRENGTH = 6.0  # initial weight of this prior, in tries
KEPT = 0.98  # the factor by which counts and the prior decay at each try
PATIENCE = 64  # empty drafts in a row that count as reading a text; further ones count as drafts
NEWEST = 0.1  # the weight of the newest time in each mean
TRIALS = 0.004  # the share of all steps' time that trials may take


@dataclass(frozen=True, slots=True)
class Forecast:
    """Milliseconds of one draft, and tokens accepted of it in a step where no other source drafts."""

    ms: float
    tokens: float = BELIEVED


def timed(draft: Callable[[], object], figures: Mapping[str, float], clock: Callable[[], float] = OWN_TIME) -> Forecast:
    """The forecast of a drafter: the least time of several runs of `draft`, and the yield in its record's figures."""
    least = float("inf")
    draft()  # compiling is no part of the price
    for _ in range(TIMES):
        before = clock()
        draft()
        least = min(least, (clock() - before) * 1e3)
    alone = figures.get("tokens_a_pass")
    return Forecast(max(least, 0.0), BELIEVED if alone is None else min(max(alone - 1.0, 0.0), MOST))


class Price:
    """Cost and yield of asking one drafter, from its forecast, its drafts and the steps between them.

    `costs` of the engine's steps; None if unmeasured. `priced=False` asks in every step, as if asking cost nothing.
    """

    def __init__(self, costs: StepCosts | None, *, priced: bool) -> None:
        self._costs, self._priced = costs, priced
        self._forecast: Forecast | None = None
        self._believed, self._strength = BELIEVED, STRENGTH
        """The prior for the tokens that asking brings, and its weight in tries."""
        self._tries = self._brought = 0.0
        self._empty = 0  # empty drafts in a row
        self.failed = False
        self._step_ms = 0.0
        """Recent time of a step, as measured…"""
        self._known_ms = 0.0 if costs is None else costs.step_ms(1)
        """…and by the engine's costs. A forecast is compared with the latter: load makes measured steps slower."""
        self._step_tokens = 1.0 if costs is None else STEP_TOKENS
        self._asking_ms: deque[float] = deque(maxlen=TIMES)
        self._reading_ms = 0.0  # mean time of reading the text, for each draft made of it
        self._unpaid_ms = 0.0  # time of reading since the last draft
        self._text_ms = 0.0  # time of the last long reading
        self.trial = 0  # drafts that the running trial still has to make
        self._idle_ms = 0.0  # time of the steps since it was last asked

    def expect(self, forecast: Forecast | None) -> None:
        """Start from a forecast."""
        self._forecast = forecast
        if forecast is not None:
            self._believed = BESIDE * forecast.tokens

    def pays(self) -> bool:
        """Whether asking is worth its time, as far as is known; True while nothing is known."""
        if self.failed or not self._priced:
            return not self.failed
        if self._measured:
            price, step_ms = self._price_ms(), self._step_ms
        elif self._forecast is not None and self._known_ms:
            price, step_ms = self._forecast.ms, self._known_ms
        else:
            return True
        return self._brings() * step_ms / self._step_tokens >= price

    def due(self) -> bool:
        """Whether a trial is a small part of the time since it was last asked."""
        return not self.failed and TRIALS * self._idle_ms >= TIMES * self._price_ms() + self._text_ms

    def begin_trial(self) -> None:
        """Ask for the next drafts at any cost; older counts weigh no more than a forecast."""
        self.trial = TIMES
        self._believed = self._brings()
        self._strength, self._tries, self._brought = STRENGTH, 0.0, 0.0

    def fail(self) -> None:
        """Never ask again."""
        self.failed, self.trial = True, 0

    def asking(self) -> None:
        """Restart the time since it was last asked."""
        self._idle_ms = 0.0

    def drafted(self, ms: float, *, empty: bool) -> bool:
        """Count one asking that took `ms`; returns False while the drafter is only reading the text."""
        self._empty = self._empty + 1 if empty else 0
        if 0 < self._empty <= PATIENCE:
            self._unpaid_ms += ms
            return False
        self._asking_ms.append(ms)
        least = min(self._asking_ms)
        reading = self._unpaid_ms + ms - least
        self._reading_ms = KEPT * self._reading_ms + (1 - KEPT) * reading
        self._text_ms = reading if reading > least else self._text_ms
        self._unpaid_ms = 0.0
        return True

    def stepped(self, ms: float, *, rows: int, emitted: int, brought: int, asked: bool) -> None:
        """Count a step that took `ms` and gave `emitted` tokens, `brought` of them from this drafter alone."""
        self._step_ms = _mean(self._step_ms, ms)
        self._known_ms = _mean(self._known_ms, ms if self._costs is None else self._costs.step_ms(rows))
        self._idle_ms += ms
        self._step_tokens = _mean(self._step_tokens, max(emitted - brought, 1))
        if asked:
            self._strength *= KEPT
            self._tries = KEPT * self._tries + 1
            self._brought = KEPT * self._brought + brought
            self.trial = max(self.trial - 1, 0)

    def _brings(self) -> float:
        return (self._believed * self._strength + self._brought) / (self._strength + self._tries)

    @property
    def _measured(self) -> bool:
        return len(self._asking_ms) == TIMES

    def _price_ms(self) -> float:
        """Time of a draft, as measured, else as forecast."""
        if self._measured or self._forecast is None:
            return min(self._asking_ms, default=0.0) + self._reading_ms
        return self._forecast.ms


def _mean(mean: float, newest: float) -> float:
    return newest if mean == 0.0 else mean + NEWEST * (newest - mean)
