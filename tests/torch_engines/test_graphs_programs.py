"""The graph engine's programs: the order of their reads, and what they launch and hold, counted without data."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.torch_engines.graphs import verifier
from fastcoder_lsp.torch_engines.graphs.build import build
from fastcoder_lsp.torch_engines.graphs.device import CpuDevice, GraphSet
from fastcoder_lsp.torch_engines.graphs.programs import TOP_K, Program
from fastcoder_lsp.torch_engines.graphs.step_io import StepInput
from fastcoder_lsp.torch_engines.graphs.verifier import StepVariant
from tests.engine.shapes import TINY, named
from tests.torch_engines.graph_parts import META, Counted, MetaDevice, StreamDevice, meta_programs, tiny_recipe
from tests.torch_engines.test_graphs import drafted, plain

PROMPT = [5, 6, 7] * 60
TINY_SHAPE = named(TINY)[0].shape


def expected(folder: Path) -> list[int]:
    return plain(build(tiny_recipe(folder), CpuDevice()), PROMPT, 12)


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


def test_a_program_that_cannot_be_captured_runs_uncaptured() -> None:

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
