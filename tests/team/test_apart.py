"""A tenant's KV caches begin with no other tenant's text, in engines of both kinds; its own are shared as ever."""

from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.core import DraftTree, Engines
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import several
from fastcoder_lsp.team.host import apart
from tests.engine.tiny_models import VOCABULARY, load, make_model
from tests.runtime.test_smaller_models import models, write_tokenizer

TEXT = [int(token) for token in np.random.default_rng(3).integers(1, VOCABULARY, 120)]


def never() -> bool:
    return False


@pytest.fixture(params=["several", "one"])
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Engines:
    """The model's, with several caches or with one that goes round."""
    engine = load(make_model(tmp_path / "model", "qwen2"), tmp_path, "cpu-fp32")
    return several(engine, 1000) if request.param == "several" else OneSlot(engine)


def test_another_tenants_text_is_computed_anew(engines: Engines) -> None:
    """Though it is the same, token by token; without `apart` it would be found."""
    assert engines.slot("ada\0front-1\na.py").prefill(TEXT, never).computed == len(TEXT)
    assert engines.slot("eve\0front-2\na.py").prefill(TEXT, never).reused > 100
    kept_apart = apart(engines)
    kept_apart.slot("ada\0front-3\na.py").prefill(TEXT, never)
    alone = kept_apart.slot("eve\0front-4\na.py").prefill(TEXT, never)
    assert (alone.reused, alone.computed) == (0, len(TEXT))
    kept_apart.close()


def test_a_tenants_own_text_is_found(engines: Engines) -> None:
    """In another of its documents; and it says what it says alone."""
    kept_apart = apart(engines)
    first, second = kept_apart.slot("ada\0front-1\na.py"), kept_apart.slot("ada\0front-3\nb.py")
    first.prefill(TEXT, never)
    said = first.step(DraftTree((7,), (-1,))).emitted
    assert second.prefill(TEXT, never).reused >= len(TEXT) - 1
    assert second.step(DraftTree((7,), (-1,))).emitted == said
    other = kept_apart.slot("eve\0front-2\na.py")
    other.prefill(TEXT, never)
    assert other.step(DraftTree((7,), (-1,))).emitted == said
    kept_apart.close()


@pytest.mark.parametrize("loaded", [False, True])
def test_models_that_draft_are_apart_too(loaded: bool, tmp_path: Path) -> None:
    """Whether they are loaded by then or not; by themselves they know what two texts begin with."""
    place = make_model(tmp_path / "model", "qwen2")
    write_tokenizer(place, "abcdefgh")
    smaller = models(place, tmp_path, place)

    def reused(front: str) -> int:
        return smaller.of(front)[0].of("a.py").prefill(TEXT, never).reused

    if loaded:
        reused("ada\0front-1")
        assert reused("eve\0front-2") > 100
    smaller.keep_apart(apart)
    assert reused("ada\0front-3") == 0
    assert reused("ada\0front-4") > 100
    assert reused("eve\0front-5") == 0
    smaller.close()
