"""Hidden states of what is cached: the model's own, whatever became of the cache, and none until a drafter asks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import NORMED, CacheLost, DraftTree, KeepingEngine, Sampler
from fastcoder_lsp.engine.backend import KeepingBackend
from fastcoder_lsp.engine.one_slot import OneSlot
from fastcoder_lsp.engine.slots import SharingBackend, SlotEngines
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.torch_engines.graphs.build import build
from fastcoder_lsp.torch_engines.graphs.cache import StaticCache
from fastcoder_lsp.torch_engines.graphs.device import CpuDevice
from fastcoder_lsp.torch_engines.graphs.programs import Program, Programs
from fastcoder_lsp.torch_engines.graphs.verifier import StepVariant
from tests.engine.shapes import TINY, named
from tests.engine.tiny_models import VOCABULARY, load, make_model, transformers_model
from tests.fake_engine import never
from tests.torch_engines.graph_parts import Counted, MeanDevice, meta_programs, tiny_recipe
from tests.torch_engines.test_graphs import drafted, plain

TEXT = [int(token) for token in np.random.default_rng(5).integers(0, VOCABULARY, 90)]
LAYERS = (1, 2, NORMED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"), "qwen2")


@pytest.fixture(params=["cpu-int8", "cpu-int4", "cpu-fp32", "cpu-graphs"])
def engine(request: pytest.FixtureRequest, folder: Path, weights_cache: Path) -> Iterator[TreeEngine]:
    made = load(folder, weights_cache, request.param)
    yield made
    made.close()


def fresh(engine: TreeEngine, tokens: list[int]) -> np.ndarray:
    engine.prefill([], never)
    engine.prefill(tokens, never)
    return engine.states(LAYERS, 0, len(tokens))


def test_states_are_the_models_own(engine: TreeEngine, folder: Path) -> None:
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


def test_without_a_reader_nothing_is_kept(engine: TreeEngine) -> None:
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


def test_one_shared_cache_keeps_states_for_its_holder(engine: TreeEngine) -> None:
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


PROMPT = [5, 6, 7] * 60


@torch.inference_mode()
def launches(programs: Programs, program: Program) -> int:
    work = programs._make(program)
    with Counted() as counted:
        work()
    return sum(counted.operations.values())


@pytest.mark.parametrize("ask", [StepVariant(), None], ids=["step", "read"])
def test_each_layer_that_is_kept_costs_one_launch(ask: StepVariant | None) -> None:
    programs = meta_programs(named(TINY)[0].shape)
    program = Program(32, 512, ask)
    before = launches(programs, program)
    assert programs.transformer.cache.states(0, 1).numel() == 0
    programs.transformer.cache.keep_states((1, 2))
    assert launches(programs, program) == before + 2
    programs.transformer.cache.keep_states(())
    assert launches(programs, program) == before


def test_programs_that_keep_states_are_captured_when_idle(tmp_path: Path) -> None:
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path), device)
    captured = len(device.captured)
    truth = plain(engine, PROMPT, 8)
    assert engine.keep_states((1,))
    assert engine.cached() == ()
    assert device.captured == []
    assert plain(engine, PROMPT, 8) == truth
    assert device.captured == []
    engine.prefill((), never)
    pieces = 0
    while engine.prepare():
        pieces += 1
        assert len(device.captured) == pieces
    assert pieces == captured
    assert plain(engine, PROMPT, 8) == truth
    assert engine.keep_states((1,))
    assert engine.cached() != ()
    assert len(device.captured) == captured
    assert engine.states((1,), 3, 9).shape == (6, 1, engine.embed([1]).shape[1])


@pytest.mark.parametrize("sampler", [Sampler(0.9, seed=2), Sampler(0.8, 30, 0.9, 3)], ids=["sampled", "nucleus"])
def test_no_request_captures_what_it_is_the_first_to_want(sampler: Sampler, tmp_path: Path) -> None:
    device = MeanDevice(1 << 40)
    engine, plainly = build(tiny_recipe(tmp_path), device), build(tiny_recipe(tmp_path), CpuDevice())
    captured, truth = len(device.captured), plain(plainly, PROMPT, 24, sampler)
    found, pending = list[int](), [PROMPT[-1]]
    engine.prefill(PROMPT[:-1], never)
    rng = np.random.default_rng(0)
    while len(found) < 24:
        before = len(device.captured)
        guesses = [*rng.integers(0, 9, 3).tolist(), *truth[len(found) : len(found) + 2]]
        tree = DraftTree((*pending, *guesses), (-1, 0, 0, 0, 0, 4))
        emitted = engine.step(tree, sampler).emitted if len(set(guesses[:4])) == 4 else None
        emitted = emitted or engine.step(DraftTree.chain(pending), sampler).emitted
        assert len(device.captured) == before
        found += emitted
        pending = [emitted[-1]]
        while engine.prepare():
            pass
    assert found[:24] == truth
    assert captured < len(device.captured) <= captured + 3


def test_memory_that_runs_out_later_costs_graphs_alone(tmp_path: Path) -> None:
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path, context=300), device)
    sampler = Sampler(0.9, seed=2)
    truth = plain(engine, PROMPT, 6, sampler)
    device._program_bytes = device._free
    assert engine.prepare()
    assert not engine.prepare()
    captured = len(device.captured)
    assert plain(engine, PROMPT, 6, sampler) == truth
    assert not engine.prepare()
    assert len(device.captured) == captured


def test_states_follow_drafted_text_and_other_documents(tmp_path: Path) -> None:
    engine = build(tiny_recipe(tmp_path), CpuDevice())
    assert engine.keep_states((1, NORMED))
    truth = plain(engine, PROMPT, 24)
    assert drafted(engine, PROMPT, truth, np.random.default_rng(3))[0] == truth
    text = list(engine.cached())
    assert len(text) > len(PROMPT)
    moved = engine.states((1, NORMED), 0, len(text))
    engine.prefill([9] * 300, never)
    assert engine.prefill(text, never).reused >= len(text) - 1
    back = engine.states((1, NORMED), 0, len(text))
    engine.prefill((), never)
    engine.prefill(text, never)
    right = engine.states((1, NORMED), 0, len(text))
    assert np.allclose(moved, right, atol=1e-4)
    assert np.allclose(back, right, atol=1e-4)


def test_no_room_for_states_costs_states_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path), device)
    truth = plain(engine, PROMPT, 8)
    room = StaticCache._no_states

    def full(cache: StaticCache, layers: tuple[int, ...]) -> torch.Tensor:
        if layers:
            raise torch.OutOfMemoryError
        return room(cache, layers)

    monkeypatch.setattr(StaticCache, "_no_states", full)
    assert not engine.keep_states((1,))
    assert engine.keep_states(())
    assert plain(engine, PROMPT, 8) == truth
    held, given_back = engine.cached(), device.given_back
    assert held
    assert not engine.keep_states((1,))
    assert engine.cached() == held
    assert device.given_back == given_back


def test_a_norm_that_centres_is_none_that_drafters_know(tmp_path: Path) -> None:
    """StarCoder2's last norm subtracts the mean, which a reader of states would not."""
    engine = build(tiny_recipe(tmp_path, "starcoder2"), CpuDevice())
    assert not engine.keep_states((1,))
    assert engine.keep_states(())
    assert max(plain(engine, PROMPT, 2)) < VOCABULARY
