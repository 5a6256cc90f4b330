"""Before the graph engine serves: memory is reckoned, our kernels are checked, and what is not right is said."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.host.process import HUNG
from fastcoder_lsp.torch_engines.faults import LOST, GpuFaults
from fastcoder_lsp.torch_engines.graphs import weights
from fastcoder_lsp.torch_engines.graphs.build import build
from fastcoder_lsp.torch_engines.graphs.device import CpuDevice, Launch
from fastcoder_lsp.torch_engines.graphs.plan import least_bytes, require, weight_bytes
from fastcoder_lsp.torch_engines.graphs.weights import GROUP, Int4Product, Int8Product, round_groups, round_rows
from tests.engine.shapes import MODELS, named
from tests.torch_engines.graph_parts import MeanDevice, tiny_recipe
from tests.torch_engines.test_graphs import plain

SHAPES = {model.name: model.shape for model in named(MODELS)}


@pytest.mark.parametrize(
    ("model", "precision", "gigabytes"),
    [
        ("Qwen2.5-Coder 7B", "plain", 24),
        ("Qwen2.5-Coder 7B", "int8", 12),
        ("Qwen2.5-Coder 7B", "int4", 8),
        ("CodeLlama 13B", "int8", 16),
        ("CodeLlama 13B", "int4", 12),
    ],
)
def test_the_larger_models_fit_the_smaller_cards(model: str, precision: str, gigabytes: int) -> None:
    needed = least_bytes(SHAPES[model], precision, 2, own_head=True)
    assert gigabytes * 0.45e9 < needed < gigabytes * 0.9e9


def test_what_does_not_fit_is_said_with_what_would() -> None:
    shape = SHAPES["Qwen2.5-Coder 7B"]

    def ask(free: float, precision: str = "plain") -> ResourceError:
        with pytest.raises(ResourceError) as caught:
            require(int(free), "7B", "card", shape, precision, 2, own_head=True)
        return caught.value

    refused = ask(7.2e9)
    assert "15.3 GB" in refused.message
    assert "7.2 GB" in refused.message
    assert "cuda-int4" in refused.hint
    assert "cuda-int8" not in refused.hint
    assert "cuda-int8" in ask(10e9).hint
    assert "cuda" not in ask(4e9).hint
    assert "smaller model" in ask(4e9, "int4").hint
    require(int(16e9), "7B", "card", shape, "plain", 2, own_head=True)


def test_what_is_reckoned_is_what_the_products_hold() -> None:
    weight = torch.randn(64, 8 * GROUP).bfloat16()
    shape = SHAPES["Qwen2.5-Coder 7B"]
    table = shape.vocabulary * shape.width
    layers = shape.weight_count - table
    for precision, make in (("int8", Int8Product), ("int4", Int4Product)):
        each = make(weight, None).bytes / weight.numel()
        reckoned = (weight_bytes(shape, precision, 2, own_head=False) - 2 * table) / layers
        # The reference keeps int4's scales in 32 bits; what runs on a GPU has them in 16.
        assert reckoned <= each * 1.01
        assert each <= reckoned * (1.01 if precision == "int8" else 1.25)


@pytest.mark.parametrize("round_", [round_rows, round_groups])
def test_rounding_in_slices_is_rounding(round_: object, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(70, 2 * GROUP).bfloat16()
    assert callable(round_)
    whole = round_(weight)
    monkeypatch.setattr(weights, "SLICE", 16)
    parts = round_(weight)
    assert all(torch.equal(left, right) for left, right in zip(whole, parts, strict=True))
    assert whole[0].itemsize == 1


def test_a_closed_engine_holds_nothing_when_memory_is_given_back(tmp_path: Path) -> None:
    """Weights, KV cache and programs are gone by then, though they refer to each other and the collector is off.

    A server freezes what it has loaded, and a frozen cycle is never collected.
    """
    alive = list[int]()

    class Watched(MeanDevice):
        def release(self) -> None:
            super().release()
            alive.append(sum(each() is not None for each in held))

    held: list[weakref.ref[torch.Tensor]] = []
    engine = build(tiny_recipe(tmp_path, context=100), Watched(1 << 40))
    programs = engine.static.programs
    tensors = [
        programs.transformer.model.embedding_VE,
        *programs.transformer.cache.panels(),
        programs.transformer.kernels.cos_CD,
    ]
    held += [weakref.ref(tensor) for tensor in tensors if tensor._base is None]
    held += [weakref.ref(programs.transformer.cache._slots_2LKCD), weakref.ref(programs.input._device)]
    engine.prefill([1, 2, 3], lambda: False)
    engine.step(DraftTree.chain([4]))
    del programs, tensors
    gc.collect()
    gc.freeze()
    alive.clear()
    try:
        engine.close()
    finally:
        gc.unfreeze()
    assert alive[-1:] == [0]


def test_the_process_of_a_lost_gpu_ends(tmp_path: Path) -> None:
    code = f"""
import pathlib
from fastcoder_lsp.torch_engines.faults import GpuFaults
GpuFaults(pathlib.Path({str(tmp_path / "faults.json")!r})).end("cuda-graphs", "illegal access")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=100).returncode == HUNG == LOST
    assert GpuFaults(tmp_path / "faults.json").of("cuda-graphs") == "illegal access"
    assert GpuFaults(tmp_path / "faults.json").of("cuda-bf16") is None


PROMPT = [5, 6, 7] * 60


def failing() -> None:
    raise RuntimeError("CUDA error: invalid argument")


@pytest.mark.parametrize("replay", [failing, lambda: None], ids=["failing", "stale"])
def test_replays_that_fail_the_check_are_not_used(replay: Launch, tmp_path: Path) -> None:
    """One that does nothing leaves behind what the program made the first time."""

    class BadDevice(MeanDevice):
        def capture(self, work: Launch) -> Launch:
            super().capture(work)
            return replay

    engine = build(tiny_recipe(tmp_path, context=300), BadDevice(1 << 40))
    assert any(note.startswith("steps are launched operation by operation") for note in engine.info.notes)
    assert plain(engine, PROMPT, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), PROMPT, 8)
