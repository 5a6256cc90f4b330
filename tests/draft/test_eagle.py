"""EAGLE's reading of a text: a stretch a step, and then what it drafts is what one that read it at once drafts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.core import NORMED, DraftContext
from fastcoder_lsp.draft import eagle
from fastcoder_lsp.draft.base import Floats, Linear, exact
from fastcoder_lsp.draft.eagle import EagleLayer
from fastcoder_lsp.draft.registry import make
from tests.draft import own_weights
from tests.engine import tiny_models


def test_a_long_text_is_read_in_stretches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is read nothing is drafted, and no step reads more; a text that is gone on with is not read again."""
    name = own_weights.write(tmp_path / "layer", "eagle")
    engine = tiny_models.load(tiny_models.make_model(tmp_path / "model", "qwen2"), tmp_path / "cache", "cpu-int8")
    at_once, drafter = make(name), make(name)
    text = [(7 * place) % 200 + 1 for place in range(60)]
    engine.keep_states(drafter.traits.layers)
    engine.prefill(text[:-1], lambda: False)
    context = DraftContext(text, 3, "d", (), len(text) - 1, engine)
    whole = at_once.propose(context, 9)
    assert whole.tokens
    monkeypatch.setattr(eagle, "STRETCH", 20)
    assert [len(drafter.propose(context, 9).tokens) for _ in range(2)] == [0, 0]
    assert drafter.propose(context, 9).tokens == whole.tokens
    longer = [*text, 9, 8]
    engine.prefill(longer[:-1], lambda: False)
    context = DraftContext(longer, 3, "d", (), len(longer) - 1, engine)
    assert drafter.propose(context, 9).tokens == at_once.propose(context, 9).tokens
    engine.close()


@pytest.mark.parametrize("scaled", [False, True], ids=["raw", "scaled"])
def test_features_that_are_not_scaled_are_not_rounded(scaled: bool) -> None:
    """Of a published EAGLE layer: a few numbers are far larger than the others, which would be lost."""
    record, tensors = own_weights.eagle()
    record = replace(record, layers=(NORMED,), numbers={**record.numbers, "version": 1})
    width = record.width
    tensors = {name: value for name, value in tensors.items() if not name.startswith("norm_") or name == "norm_post"}
    tensors |= {name: tensors[name][:, :width] for name in "qkv"} | {"fc": tensors["fc"][:, : 2 * width]}
    if scaled:
        tensors["feature_scale"] = np.ones(width, np.float32)
    rounded: list[tuple[int, ...]] = []

    def rounding(weight_NK: Floats) -> Linear:
        rounded.append(weight_NK.shape)
        return exact(weight_NK)

    EagleLayer(record, tensors, rounding)
    assert rounded.count((width, width)) == (4 if scaled else 3)  # queries, `o`, the token's half of fc, and its other
