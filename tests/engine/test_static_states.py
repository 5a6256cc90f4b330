"""Hidden states in the graph engine: at no cost where nobody asks, by programs of their own where somebody does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.engine.static.build import build
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.programs import Program, Programs
from fastcoder_lsp.engine.static.verifier import Ask
from tests.engine.static_parts import Counted, MeanDevice, tiny_recipe
from tests.engine.test_static import drafted, plain
from tests.engine.test_static_faults import meta_programs
from tests.engine.tiny_models import VOCABULARY

PROMPT = [5, 6, 7] * 60


def never() -> bool:
    return False


@torch.inference_mode()
def launches(programs: Programs, program: Program) -> int:
    """What a graph of this program holds."""
    work = programs._make(program)
    with Counted() as counted:
        work()
    return sum(counted.operations.values())


@pytest.mark.parametrize("ask", [Ask(), None], ids=["step", "read"])
def test_each_layer_that_is_kept_costs_one_launch(ask: Ask | None) -> None:
    """And none that is not: a program for nobody is what it was, in launches and in the cache's bytes."""
    programs = meta_programs(2)
    program = Program(32, 512, ask)
    before = launches(programs, program)
    assert programs.cache.states(0, 1).numel() == 0
    programs.cache.keep_states((1, 2))
    assert launches(programs, program) == before + 2
    programs.cache.keep_states(())
    assert launches(programs, program) == before


def test_programs_that_keep_states_are_captured_before_they_are_wanted(tmp_path: Path) -> None:
    """Those that keep none are dropped, as many others take their place at once, and a step captures nothing more."""
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path, kernels="torch"), device)
    captured = len(device.captured)
    truth = plain(engine, PROMPT, 8)
    assert engine.keep_states((1,))
    assert engine.cached() == ()
    assert len(device.captured) == captured
    assert plain(engine, PROMPT, 8) == truth
    assert engine.keep_states((1,))
    assert engine.cached() != ()
    assert len(device.captured) == captured
    assert engine.states((1,), 3, 9).shape == (6, 1, engine.embed([1]).shape[1])


def test_states_follow_drafted_text_and_other_documents(tmp_path: Path) -> None:
    """What was accepted is moved with its states, and a prefix that comes back from the shelf brings its own."""
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
    """The engine says that it keeps none, and goes on as before, its programs captured anew. It is tried but once."""
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(tmp_path, kernels="torch"), device)
    captured, truth = len(device.captured), plain(engine, PROMPT, 8)
    room = StaticCache._no_states

    def full(cache: StaticCache, layers: tuple[int, ...]) -> torch.Tensor:
        if layers:
            raise torch.OutOfMemoryError
        return room(cache, layers)

    monkeypatch.setattr(StaticCache, "_no_states", full)
    assert not engine.keep_states((1,))
    assert engine.keep_states(())
    assert len(device.captured) == captured
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
