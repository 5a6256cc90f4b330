"""Several names for one KV cache: whoever prefills has it, and whoever lost it is told so."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from fastcoder_lsp import core
from fastcoder_lsp.core import CacheLost, DraftTree, Engine
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SlotEngines
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.fake_engine import FakeEngine, never

LEFT, RIGHT = [1, 2, 3, 4], [1, 2, 0]


def said(engine: Engine, prompt: list[int]) -> tuple[int, ...]:
    engine.prefill(prompt[:-1], never)
    return engine.step(DraftTree.chain(prompt[-1:])).emitted


def test_each_name_says_what_an_engine_alone_says() -> None:
    engines = OneSlot(FakeEngine())
    left, right = engines.slot("left"), engines.slot("right")
    for _ in range(3):
        assert said(left, LEFT) == said(FakeEngine(), LEFT)
        assert said(right, RIGHT) == said(FakeEngine(), RIGHT)
    assert engines.slot("left") is left


def test_what_two_names_share_is_not_computed_again() -> None:
    engines = OneSlot(FakeEngine())
    engines.slot("left").prefill(LEFT, never)
    done = engines.slot("right").prefill(RIGHT, never)
    assert (done.reused, done.computed) == (2, 1)


def test_who_lost_the_cache_is_told() -> None:
    engines = OneSlot(FakeEngine())
    left, right = engines.slot("left"), engines.slot("right")
    left.prefill(LEFT, never)
    right.prefill(RIGHT, never)
    assert left.cached() == ()
    with pytest.raises(CacheLost):
        left.step(DraftTree.chain([1]))
    assert right.cached() == tuple(RIGHT)


def test_names_come_and_go() -> None:
    engines = OneSlot(FakeEngine())
    left = engines.slot("left")
    left.prefill(LEFT, never)
    engines.rename("left", "other")
    assert engines.slot("other") is left
    assert left.cached() == tuple(LEFT)
    engines.forget("other")
    assert left.cached() == ()
    assert engines.slot("other") is not left


def test_nothing_is_prepared_beside_one_cache() -> None:
    """It would take the cache from who uses it."""
    engines = OneSlot(FakeEngine())
    left = engines.slot("left")
    left.prefill(LEFT, never)
    assert engines.beside("left") is None
    engines.exchange("left")
    assert engines.slot("left") is left
    assert left.cached() == tuple(LEFT)


def test_closing_closes_the_engine() -> None:
    engine = FakeEngine()
    engines = OneSlot(engine)
    engines.slot("left").close()
    assert not engine.closed
    engines.close()
    assert engine.closed


class Preparing(FakeEngine, core.Preparing):
    """An engine with two pieces of work that can wait."""

    left = 2

    def prepare(self) -> bool:
        self.left -= 1
        return self.left >= 0


def test_work_that_can_wait_is_done_when_nobody_asks() -> None:
    assert not OneSlot(FakeEngine()).prepare()
    nothing: Any = SimpleNamespace()
    model = Model(OneSlot(Preparing()), nothing, nothing)
    scheduler = Scheduler[Model](lambda _progress: model)
    assert scheduler.turn() == math.inf
    scheduler._model.loaded = model, nothing
    assert [scheduler.turn() for _ in range(3)] == [0.0, 0.0, math.inf]


def test_a_pool_of_slots_has_nothing_to_prepare() -> None:
    """It would be asked when a model is loaded."""
    assert not issubclass(SlotEngines, core.Preparing)
    assert issubclass(OneSlot, core.Preparing)
