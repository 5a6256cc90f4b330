"""`bench typing`: a person who types at a model in simulated time."""

import pytest

from benchmarks.datasets.histories import RecordedEdit
from benchmarks.typing import type_part
from benchmarks.typist import Subset
from benchmarks.typist.reckoned import Clock, DiskContext, TypingEnvironment, TypingWorkload
from fastcoder_lsp.completion.question import Policy
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.prompt import Context
from fastcoder_lsp.runtime.parts import Model, Runtime
from tests.completion.toys import Encoding, toy_model, toy_runtime
from tests.fake_engine import SayingEngine
from tests.host.test_local import SAYS


def test_the_same_keys_are_typed_whatever_is_found() -> None:
    model = toy_model(SayingEngine(SAYS), Encoding())
    given: list[Context] = []

    def make(model: Model, context: Context) -> Runtime:
        given.append(context)
        return toy_runtime(model)

    files = {"a.py": ""}
    step = RecordedEdit("a.py", 0, 0, f"{SAYS}\n", typed=True)
    part = Subset((step,), frozenset({0}), 1, len(SAYS))
    room = TypingEnvironment(model, StepCosts((1, 2), (20.0, 30.0), 0.5), Policy(), speed=3.0, seed=0)
    told: list[int] = []
    first, second = (type_part(room, part, files, make, told.append) for _ in range(2))
    assert told[: len(told) // 2] == sorted(told[: len(told) // 2])
    assert told[-1] == len(SAYS)
    assert first == second
    assert files == {"a.py": ""}
    assert (first.keys, first.saved > 0) == (len(SAYS), True)
    assert first.shown <= first.asked
    assert first.emitted >= first.steps > 0
    assert len(first.waits_ms) == first.shown
    assert min(first.waits_ms, default=0.0) >= 0
    assert all(isinstance(context, DiskContext) for context in given)


COSTS = StepCosts((1, 2), (20.0, 30.0), 0.5)


@pytest.fixture
def room() -> TypingEnvironment:
    model = toy_model(SayingEngine(SAYS), Encoding())
    return TypingEnvironment(model, COSTS, Policy(), speed=3.0, seed=0)


def make(model: Model, _clock: Clock) -> Runtime:
    return toy_runtime(model)


def text(*runs: str) -> TypingWorkload:
    """A file that grows by runs of whole lines at its end."""
    steps, length = [], 0
    for run in runs:
        steps.append(RecordedEdit("a.py", length, 0, run, typed=True))
        length += len(run)
    return TypingWorkload(
        Subset(tuple(steps), frozenset(range(len(runs))), len(runs), length - len(runs)), {"a.py": ""}, make
    )


def test_what_is_suggested_and_true_is_not_typed(room: TypingEnvironment) -> None:
    account, _ = room.type(text(f"{SAYS}\n", f"{SAYS} or two\n"))
    assert account.typed + account.saved == 2 * len(SAYS) + len(" or two")
    assert account.saved >= len(SAYS)
    assert account.shown <= account.asked
