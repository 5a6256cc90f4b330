"""The graph engine and `CudaDevice` where a GPU fails, by models of its habits."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.shapes import TINY, named
from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.engine.static import verifier
from fastcoder_lsp.engine.static.build import build
from fastcoder_lsp.engine.static.device import CpuDevice, CudaDevice, GraphSet
from fastcoder_lsp.engine.static.programs import TOP_K, Program
from fastcoder_lsp.engine.static.step_io import StepInput
from fastcoder_lsp.engine.static.verifier import StepVariant
from tests.engine.fake_cuda import FakeCuda, faked
from tests.engine.static_parts import META, Counted, MetaDevice, StreamDevice, meta_programs, tiny_recipe
from tests.engine.test_static import drafted, plain

PROMPT = [5, 6, 7] * 60
TINY_SHAPE = named(TINY)[0].shape


def expected(folder: Path) -> list[int]:
    return plain(build(tiny_recipe(folder), CpuDevice()), PROMPT, 12)


@pytest.mark.parametrize("refused", [1, 1000])
def test_a_failed_capture_costs_its_own_program_alone(
    refused: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = FakeCuda(refused)
    truth = expected(tmp_path)
    cuda.install(monkeypatch)
    device = faked()
    engine = build(tiny_recipe(tmp_path), device)
    assert cuda.failures == min(refused, cuda.failures)
    assert cuda.failures == cuda.released > 0
    assert (cuda.captured > 0) == (refused < 1000)
    assert any("captured" in note for note in engine.info.notes)
    device.release()
    assert cuda.as_before
    assert plain(engine, PROMPT, 12) == truth


def test_nothing_is_read_before_it_was_waited_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    engine = build(tiny_recipe(tmp_path), StreamDevice())
    truth = expected(tmp_path)
    assert plain(engine, PROMPT, 12) == truth
    assert drafted(engine, PROMPT, truth, rng)[0] == truth
    engine.prefill(PROMPT[:-1], lambda: False)
    step = engine.step(DraftTree.chain([PROMPT[-1]]), top_k=4)
    assert step.top_ids_NK is not None
    assert int(step.top_ids_NK[0, 0]) == truth[0]


def test_a_program_that_no_exception_class_fits_runs_uncaptured() -> None:

    class Refusing(CpuDevice):
        def capture(self, work: object) -> object:  # type: ignore[override]
            raise KeyError("unheard of")

    done = list[str]()
    graphs = GraphSet[str](Refusing(), lambda key: lambda: done.append(key))  # type: ignore[arg-type]
    graphs.run("key")
    assert done == ["key"]
    assert graphs.notes


ASKS = [
    StepVariant(),
    StepVariant(top_k=TOP_K),
    StepVariant(bound=True),
    StepVariant(bound=True, top_k=TOP_K),
    StepVariant(sampled=True),
    StepVariant(sampled=True, nucleus=True),
    StepVariant(sampled=True, nucleus=True, whole=True),
]


@pytest.mark.parametrize("strict", [False, True])
@torch.inference_mode()
def test_no_program_waits_for_the_host(strict: bool) -> None:
    programs = meta_programs(TINY_SHAPE, strict=strict)
    for width in programs.plan.widths:
        for ask in ASKS:
            programs._make(Program(width, programs.plan.capacity, ask))()
    for width in programs.plan.reads:
        programs._make(Program(width, programs.plan.capacity, None))()


@torch.inference_mode()
def nodes(layers: int, width: int, ask: StepVariant) -> int:
    work = meta_programs(TINY_SHAPE, layers)._make(Program(width, 512, ask))
    with Counted() as counted:
        work()
    return sum(counted.operations.values())


@pytest.mark.parametrize("width", [1, 16, 64])
def test_little_is_launched_beside_the_layers(width: int) -> None:
    layer = nodes(2, width, StepVariant()) - nodes(1, width, StepVariant())
    assert nodes(1, width, StepVariant()) - layer <= 15


@torch.inference_mode()
def test_the_best_ids_are_found_in_one_look() -> None:
    logits = torch.empty(64, 152064, dtype=torch.bfloat16, device=META)
    with Counted() as counted:
        verifier.top_rows(logits, TOP_K)
    assert logits.nbytes < counted.bytes < 120e6


@pytest.mark.parametrize("whole", [False, True])
@torch.inference_mode()
def test_drawing_takes_little_memory(whole: bool) -> None:
    vocabulary, ask = 152064, StepVariant(sampled=True, nucleus=True, whole=whole)
    logits = torch.empty(128, vocabulary, dtype=torch.bfloat16, device=META)
    keys = torch.empty(vocabulary, dtype=torch.int64, device=META)
    inputs = StepInput(MetaDevice(), 128, vocabulary).view(128)
    with Counted() as counted:
        said = verifier.choose_rows(logits, inputs, keys, ask)
    assert said.shape == (128,)
    assert counted.largest <= max(16 * vocabulary * 8, logits.nbytes)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """CUDA's model in torch's places, which knows no pinned memory either."""
    found, zeros = FakeCuda(), torch.zeros
    found.install(monkeypatch)

    def pinned(*sizes: Any, pin_memory: bool = False, **named: Any) -> torch.Tensor:
        found.pinned += pin_memory
        return zeros(*sizes, **named)

    monkeypatch.setattr(torch, "zeros", pinned)
    return found


class Copied:
    """A tensor that is copied to: `waited` where the copy would wait for the device."""

    waited = False

    def copy_(self, _source: object, *, non_blocking: bool = False) -> None:
        self.waited = self.waited or not non_blocking


def test_the_device_does_all_that_is_asked(cuda: FakeCuda) -> None:
    device, ran = faked(), list[bool]()

    def work() -> None:
        assert ran or not cuda.recording, "compiled within a capture"
        ran.append(True)
        cuda.touch("inputs")

    cuda.touch("inputs")
    replay = device.capture(work)
    cuda.touch("inputs")
    replay()
    device.mark()
    device.wait()
    cuda.look("inputs")
    cuda.refused = 1
    with pytest.raises(RuntimeError, match="previous error"):
        device.capture(work)
    assert cuda.as_before
    assert cuda.released == cuda.failures == 1
    assert gc.isenabled()
    device.release()
    device.capture(work)
    assert cuda.captured == 2
    copied: Any = Copied()
    device.send(torch.ones(1), copied)
    device.fetch(torch.ones(1), copied)
    assert not copied.waited
    CudaDevice.staging(device, 3, torch.int64)
    assert cuda.pinned == 1


def test_a_capture_that_does_not_begin_is_tried_once_more(cuda: FakeCuda) -> None:
    device = faked()
    cuda.not_begun = 1
    device.capture(lambda: None)
    assert (cuda.captured, cuda.failures) == (1, 1)
    cuda.not_begun = 2
    with pytest.raises(RuntimeError, match="is gone"):
        device.capture(lambda: None)
    assert cuda.as_before


def test_a_device_that_does_not_capture_launches(cuda: FakeCuda) -> None:
    """The fallback of graphs: the work is run beforehand all the same, so that what it needs is compiled."""
    ran = list[bool]()
    device = faked(captures=False)
    replay = device.capture(lambda: ran.append(True))
    assert (len(ran), cuda.captured) == (2, 0)
    replay()
    assert len(ran) == 3


def test_an_error_of_a_lost_device_ends_the_process(cuda: FakeCuda) -> None:
    device, told = faked(), list[str]()
    device.on_lost = told.append
    device.failed(RuntimeError("CUDA error: invalid argument"))
    assert told == []
    cuda.lost = True
    device.failed(torch.OutOfMemoryError("out of memory"))
    assert told == []
    device.failed(RuntimeError("CUDA error: an illegal memory access\nand more"))
    assert told == ["CUDA error: an illegal memory access"]
