"""The check at the start: our kernels and replays are used only where they do what torch's launches do."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.engine.static.build import FUSED, TORCH, build, way
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice, Launch
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.engine.static.step_io import Inputs, Outputs
from fastcoder_lsp.engine.static.transformer import TorchKernels
from tests.engine.static_parts import MeanDevice, tiny_recipe
from tests.engine.test_static import drafted, plain

PROMPT = [5, 6, 7] * 60


class Ours(TorchKernels):
    """Stands for `FusedKernels`, which needs Triton: the same operations in torch, wrong where a test wants it.

    `faults`: operation → what is done with its result.
    """

    faults: dict[str, Any] = {}  # noqa: RUF012 each test has a class of its own

    def __init__(self, plain: TorchKernels, _units: int) -> None:
        self.__dict__.update(plain.__dict__)
        self.ran = set[str]()

    def _did(self, operation: str, found: torch.Tensor) -> torch.Tensor:
        self.ran.add(operation)
        fault = self.faults.get(operation)
        return found if fault is None else fault(found, self)

    def mix(self, layer: int, q_THD: torch.Tensor, cache: StaticCache, view: Any) -> torch.Tensor:
        self.held = int(view.inputs.cached)
        return self._did("attend", super().mix(layer, q_THD, cache, view))

    def conclude(
        self, logits_TV: torch.Tensor, outputs: Outputs, inputs: Inputs, cache: StaticCache, *, best: bool
    ) -> None:
        super().conclude(logits_TV, outputs, inputs, cache, best=best)
        outputs.said_T.copy_(self._did("best", outputs.said_T))
        said, guesses, above = (each.tolist() for each in (outputs.said_T, inputs.ids_T, inputs.parents_T))
        cached, pending, room = int(inputs.cached), int(inputs.pending), int(inputs.room)
        path = list[int]()
        for row, guess in enumerate(guesses):
            node = path[-1] if path else pending - 1
            if above[row] == node and guess == said[node] and len(path) < room:
                path.append(row)
        self.move(cache, torch.tensor(path, dtype=torch.int64) + cached, torch.arange(len(path)) + cached + pending)
        outputs.kept_P[: 1 + len(path)] = torch.tensor([len(path), *path])
        outputs.kept_P.copy_(self._did("follow", outputs.kept_P))

    def move(self, cache: StaticCache, sources: torch.Tensor, targets: torch.Tensor) -> None:
        cache.move(sources, self._did("move", targets))


def raising(_found: torch.Tensor, _ours: Ours) -> torch.Tensor:
    raise KeyError("what Triton raises is no error of torch")


def wrong(found: torch.Tensor, _ours: Ours) -> torch.Tensor:
    return found.roll(1, 0)


def wrong_far(found: torch.Tensor, ours: Ours) -> torch.Tensor:
    """A kernel that is right for short texts alone."""
    return found if ours.held < 700 else found * 2


def one_too_far(found: torch.Tensor, _ours: Ours) -> torch.Tensor:
    """Slots that are moved to the wrong place."""
    return found + 1


def fused_engine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kernels: str = FUSED, **faults: Any
) -> tuple[StaticEngine, str]:
    made = type("Made", (Ours,), {"faults": faults})
    # In place of the module: Triton is not there.
    monkeypatch.setitem(sys.modules, "fastcoder_lsp.engine.static.fused", _Fused(made))
    engine = build(tiny_recipe(folder, kernels=kernels, warm_up=False, context=900), MeanDevice(1 << 40))
    return engine, next((note for note in engine.info.notes if note.startswith("kernels: ")), "")


class _Fused:
    """The module `fused` with other kernels."""

    def __init__(self, kernels: type[Ours]) -> None:
        self.FusedKernels = kernels

    @staticmethod
    def fits(_shape: object) -> bool:
        return True


@pytest.mark.parametrize("name", ["auto", TORCH])
def test_our_kernels_are_off_unless_asked_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, note = fused_engine(tmp_path, monkeypatch, name, attend=raising, best=raising)
    assert type(engine.static.programs.kernels) is TorchKernels
    assert note == ""


def test_a_strict_engine_takes_torchs_kernels(tmp_path: Path) -> None:
    """Ours sum in no float64, which `strict` promises."""
    engine = build(tiny_recipe(tmp_path, kernels=FUSED, strict=True), CpuDevice())
    assert type(engine.static.programs.kernels) is TorchKernels


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        *(("attend", fault) for fault in (raising, wrong, wrong_far)),
        *((operation, fault) for operation in ("best", "follow") for fault in (raising, wrong)),
        ("move", one_too_far),
    ],
)
def test_kernels_that_fail_the_check_are_not_used(
    operation: str, fault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, note = fused_engine(tmp_path, monkeypatch, **{operation: fault})
    assert note.startswith("kernels: torch; fused ones are not used: ")
    assert type(engine.static.programs.kernels) is TorchKernels
    assert plain(engine, PROMPT, 4) == plain(build(tiny_recipe(tmp_path), CpuDevice()), PROMPT, 4)


def test_kernels_that_cannot_be_imported_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Triton is absent, or of a version that knows not all that is asked, torch's run, with a note."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "fastcoder_lsp.engine.static.fused", raising=False)
    monkeypatch.delitem(sys.modules, "fastcoder_lsp.engine.static.triton_kernels", raising=False)
    engine = build(tiny_recipe(tmp_path, kernels=FUSED, warm_up=False), MeanDevice(1 << 40))
    assert any("cannot be imported" in note for note in engine.info.notes)


def test_kernels_that_pass_the_check_say_what_the_host_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plainly = build(tiny_recipe(tmp_path), CpuDevice())
    engine, note = fused_engine(tmp_path, monkeypatch)
    assert note == "kernels: fused"
    moves, rng = engine.static.programs.moves, np.random.default_rng(1)
    keep = moves.keep
    for sampler in (Sampler(), Sampler(0.9, seed=2), Sampler(0.8, 30, 0.9, 3)):
        by_host = keep if sampler.temperature else lambda *_given: pytest.fail("moved by the host")
        monkeypatch.setattr(moves, "keep", by_host)
        truth = plain(plainly, PROMPT, 24, sampler)
        said, steps = drafted(engine, PROMPT, truth, rng, sampler)
        assert (said, steps < 24) == (truth, True)


@pytest.mark.parametrize("name", ["overlapped", "fused without attend", "overlapped without norm, best"])
def test_old_names_mean_our_kernels(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fused_engine(tmp_path, monkeypatch, name)[1] == f"kernels: fused ({name} is an old name)"


@pytest.mark.parametrize("name", ["", "quick", "torch without norm", "fused without", "fused without speed"])
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="neither torch nor fused"):
        way(name)


class StaleDevice(MeanDevice):
    """Captures, and replays nothing: what a program left behind the first time stays."""

    def capture(self, work: Launch) -> Launch:
        super().capture(work)
        return lambda: None


class FailingDevice(MeanDevice):
    def capture(self, work: Launch) -> Launch:
        super().capture(work)

        def replay() -> None:
            raise RuntimeError("CUDA error: invalid argument")

        return replay


@pytest.mark.parametrize("kind", [StaleDevice, FailingDevice])
def test_replays_that_fail_the_check_are_not_used(kind: type[MeanDevice], tmp_path: Path) -> None:
    engine = build(tiny_recipe(tmp_path, context=300), kind(1 << 40))
    assert any(note.startswith("steps are launched operation by operation") for note in engine.info.notes)
    assert plain(engine, PROMPT, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), PROMPT, 8)


def test_the_engine_runs_where_psutil_is_absent() -> None:
    """Its modules can be imported and the memory asked for: a rented GPU's machine has torch and little else."""
    code = """
import sys
sys.modules["psutil"] = None
from fastcoder_lsp.engine.static import build, device
assert device.CpuDevice().memory().free > 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
