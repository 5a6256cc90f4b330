"""Several names for one KV cache: whoever prefills has it, and whoever lost it is told so."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp import core
from fastcoder_lsp.core import CacheLost, DraftTree
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SlotEngines
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.scheduling.scheduler import Scheduler
from tests.fake_engine import FakeEngine, never

PROMPTS = ([1, 2, 3, 4], [1, 2, 0])
STEPS = st.lists(st.tuples(st.sampled_from("pssrfbe"), st.sampled_from("ab"), st.sampled_from(PROMPTS)), max_size=20)


@given(STEPS)
def test_the_last_prefilled_name_says_what_an_engine_alone_says(steps: list[tuple[str, str, list[int]]]) -> None:
    """Others have lost the cache, but for the beginning that theirs has in common. A name keeps its slot."""
    engines, alone, owner = OneSlot(FakeEngine()), FakeEngine(), ""
    for what, name, prompt in steps:
        slot, other = engines.slot(name), "b" if name == "a" else "a"
        if what == "p":
            assert slot.prefill(prompt, never) == alone.prefill(prompt, never)
            owner = name
        elif what == "s" and owner == name:
            assert slot.step(DraftTree.chain([3])) == alone.step(DraftTree.chain([3]))
        elif what == "s":
            with pytest.raises(CacheLost):
                slot.step(DraftTree.chain([3]))
        elif what == "r":
            replaced = engines.slot(other)
            engines.rename(name, other)
            assert engines.slot(other) is slot
            assert replaced.cached() == ()
            owner = other if owner == name else ""
        elif what == "f":
            engines.forget(name)
            assert engines.slot(name) is not slot
            assert slot.cached() == ()
            owner = "" if owner == name else owner
        elif what == "b":
            assert engines.second_cache(name) is None, "it would take the cache from who uses it"
        else:
            engines.exchange(name)
        for each in "ab":
            assert engines.slot(each).cached() == (alone.cached() if each == owner else ())


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


def test_work_that_can_wait_is_done_when_idle() -> None:
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
