"""Hidden states of what is cached: the model's own, whatever became of the cache, and none until somebody asks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import NORMED, CacheLost, DraftTree, KeepingEngine
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SharingBackend, SlotEngines
from fastcoder_lsp.engine.states import KeepingBackend
from fastcoder_lsp.engine.tree_engine import TreeEngine
from tests.engine.tiny_models import VOCABULARY, load, make_model, transformers_model
from tests.fake_engine import never

TEXT = [int(token) for token in np.random.default_rng(5).integers(0, VOCABULARY, 90)]
LAYERS = (1, 2, NORMED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers."""
    return make_model(tmp_path_factory.mktemp("model"), "qwen2")


@pytest.fixture(params=["cpu-int8", "cpu-int4", "cpu-fp32", "cpu-graphs"])
def engine(request: pytest.FixtureRequest, folder: Path, weights_cache: Path) -> Iterator[TreeEngine]:
    """An engine that keeps nothing yet."""
    made = load(folder, weights_cache, request.param)
    yield made
    made.close()


def fresh(engine: TreeEngine, tokens: list[int]) -> np.ndarray:
    """The states of a text that is prefilled whole."""
    engine.prefill([], never)
    engine.prefill(tokens, never)
    return engine.states(LAYERS, 0, len(tokens))


def test_states_are_the_models_own(engine: TreeEngine, folder: Path) -> None:
    """Behind each layer, and behind the last norm: those of transformers, as exactly as the engine computes."""
    assert engine.keep_states(LAYERS)
    found = fresh(engine, TEXT)
    with torch.no_grad():
        said = transformers_model(folder).model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    allowed = {"cpu-fp32": 1e-4, "cpu-graphs": 1e-4, "cpu-int8": 0.05, "cpu-int4": 0.5}[engine.info.name]
    for place, layer in ((0, 1), (2, 2)):
        right = said[layer][0].numpy()
        assert np.abs(found[:, place] - right).mean() <= allowed * np.abs(right).mean()
    # transformers gives the last state behind the norm alone: the one before is what it was made of
    raw = found[:, 1]
    normed = raw / np.sqrt(np.square(raw).mean(1, keepdims=True) + 1e-6)
    assert np.allclose(normed, found[:, 2], atol=1e-3)
    embedded = engine.embed(TEXT[:5])
    assert np.allclose(embedded, said[0][0, :5].numpy(), atol=2e-3)


def test_states_go_where_their_tokens_go(engine: TreeEngine) -> None:
    """An accepted path, a shortened text and a beginning that another slot computed: bits of a whole prefill."""
    engine.keep_states((1, 2))
    engine.prefill(TEXT, never)
    tree = DraftTree.chain((TEXT[0],))
    said = engine.step(tree).emitted[0]
    engine.prefill(TEXT, never)
    tokens, parents = (TEXT[0], (said + 1) % VOCABULARY, said, 7), (-1, 0, 0, 2)
    verified = engine.step(DraftTree(tokens, parents, 1, ("",) * 4, (0,) * 4))
    assert 2 in verified.path
    text = list(engine.cached())
    found = engine.states(LAYERS, 0, len(text))
    right = fresh(engine, text)
    exact = engine.info.name not in ("cpu-fp32", "cpu-graphs")
    assert np.array_equal(found, right) if exact else np.allclose(found, right, atol=1e-4)
    engine.prefill(text[:40], never)
    engine.prefill([*text[:40], 3, 5, *text[40:]], never)
    again = engine.states(LAYERS, 0, 42 + len(text) - 40)
    changed = fresh(engine, [*text[:40], 3, 5, *text[40:]])
    assert np.array_equal(again, changed) if exact else np.allclose(again, changed, atol=1e-4)


def test_slots_share_them(engine: TreeEngine) -> None:
    """What one slot copies from another comes with its states; a slot that must keep more than before begins anew."""
    if not isinstance(engine.backend, SharingBackend):
        assert engine.info.name == "cpu-graphs"  # has one cache: see below
        return
    pool = SlotEngines(engine.backend, engine.info, 10**9)
    first, second = pool.slot("a"), pool.slot("b")
    first.prefill(TEXT, never)
    assert first.keep_states((1,))
    assert first.cached() == ()
    with pytest.raises(CacheLost):
        first.states((1,), 0, 1)
    first.prefill(TEXT, never)
    before = first.bytes_held()
    second.prefill([*TEXT[:70], 9], never)
    assert np.array_equal(first.states((1,), 0, 70), second.states((1,), 0, 70))
    assert second.keep_states((1,))
    assert second.cached() == (*TEXT[:70], 9)
    assert second.keep_states((NORMED,))
    assert first.cached() == second.cached() == ()
    first.prefill(TEXT, never)
    assert first.bytes_held() > before
    assert first.states((NORMED, 1), 3, 5).shape == (2, 2, 64)
    first.close()
    second.close()


def test_nobody_asks_nothing_is_kept(engine: TreeEngine) -> None:
    assert isinstance(engine.backend, KeepingBackend)
    assert engine.backend.kept_layers == ()
    engine.prefill(TEXT, never)
    assert engine.backend.states(0, 0).nbytes == 0
    plain = engine.step(DraftTree.chain((4,)), top_k=5)
    engine.keep_states((2,))
    engine.prefill(TEXT, never)
    kept = engine.step(DraftTree.chain((4,)), top_k=5)
    assert plain.top_logits_NK is not None
    assert kept.top_logits_NK is not None
    assert np.array_equal(plain.top_logits_NK, kept.top_logits_NK)


def test_an_engine_that_cannot_says_so(engine: TreeEngine) -> None:
    assert isinstance(engine, KeepingEngine)
    assert not engine.keep_states((1, 3))
    assert not engine.keep_states((0,))
    assert engine.keep_states(())


def test_one_cache_that_goes_round_keeps_them_for_whoever_has_it(engine: TreeEngine) -> None:
    """A slot reads those of its own text; once another one has the cache, there are none to be read."""
    engines = OneSlot(engine)
    first, second = engines.slot("a"), engines.slot("b")
    assert isinstance(first, KeepingEngine)
    assert isinstance(second, KeepingEngine)
    assert first.keep_states(LAYERS)
    first.prefill(TEXT, never)
    expected = fresh(engine, TEXT)
    first.prefill(TEXT, never)
    assert np.array_equal(first.states(LAYERS, 0, len(TEXT)), expected)
    assert np.array_equal(second.embed(TEXT[:3]), engine.embed(TEXT[:3]))
    second.prefill(TEXT[:9], never)
    with pytest.raises(CacheLost):
        first.states(LAYERS, 0, 1)
    assert second.keep_states((1,))
    assert second.cached() == tuple(TEXT[:9])
    assert not second.keep_states((9,))
