"""People who type at one model in reckoned time: they type what the history has, and time is the model's work."""

import pytest

from benchmarks.datasets.histories import RecordedEdit
from benchmarks.typist.hands import Subset
from benchmarks.typist.reckoned import MACHINES, Clock, ReckonedEngines, TypingEnvironment, TypingTotals, TypingWorkload
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import DraftTree, StepCosts
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.runtime.costs import believable
from fastcoder_lsp.runtime.parts import Model, Runtime
from tests.completion.toys import toy_model, toy_runtime
from tests.fake_engine import SayingEngine
from tests.host.test_local import SAYS, Encoding

COSTS = StepCosts((1, 2), (20.0, 30.0), 0.5)


@pytest.fixture
def room() -> TypingEnvironment:
    model = toy_model(SayingEngine(SAYS), Encoding())
    return TypingEnvironment(model, COSTS, Policy(), speed=3.0, seed=0)


def make(model: Model, seat: str, _clock: Clock) -> Runtime:
    return toy_runtime(model, front=seat)


def text(*runs: str) -> TypingWorkload:
    """A file that grows by runs of whole lines at its end."""
    steps, length = [], 0
    for run in runs:
        steps.append(RecordedEdit("a.py", length, 0, run, typed=True))
        length += len(run)
    return TypingWorkload(
        Subset(tuple(steps), frozenset(range(len(runs))), len(runs), length - len(runs)), {"a.py": ""}, make
    )


@pytest.mark.parametrize("costs", MACHINES.values())
def test_the_scheduler_believes_the_machines_that_are_reckoned_with(costs: StepCosts) -> None:
    """Else it plans by a machine that nothing is known about, while the clock goes by another."""
    assert believable(costs)


def test_what_is_suggested_and_true_is_not_typed(room: TypingEnvironment) -> None:
    """The first suggestion comes before the first key; the word behind it has to be typed."""
    [account], _ = room.type([text(f"{SAYS}\n", f"{SAYS} or two\n")])
    assert account.typed + account.saved == 2 * len(SAYS) + len(" or two")
    assert account.saved >= len(SAYS)
    assert account.accepted == account.saved / (account.typed + account.saved)
    assert account.shown <= account.asked


def test_each_types_their_own_and_nothing_else(room: TypingEnvironment) -> None:
    """Three people at one model with one cache: the same keys as alone, whatever the others do."""
    texts = [text(f"{SAYS}\n", f"{name} = 2\n", f"{SAYS}\n") for name in ("one", "two", "three")]
    together, _ = room.type(texts)
    for place, account in enumerate(together):
        assert account.typed + account.saved == texts[place].subset.keys
        assert account.saved > 0
        assert len(account.computed) <= texts[place].subset.keys


def test_work_takes_reckoned_time_and_prompts_are_counted_by_name() -> None:
    clock = Clock()
    engines = ReckonedEngines(OneSlot(SayingEngine(SAYS)), clock, COSTS)
    slot = engines.slot("a\nfile")
    assert slot is engines.slot("a\nfile")
    slot.prefill([5, 6, 1], lambda: False)
    assert clock.ms == 1.5
    slot.step(DraftTree((7, 8), (-1, 0), 1))
    assert clock.now() == 31.5
    assert engines.computed == {"a\nfile": 3}


def test_nobody_accepts_nothing() -> None:
    assert TypingTotals().accepted == 0.0
