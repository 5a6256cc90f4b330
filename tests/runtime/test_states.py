"""A drafter that reads hidden states: the engine keeps them before it is ready, not within the first answer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.static.build import build
from fastcoder_lsp.runtime import load
from fastcoder_lsp.runtime.parts import Model
from tests.completion.toys import Letters
from tests.draft import own_weights
from tests.engine.static_parts import MeanDevice, tiny_recipe


@pytest.mark.parametrize(("method", "kept"), [("medusa", (2,)), (None, ())])
def test_states_are_kept_for_the_drafter_before_anybody_asks(
    method: str | None, kept: tuple[int, ...], tmp_path: Path
) -> None:
    """And for none that reads no hidden states."""
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path / "model", kernels="torch", warm_up=False), device)
    model = Model(OneSlot(engine), cast("Any", Letters()), StepCosts((1, 8), (1.0, 2.0), 0.1))
    name = own_weights.write(tmp_path / "heads", method) if method else "none"
    record = cast("Any", SimpleNamespace(enter=lambda _: None))
    load._compile(model, name, record, lambda _share, _what: None, datastore=False)
    assert engine.static.kept_layers == kept
    given_back = device.given_back
    assert engine.keep_states(kept)
    assert device.given_back == given_back
