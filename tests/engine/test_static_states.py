"""Hidden states in the graph engine: at no cost where nobody asks, by programs of their own where somebody does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import NORMED, DraftTree, Sampler
from fastcoder_lsp.engine.static.build import build
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.programs import Program, Programs
from fastcoder_lsp.engine.static.verifier import StepVariant
from tests.engine.static_parts import Counted, MeanDevice, tiny_recipe
from tests.engine.test_static import drafted, plain
from tests.engine.test_static_faults import meta_programs
from tests.engine.tiny_models import VOCABULARY
from tests.fake_engine import never

PROMPT = [5, 6, 7] * 60


@torch.inference_mode()
def launches(programs: Programs, program: Program) -> int:
    """What a graph of this program holds."""
    work = programs._make(program)
    with Counted() as counted:
        work()
    return sum(counted.operations.values())


@pytest.mark.parametrize("ask", [StepVariant(), None], ids=["step", "read"])
def test_each_layer_that_is_kept_costs_one_launch(ask: StepVariant | None) -> None:
    programs = meta_programs(2)
    program = Program(32, 512, ask)
    before = launches(programs, program)
    assert programs.cache.states(0, 1).numel() == 0
    programs.cache.keep_states((1, 2))
    assert launches(programs, program) == before + 2
    programs.cache.keep_states(())
    assert launches(programs, program) == before


def test_programs_that_keep_states_are_captured_when_nobody_asks(tmp_path: Path) -> None:
    """Those that keep none are dropped; as many others are captured one by one by `prepare`, none within a request."""
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path, kernels="torch"), device)
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
    engine, plainly = build(tiny_recipe(tmp_path, kernels="torch"), device), build(tiny_recipe(tmp_path), CpuDevice())
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
    """What can no longer be captured is launched operation by operation for good."""
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path, kernels="torch", context=300), device)
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


def test_a_slot_whose_states_stay_behind_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: keys and values are moved, states are not; the comparison above would show it."""
    move = StaticCache.move

    def forgetful(cache: StaticCache, sources: torch.Tensor, targets: torch.Tensor) -> None:
        kept = cache._states_SCE.clone()
        move(cache, sources, targets)
        cache._states_SCE.copy_(kept)

    monkeypatch.setattr(StaticCache, "move", forgetful)
    engine = build(tiny_recipe(tmp_path), CpuDevice())
    engine.keep_states((1,))
    truth = plain(engine, PROMPT, 24)
    drafted(engine, PROMPT, truth, np.random.default_rng(3))
    text = list(engine.cached())
    moved = engine.states((1,), 0, len(text))
    engine.prefill((), never)
    engine.prefill(text, never)
    assert not np.allclose(moved, engine.states((1,), 0, len(text)), atol=1e-4)


def test_no_room_for_states_costs_states_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path, kernels="torch"), device)
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
