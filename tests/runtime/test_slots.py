"""A front's KV caches, and hidden states that are kept before it is ready."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastcoder_lsp.core import DraftContext, DraftTree, StepCosts, Verified
from fastcoder_lsp.documents import MAX_CLOSED, Slots
from fastcoder_lsp.draft.suffix import SuffixDrafter
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.runtime import load
from fastcoder_lsp.runtime.parts import Model
from fastcoder_lsp.torch_engines.graphs.build import build
from tests.completion.simulated import Clock
from tests.completion.toys import QUICK, Letters, toy_runtime
from tests.papers import own_weights
from tests.scheduling.shared import Caches
from tests.torch_engines.graph_parts import MeanDevice, tiny_recipe


def caches() -> Caches:
    return Caches(Clock(), lambda _: "", 100)


def test_two_fronts_have_a_document_of_one_name_each_for_itself() -> None:
    engines = caches()
    one, two = Slots(engines, "one"), Slots(engines, "two")
    assert one.of("a.py") is one.of("a.py")
    assert one.of("a.py") is not two.of("a.py")
    one.close()
    assert len(engines.engines) == 1
    assert two.of("a.py") in engines.engines.values()


def test_a_closed_documents_cache_serves_when_it_opens_again() -> None:
    engines = caches()
    slots = Slots(engines)
    kept_open = slots.of("open.py")
    first, second = slots.of("0.py"), slots.of("1.py")
    slots.forget("0.py")
    slots.forget("1.py")
    assert slots.of("0.py") is first
    for number in range(2, MAX_CLOSED + 2):
        slots.of(f"{number}.py")
        slots.forget(f"{number}.py")
    assert second not in engines.engines.values()
    assert {slots.of("0.py"), slots.of("open.py")} == {first, kept_open}
    assert len(engines.engines) == MAX_CLOSED + 2
    assert slots.forget("never opened.py") == ("never opened.py",)
    assert slots.forget("open.py") == ("2.py",), "its prompt goes with it"
    slots.close()
    assert not engines.engines


def test_what_a_document_taught_the_drafter_stays_as_long_as_its_cache() -> None:
    drafter = SuffixDrafter()
    runtime = toy_runtime(Model(caches(), Letters(), QUICK), drafter=drafter)

    def drafted(uri: str) -> bool:
        drafter.begin(DraftContext([7, 1], 2, uri))
        return bool(drafter.propose(DraftContext([7, 1], 2, uri), 4).tokens)

    runtime.engine_for("a.py")
    drafter.begin(DraftContext([7], 1, "a.py"))
    drafter.observe(DraftTree.chain([7]), Verified((), (1, 2, 3)))
    assert drafted("a.py")
    for number in range(MAX_CLOSED):
        runtime.forget(f"{number}.py" if number else "a.py")
        assert drafted("a.py")
        runtime.engine_for(f"{number + 1}.py")
    runtime.forget(f"{MAX_CLOSED}.py")
    assert not drafted("a.py")


def test_a_renamed_document_takes_its_cache_along() -> None:
    engines = caches()
    slots = Slots(engines)
    first = slots.of("a.py")
    slots.of("b.py")
    slots.forget("b.py")
    slots.rename("a.py", "b.py")
    for number in range(MAX_CLOSED + 1):
        slots.of(f"{number}.py")
        slots.forget(f"{number}.py")
    assert slots.of("b.py") is first
    slots.forget("b.py")
    slots.rename("b.py", "c.py")
    slots.rename("never.py", "c.py")
    slots.rename("c.py", "c.py")
    assert slots.of("c.py") is first
    slots.close()
    assert not engines.engines


@pytest.mark.parametrize(("method", "kept"), [("medusa", (2,)), (None, ())])
def test_states_are_kept_for_the_drafter_before_a_request(
    method: str | None, kept: tuple[int, ...], tmp_path: Path
) -> None:
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path / "model", warm_up=False), device)
    model = Model(OneSlot(engine), cast("Any", Letters()), StepCosts((1, 8), (1.0, 2.0), 0.1))
    name = own_weights.write(tmp_path / "heads", method) if method else "none"
    record = cast("Any", SimpleNamespace(enter=lambda _: None))
    load._compile(model, name, record, lambda _share, _what: None, datastore=False)
    assert engine.static.kept_layers == kept
    given_back = device.given_back
    assert engine.keep_states(kept)
    assert device.given_back == given_back
