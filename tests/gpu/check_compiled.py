"""Every kernel that the graph engine launches is compiled for every kind of GPU; run by `scripts/test-gpu`."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch
from triton.runtime.jit import JITFunction

from tests.engine.static_parts import Counted
from tests.gpu.compiling import SHARED_KIB, Needs, compiled
from tests.gpu.launches import Launch
from tests.gpu.shapes import launches, without_data

WORKERS = 2
KERNELS = {
    *("add_norm", "rotate_store", "attend_split", "join_splits", "activate"),
    *("chunk_best", "best_rows", "int8_split", "int8_join"),
}


@pytest.fixture(scope="module")
def recorded() -> list[Launch]:
    """All launches, in an order that is the same every time."""
    return sorted(launches(), key=repr)


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessPoolExecutor]:
    """Processes that compile."""
    with ProcessPoolExecutor(WORKERS) as found:
        yield found


def objections(needs: Needs, capability: int) -> list[str]:
    """Why this code should not run on such a GPU."""
    found = []
    if needs.stack:
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
    """In bf16, for all models, widths and sizes of GPU: no register spilled, shared memory within the GPU's limit."""
    needs = workers.map(compiled, recorded, [capability] * len(recorded), chunksize=4)
    wrong = [
        (launch.name, launch.constants, why)
        for launch, need in zip(recorded, needs, strict=True)
        if (why := objections(need, capability))
    ]
    assert not wrong


def layer_nodes(width: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """What a graph holds for one layer of the 7B model with our kernels: their launches, and torch's."""
    found, launched = list[int](), list[str]()
    monkeypatch.setattr(JITFunction, "run", lambda kernel, *_given, **_named: launched.append(kernel.__name__))
    for layers in (2, 3):
        launched.clear()
        transformer, view = without_data(layers, width)
        with Counted() as counted, torch.inference_mode():
            transformer.read(view)
        found.append(len(launched) + sum(counted.operations.values()))
    return found[1] - found[0]


@pytest.mark.parametrize("width", [1, 16, 64])
def test_a_layer_is_ten_launches(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norm, product, rotation, attention in two, product, norm, product, activation, product."""
    assert layer_nodes(width, monkeypatch) <= 10


def widest(recorded: list[Launch]) -> Launch:
    """Attention over most rows of the largest heads."""
    return max((launch for launch in recorded if launch.name == "attend_split"), key=lambda launch: launch.constants)


@pytest.mark.parametrize("capability", [80, 90])
def test_a_spill_is_found(capability: int, recorded: list[Launch]) -> None:
    """The widest attention by one warp has no room for its sums: the check must say so."""
    faulty = replace(widest(recorded), options=(("num_warps", 1), ("num_stages", 2)))
    assert any("registers" in why for why in objections(compiled(faulty, capability), capability))


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
