"""Every kernel that the graph engine launches is compiled for every kind of GPU; run by `scripts/test-gpu`."""

import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from triton.runtime.jit import JITFunction

from benchmarks.fused import triton_kernels
from fastcoder_lsp.engine.static.programs import TOP_K, Program
from fastcoder_lsp.engine.static.verifier import StepVariant
from tests.engine.planted import changed
from tests.engine.static_parts import Counted
from tests.gpu.compiling import SHARED_KIB, Needs, code_of, compiled
from tests.gpu.launches import Launch
from tests.gpu.shapes import launches, without_data

WORKERS = 2
KERNELS = {"attend_split", "join_splits", "chunk_best", "conclude_rows", "move_accepted"}
FEW_BYTES = 16
"""A spill so small costs nothing: Triton 3.7 has one of 8 bytes for a head dimension of 64 on sm_120."""


@pytest.fixture(scope="module")
def recorded() -> list[Launch]:
    """All launches, in an order that is the same every time."""
    return sorted(launches(), key=repr)


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WORKERS) as found:
        yield found


def objections(needs: Needs, capability: int) -> list[str]:
    """Why this code should not run on such a GPU."""
    found = []
    if needs.stack > FEW_BYTES:
        found.append(f"{needs.stack} bytes a thread do not fit into registers")
    if needs.shared > SHARED_KIB[capability] << 10:
        found.append(f"{needs.shared} bytes of shared memory, of {SHARED_KIB[capability]} KiB")
    return found


def test_all_kernels_are_launched(recorded: list[Launch]) -> None:
    """A kernel that nobody records would never be compiled."""
    assert {launch.name for launch in recorded} == KERNELS


@pytest.mark.timeout(280)
@pytest.mark.parametrize("capability", SHARED_KIB)
def test_every_launch_compiles(capability: int, recorded: list[Launch], workers: ProcessPoolExecutor) -> None:
    needs = workers.map(compiled, recorded, [capability] * len(recorded), chunksize=4)
    wrong = [
        (launch.name, launch.constants, why)
        for launch, need in zip(recorded, needs, strict=True)
        if (why := objections(need, capability))
    ]
    assert not wrong


COUNTED = re.compile(r"\batom\.\S*acq_rel\S*\.add")
STORED = re.compile(r"\bst\.global")
BARRIER = re.compile(r"\b(bar|barrier)\.(cta\.)?sync")


def unordered(code: str) -> list[str]:
    """What is wrong with code whose last program reads what the others wrote."""
    lines = [line.strip() for line in code.splitlines()]
    counts = [number for number, line in enumerate(lines) if COUNTED.search(line)]
    if len(counts) != 1 or ".gpu" not in lines[counts[0]]:
        return ["programs are not counted for all of the GPU to see"]
    before = lines[: counts[0]]
    last_store = max(number for number, line in enumerate(before) if STORED.search(line))
    if not any(BARRIER.search(line) for line in before[last_store:]):
        return ["a program is counted before all of its threads have stored"]
    if not any(BARRIER.search(line) for line in lines[counts[0] :]):
        return ["threads go on before the count is known"]
    return []


@pytest.mark.parametrize("capability", [80, 90])
def test_the_last_program_sees_what_the_others_wrote(capability: int, recorded: list[Launch], tmp_path: Path) -> None:
    """Their stores, a barrier, a count that releases and acquires; without one of both it is said what is wrong."""
    launch = next(launch for launch in recorded if launch.name == "conclude_rows")
    code = code_of(launch, capability).asm["ptx"]
    assert unordered(code) == []
    assert unordered(BARRIER.sub("nothing", code)) == ["a program is counted before all of its threads have stored"]
    faulty = changed(triton_kernels, tmp_path, {'sem="acq_rel"': 'sem="relaxed"'})
    assert unordered(code_of(launch, capability, faulty).asm["ptx"])


def nodes(layers: int, program: Program, monkeypatch: pytest.MonkeyPatch) -> int:
    """What a graph of the 7B model of so many layers holds with our kernels: their launches, and torch's."""
    launched = list[str]()
    monkeypatch.setattr(JITFunction, "run", lambda kernel, *_given, **_named: launched.append(kernel.__name__))
    work = without_data(layers)._make(program)
    with Counted() as counted, torch.inference_mode():
        work()
    of_torch: int = sum(counted.operations.values())
    return len(launched) + of_torch


@pytest.mark.parametrize("width", [1, 16, 64])
@pytest.mark.parametrize("ask", [StepVariant(), StepVariant(top_k=TOP_K), StepVariant(bound=True)])
def test_a_step_is_few_launches(ask: StepVariant, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(width, 1024, ask)
    two, three = (nodes(layers, program, monkeypatch) for layers in (2, 3))
    assert two - 2 * (three - two) <= 9


def widest(recorded: list[Launch]) -> Launch:
    """Attention over most rows of the largest heads."""
    found = [launch for launch in recorded if launch.name == "attend_split"]
    return max(found, key=lambda launch: launch.constants)


def test_a_spill_is_found(recorded: list[Launch]) -> None:
    """The widest attention by one warp has no room for its sums: the check must say so."""
    faulty = replace(widest(recorded), options=(("num_warps", 1), ("num_stages", 2)))
    assert any("registers" in why for why in objections(compiled(faulty, 90), 90))


def test_too_much_shared_memory_is_found(recorded: list[Launch]) -> None:
    """Five tiles at once fit an H100 and no 4090."""
    faulty = replace(widest(recorded), options=(("num_warps", 8), ("num_stages", 5)))
    assert any("shared" in why for why in objections(compiled(faulty, 86), 86))


def test_what_does_not_compile_is_found(recorded: list[Launch]) -> None:
    """Tiles that are no power of two, as a head dimension of 96 would make them."""
    faulty = widest(recorded)
    constants = tuple((name, 96 if name == "DIM" else value) for name, value in faulty.constants)
    with pytest.raises(Exception, match="power of 2"):
        compiled(replace(faulty, constants=constants), 90)
