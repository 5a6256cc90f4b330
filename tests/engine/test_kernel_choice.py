"""Which kernels the graph engine takes: the quickest that say what torch's say; a wrong or failing one costs itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.engine.static import kernel_choice
from fastcoder_lsp.engine.static.attention import TreeView
from fastcoder_lsp.engine.static.build import build
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import CpuDevice
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.engine.static.guarded import NOTE
from fastcoder_lsp.engine.static.kernel_choice import KernelChoice
from fastcoder_lsp.engine.static.kernels import TorchKernels
from fastcoder_lsp.engine.static.step_io import Inputs, Outputs
from fastcoder_lsp.engine.static.ways import FUSED, OPERATIONS, OVERLAPPED, TORCH, way, without
from tests.engine.static_parts import MeanDevice, tiny_recipe
from tests.engine.test_static import drafted, plain

PROMPT = [5, 6, 7] * 60


class Ours(TorchKernels):
    """Kernels that stand for ours, which need Triton: torch's, that count, and go wrong where a test wants it.

    `faults`: operation → what is done with its result.
    """

    def __init__(self, plain: TorchKernels, faults: dict[str, Any], *, overlapped: bool) -> None:
        self.__dict__.update(plain.__dict__)
        self.faults, self.overlapped = faults, overlapped
        self.ran = set[str]()

    def _did(self, operation: str, found: torch.Tensor) -> torch.Tensor:
        self.ran.add(operation)
        fault = self.faults.get(operation)
        return found if fault is None else fault(found, self)

    def norm(self, *given: Any) -> torch.Tensor:
        return self._did("norm", super().norm(*given))

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        self.held = int(view.inputs.cached)
        return self._did("attend", super().attend(layer, qkv, cache, view))

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        return self._did("activate", super().activate(inner))

    def say(self, logits_TV: torch.Tensor, said_T: torch.Tensor) -> None:
        super().say(logits_TV, said_T)
        said_T.copy_(self._did("best", said_T))

    def best(self, logits_TV: torch.Tensor, ids_TK: torch.Tensor, values_TK: torch.Tensor) -> None:
        super().best(logits_TV, ids_TK, values_TK)
        ids_TK.copy_(self._did("best", ids_TK))

    def follow(self, outputs: Outputs, inputs: Inputs, cache: StaticCache) -> None:
        said, guesses, above = (each.tolist() for each in (outputs.said_T, inputs.ids_T, inputs.parents_T))
        cached, pending, room = int(inputs.cached), int(inputs.pending), int(inputs.room)
        path = list[int]()
        for row, guess in enumerate(guesses):
            node = path[-1] if path else pending - 1
            if above[row] == node and guess == said[node] and len(path) < room:
                path.append(row)
        cache.move(torch.tensor(path, dtype=torch.int64) + cached, torch.arange(len(path)) + cached + pending)
        outputs.kept_P[: 1 + len(path)] = torch.tensor([len(path), *path])
        outputs.kept_P.copy_(self._did("follow", outputs.kept_P))


def raising(_found: torch.Tensor, _ours: Ours) -> torch.Tensor:
    """A kernel that does not compile."""
    raise KeyError("what Triton raises is no error of torch")


def wrong(found: torch.Tensor, _ours: Ours) -> torch.Tensor:
    """A kernel that is compiled wrongly."""
    return found.roll(1, 0)


def wrong_far(found: torch.Tensor, ours: Ours) -> torch.Tensor:
    """A kernel that is right for short texts alone."""
    return found if ours.held < 700 else found * 2


class Made:
    """Engines with such kernels, and all kernels that were made for them; `ms`: of each way, in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.faults: dict[str, Any] = {}
        self.ms: dict[str, float] = {}
        self.made: list[Ours] = []
        self._folder, self._timing = folder, ""
        monkeypatch.setattr(KernelChoice, "_fused", lambda _self: self._ours)
        monkeypatch.setattr(kernel_choice, "time_ms", lambda _work, _device: self.ms.get(self._timing, 1.0))
        made = KernelChoice._made

        def noted(choice: KernelChoice, name: str, *given: Any) -> Any:
            self._timing = name
            return made(choice, name, *given)

        monkeypatch.setattr(KernelChoice, "_made", noted)

    def _ours(self, plain: TorchKernels, _units: int, *, overlapped: bool) -> Ours:
        self.made.append(Ours(plain, self.faults, overlapped=overlapped))
        return self.made[-1]

    def engine(self, kernels: str = "auto", *, overlaps: bool = True) -> StaticEngine:
        """An engine on a device that claims to capture, the quicker programs not captured ahead."""
        device = MeanDevice(1 << 40)
        device.overlaps = overlaps
        self._timing = TORCH
        return build(tiny_recipe(self._folder, kernels=kernels, warm_up=False, context=900), device)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Made:
    """Engines with kernels that stand for ours."""
    return Made(monkeypatch, tmp_path)


def kernels_note(engine: StaticEngine) -> str:
    """What the user is told of the choice."""
    return next(note for note in engine.info.notes if note.startswith("kernels: ")).removeprefix("kernels: ")


@pytest.mark.parametrize(
    ("ms", "overlaps", "chosen"),
    [
        ({OVERLAPPED: 0.8, FUSED: 0.9}, True, OVERLAPPED),
        ({OVERLAPPED: 0.8, FUSED: 0.9}, False, FUSED),
        ({OVERLAPPED: 0.95, FUSED: 0.9}, True, FUSED),
        ({OVERLAPPED: 1.1, FUSED: 1.1}, True, TORCH),
    ],
)
def test_the_quickest_is_taken_and_remembered(ms: dict[str, float], overlaps: bool, chosen: str, made: Made) -> None:
    """Each way where it is quickest, launched early only on a GPU that can; a second start tries nothing."""
    made.ms = ms
    assert kernels_note(made.engine(overlaps=overlaps)) == chosen
    tried = len(made.made)
    assert tried == (2 if overlaps else 1) + (chosen != TORCH)
    assert kernels_note(made.engine(overlaps=overlaps)) == chosen
    assert len(made.made) - tried == (chosen != TORCH)


def test_what_a_gpu_cannot_is_not_remembered(made: Made) -> None:
    """A record of another GPU by the same name that launches early is not followed on one that cannot."""
    made.ms = {OVERLAPPED: 0.8, FUSED: 0.9}
    assert kernels_note(made.engine()) == OVERLAPPED
    assert kernels_note(made.engine(overlaps=False)) == FUSED


@pytest.mark.parametrize("fault", [raising, wrong])
@pytest.mark.parametrize(
    "operation",
    [
        pytest.param("norm", marks=pytest.mark.ci),
        "attend",
        pytest.param("activate", marks=pytest.mark.ci),
        pytest.param("best", marks=pytest.mark.ci),
        "follow",
    ],
)
def test_one_bad_kernel_costs_itself_alone(operation: str, fault: Any, made: Made, tmp_path: Path) -> None:
    """Where ours fail or differ, the way without the one that does is found, and says what torch says."""
    made.faults = {operation: fault}
    made.ms = {without(FUSED, operation): 0.5, FUSED: 0.1}
    engine = made.engine()
    assert kernels_note(engine) == f"fused without {operation}"
    assert plain(engine, PROMPT, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), PROMPT, 8)
    assert made.made[-1].ran == set(OPERATIONS) - {operation}


def sliding(cache_move: Any) -> Any:
    """Slots that are moved one too far."""
    return lambda cache, sources, targets: cache_move(cache, sources, (targets + 1).clamp(max=cache.capacity - 1))


def test_slots_that_are_moved_to_the_wrong_place_are_found(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is right and the cache is not: following is left to the host."""
    move = StaticCache.move
    monkeypatch.setattr(Ours, "follow", _with(Ours.follow, "move", sliding(move), monkeypatch))
    made.ms = {without(FUSED, "follow"): 0.5, FUSED: 0.1}
    assert kernels_note(made.engine(overlaps=False)) == "fused without follow"


def _with(function: Any, name: str, replaced: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function, while the cache's method is another one."""

    def changed(*given: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(StaticCache, name, replaced)
            function(*given)

    return changed


def test_what_kernels_follow_is_what_the_host_would(made: Made, tmp_path: Path) -> None:
    """Drafted text, greedy and sampled, is plain text; nothing is left for the host to move."""
    plainly, engine = build(tiny_recipe(tmp_path), CpuDevice()), made.engine(FUSED)
    moves = engine.static.programs.moves
    moves.keep = lambda *_given: pytest.fail("moved by the host")  # type: ignore[method-assign]
    rng = np.random.default_rng(1)
    for sampler in (Sampler(), Sampler(0.9, seed=2), Sampler(0.8, 30, 0.9, 3)):
        truth = plain(plainly, PROMPT, 24, sampler)
        said, steps = drafted(engine, PROMPT, truth, rng, sampler)
        assert (said, steps < 24) == (truth, True)


def test_faults_that_long_texts_show_are_found(made: Made) -> None:
    """Kernels are compared over a cache that holds something; two that are wrong leave torch's."""
    made.faults = {"attend": wrong_far}
    assert kernels_note(made.engine()) != FUSED
    made.faults = {"attend": wrong_far, "norm": wrong}
    made.ms = {without(FUSED, each): 0.5 for each in OPERATIONS}
    assert kernels_note(made.engine("auto", overlaps=False)) != FUSED


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_kernel_is_switched_off_alone(operation: str, made: Made, tmp_path: Path) -> None:
    """Whoever asks for a way without a kernel gets all others; the same is said."""
    engine = made.engine(f"fused without {operation}")
    assert plain(engine, PROMPT, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), PROMPT, 8)
    assert made.made[-1].ran == set(OPERATIONS) - {operation}


def test_a_kernel_that_fails_later_is_replaced_for_good(made: Made, tmp_path: Path) -> None:
    """The same tokens, one note however many fail, and the others stay ours."""
    engine = made.engine(FUSED)
    made.faults |= {"activate": raising, "best": raising}
    assert plain(engine, PROMPT, 8) == plain(build(tiny_recipe(tmp_path), CpuDevice()), PROMPT, 8)
    made.made[-1].ran.clear()
    plain(engine, PROMPT, 4)
    assert made.made[-1].ran == {"norm", "attend"}


def test_the_note_is_told_once(made: Made) -> None:
    """Kernels that fail at the first capture are in the engine's notes, once."""
    made.faults = {"activate": raising, "norm": raising}
    device = MeanDevice(1 << 40)
    engine = build(tiny_recipe(made._folder, kernels=FUSED, context=100), device)
    assert engine.info.notes.count(NOTE) == 1


@pytest.mark.parametrize("name", ["", "quick", "torch without norm", "fused without", "fused without speed"])
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    """What is asked for is one of the ways, without operations that there are."""
    with pytest.raises(ValueError, match="none of torch, fused, overlapped"):
        way(name)


def test_names_are_read_as_they_are_made() -> None:
    """Every combination comes back."""
    assert way(without(OVERLAPPED, "norm", "best")).without == {"norm", "best"}
    assert way(OVERLAPPED).overlapped
    assert not way(FUSED).overlapped
    assert not way(TORCH).fused
