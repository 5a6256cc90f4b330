"""Reckoned time: an engine whose work moves a clock by what it takes on an idle machine, whatever it takes here.

Owns the clock and the counts of prompt tokens by who asked. What the engine says is its own.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import (
    GREEDY,
    DraftTree,
    Engine,
    EngineInfo,
    Engines,
    Prefilled,
    Sampler,
    ShouldStop,
    StepCosts,
    Tokens,
    Verified,
)

AMX = StepCosts((1, 2, 4, 8, 16, 32, 64), (22.4, 23.1, 24.1, 26.0, 30.2, 44.6, 67.4), 289 / 512)
VNNI = StepCosts((1, 2, 4, 8, 16, 32, 64), (22.1, 22.1, 24.7, 30.2, 41.4, 62.2, 105.4), 506 / 512)
"""Of the default model on two cores: docs/benchmarks.md, *What a step costs*; one row takes no more than two, as
`runtime.costs.smoothed` has it: `Pace` reckons with nothing that it cannot believe."""


class Clock:
    """Milliseconds that have passed."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now(self) -> float:
        """The time."""
        return self.ms


class ReckonedEngines:
    """A model's engines, whose work takes reckoned time (`core.Engines`).

    Attributes:
        computed: prompt tokens by the slot's name.
        steps, emitted: forward passes after the prompts, and the tokens that came of them.

    Args:
        engines: do the work.
        clock: moved by it.
        costs: what it takes.
    """

    def __init__(self, engines: Engines, clock: Clock, costs: StepCosts) -> None:
        self._engines, self.clock, self.costs = engines, clock, costs
        self.computed: Counter[str] = Counter()
        self.steps = self.emitted = 0
        self._slots: dict[tuple[str, bool], _Reckoned] = {}

    @property
    def info(self) -> EngineInfo:
        """See `Engines`."""
        return self._engines.info

    def slot(self, name: str) -> Engine:
        """See `Engines`."""
        return self._slots.setdefault((name, False), _Reckoned(self._engines.slot(name), name, self))

    def beside(self, name: str) -> Engine | None:
        """See `Engines`."""
        engine = self._engines.beside(name)
        return None if engine is None else self._slots.setdefault((name, True), _Reckoned(engine, name, self))

    def exchange(self, name: str) -> None:
        """See `Engines`."""
        self._drop(name)
        self._engines.exchange(name)

    def swap(self, name: str) -> None:
        """See `Engines`."""
        self._drop(name)
        self._engines.swap(name)

    def forget(self, name: str) -> None:
        """See `Engines`."""
        self._drop(name)
        self._engines.forget(name)

    def rename(self, old: str, new: str) -> None:
        """See `Engines`."""
        self._drop(old)
        self._drop(new)
        self._engines.rename(old, new)

    def close(self) -> None:
        """The model is used on by others."""

    def _drop(self, name: str) -> None:
        for beside in (False, True):
            self._slots.pop((name, beside), None)


class _Reckoned:
    """One slot (`core.Engine`)."""

    def __init__(self, engine: Engine, name: str, of: ReckonedEngines) -> None:
        self._engine, self._name, self._of = engine, name, of

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        done = self._engine.prefill(tokens, should_stop)
        self._of.clock.ms += done.computed * self._of.costs.prefill_ms
        self._of.computed[self._name] += done.computed
        return done

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        verified = self._engine.step(tree, sampler, allowed, top_k)
        self._of.clock.ms += self._of.costs.step_ms(len(tree))
        self._of.steps += 1
        self._of.emitted += len(verified.emitted)
        return verified

    def cached(self) -> tuple[int, ...]:
        return self._engine.cached()

    def close(self) -> None:
        self._engine.close()
