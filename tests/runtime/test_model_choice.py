"""Measuring before choosing, the offer of a larger model, and the first hour: with made-up times and clocks."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fastcoder_lsp.cli.doctor.model import check_choice
from fastcoder_lsp.config import Settings, kernels_folder
from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.engine import loader
from fastcoder_lsp.engine import speeds as timing
from fastcoder_lsp.engine.architecture import fast_shape
from fastcoder_lsp.engine.int8 import dot
from fastcoder_lsp.engine.speeds import Timed, measure_speeds
from fastcoder_lsp.model import choice as rule
from fastcoder_lsp.model.catalogue import FAMILY
from fastcoder_lsp.model.choice import Speed, read_measured
from fastcoder_lsp.runtime import model_choice
from fastcoder_lsp.runtime.model_choice import bits_by_choice, chosen_model, measure_once
from fastcoder_lsp.torch_engines import loader as torch_loader
from tests.model.test_choice import CLASSES, machine, said
from tests.torch_engines.test_trial import job_of

SMALL, NEXT = FAMILY[0].hub_id, FAMILY[1].hub_id
COSTS = StepCosts((1, 8), (10.0, 15.0), 1.0)


def quiet(_share: float, _what: str) -> None:
    pass


class Measuring:
    """Gives the times of a class of machines; `asked`: the bits, in order."""

    def __init__(self, number: int) -> None:
        self.facts, self.asked, self.disturbed = machine(*CLASSES[number][1:4]), list[int](), False

    def __call__(self, _sizes: object, bits: int, *_: object) -> Timed:
        self.asked.append(bits)
        return Timed({key: speed for key, speed in self.facts.speeds.items() if key[1] == bits}, self.disturbed)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Measuring]:
    """Make this machine one of a class."""

    def become(number: int) -> Measuring:
        measuring = Measuring(number)
        monkeypatch.setattr(timing, "measure_speeds", measuring)
        monkeypatch.setattr(dot, "kinds_here", lambda: (dot.VNNI_256, dot.PLAIN))
        for module in (rule, model_choice):
            monkeypatch.setattr(module, "installed_bytes", lambda: measuring.facts.installed)
            monkeypatch.setattr(module, "available_bytes", lambda: measuring.facts.free)
        return measuring

    return become


@pytest.mark.parametrize("number", range(len(CLASSES)), ids=[c[0] for c in CLASSES])
def test_four_bits_are_measured_only_where_they_may_decide(
    tmp_path: Path, on: Callable[[int], Measuring], number: int
) -> None:
    measuring = on(number)
    found = chosen_model(tmp_path, quiet, gpu_bytes=0)
    assert said(found) == CLASSES[number][4]
    # On two cores with AMX the 1.5B's prompt is quick enough, and four bits miss the step's limit by a fifth.
    assert measuring.asked == ([8, 4] if number in (1, 4, 12) else [8])
    assert chosen_model(tmp_path, quiet, gpu_bytes=0).chosen == found.chosen
    chosen_model(tmp_path, quiet, gpu_bytes=0, every=True)
    chosen_model(tmp_path, quiet, gpu_bytes=0, every=True)
    assert measuring.asked == [8, 4]
    chosen_model(tmp_path, quiet, gpu_bytes=0, every=True, threads=3)
    assert measuring.asked == [8, 4, 8, 4]


def test_avx2_takes_four_bits_where_eight_are_too_slow(
    tmp_path: Path, on: Callable[[int], Measuring], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cores of AVX2: eight bits miss the prompt's limit, so four are measured, and the choice says why."""
    speeds = {(SMALL, 8): Speed(17.0, 1300.0), (SMALL, 4): Speed(11.0, 650.0)}
    for kind, asked, expected in ((dot.VNNI_256, [8], "0.5B int8"), (dot.AVX2, [8, 4], "0.5B int4")):
        measuring = on(0)
        measuring.facts = replace(measuring.facts, speeds=speeds)
        monkeypatch.setattr(dot, "kinds_here", lambda kind=kind: (kind, dot.PLAIN))
        found = chosen_model(tmp_path / kind.name, quiet, gpu_bytes=0)
        assert measuring.asked == asked
        assert said(found) == expected
    assert "Not in int8: a prompt of 400 tokens takes 1.3 s (limit 1.0)." in found.reason


def test_a_gpu_that_has_room_decides_without_times(tmp_path: Path, on: Callable[[int], Measuring]) -> None:
    measuring = on(0)
    assert said(chosen_model(tmp_path, quiet, gpu_bytes=8 << 30)) == "7B int4"
    assert not measuring.asked


def test_a_busy_machine_is_measured_again_and_the_least_counts(tmp_path: Path, on: Callable[[int], Measuring]) -> None:
    measuring = on(0)
    measuring.disturbed = True
    for _ in range(5):
        chosen_model(tmp_path, quiet, gpu_bytes=0)
        measuring.facts = replace(measuring.facts, speeds={k: Speed(9e3, 9e3) for k in measuring.facts.speeds})
    assert measuring.asked == [8] * rule.MOST_TRIES
    measured = read_measured(tmp_path)
    assert measured is not None
    assert measured.speeds[SMALL, 8].step_ms == 24.0


def test_the_first_times_of_a_busy_machine_change_no_precision(tmp_path: Path, on: Callable[[int], Measuring]) -> None:
    """Other weights take a minute to make: three times in a row call for them, or one on a quiet machine."""
    measuring = on(4)
    measuring.disturbed = True
    for bits in (None, None, 4):
        chosen_model(tmp_path, quiet, gpu_bytes=0, every=True)
        assert bits_by_choice(Settings(), NEXT, tmp_path, 0) == bits


def test_doctor_says_that_busy_times_change_no_precision(
    tmp_path: Path, on: Callable[[int], Measuring], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would name a precision that the model does not run in, without a reason."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    monkeypatch.setattr(model_choice, "usable_gpu_bytes", lambda: 0)
    measuring = on(4)
    measuring.disturbed = True
    for provisional in (True, True, False):
        [check] = check_choice(Settings())
        assert "in int4" in check.text
        assert ("the model stays in int8 until they are repeated" in check.text) is provisional


@pytest.mark.parametrize(("used_s", "busy"), [(1.9, False), (1.2, True)])
def test_other_programs_that_have_the_cores_are_noticed(
    monkeypatch: pytest.MonkeyPatch, used_s: float, busy: bool
) -> None:
    """Two threads that could compute for two seconds."""
    monkeypatch.setattr(time, "perf_counter", lambda: 11.0)
    monkeypatch.setattr(time, "process_time", lambda: 5.0 + used_s)
    assert model_choice.is_disturbed(10.0, 5.0, 2) is busy


def test_on_a_busy_machine_the_threads_work_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes of 20 ms for each of two threads, which waited for the cores."""
    now, used = iter((0.0, 0.5, 1.0, 1.2)), iter((0.0, 0.044, 1.0, 1.04, 2.0, 2.0))
    monkeypatch.setattr(time, "process_time", lambda: next(used))
    times, backend = timing._Times(), Mock()
    for _ in range(2):
        times.take(backend, 1, lambda: next(now))
    assert (times.least(0), times.least(2)) == pytest.approx((200.0, 20.0))
    coarse = timing._Times()
    coarse.take(backend, 1, iter((0.0, 0.01)).__next__)
    assert coarse.least(2) == pytest.approx(10.0)


def test_a_failure_to_measure_leaves_the_smallest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Timed:
        raise MemoryError

    monkeypatch.setattr(timing, "measure_speeds", fail)
    assert said(chosen_model(tmp_path, quiet, gpu_bytes=0)) == "0.5B int8"


def test_by_the_real_kernels_every_size_has_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that ticks at each look; where memory is scarce, large sizes are reckoned by their weights."""
    clock = iter(range(10**6))
    monkeypatch.setattr(timing, "STEP_BYTES", 1 << 26)
    found = measure_speeds(FAMILY, 8, 2, kernels_folder(), quiet, lambda: float(next(clock)))
    assert set(found.speeds) == {(size.hub_id, 8) for size in FAMILY}
    steps = [found.speeds[size.hub_id, 8].step_ms for size in FAMILY]
    assert steps == sorted(steps)


def test_the_engine_runs_the_precision_that_was_chosen(tmp_path: Path, on: Callable[[int], Measuring]) -> None:
    on(4)
    chosen_model(tmp_path, quiet, gpu_bytes=0)
    assert bits_by_choice(Settings(), NEXT, tmp_path, 0) == 4
    assert bits_by_choice(Settings(), SMALL, tmp_path, 0) is None
    assert bits_by_choice(Settings(engine="cpu-int8"), NEXT, tmp_path, 0) is None
    assert bits_by_choice(Settings(model=NEXT), NEXT, tmp_path, 0) is None


@pytest.mark.parametrize(
    ("device", "kinds"),
    [
        (None, {None: "cpu-int8", 8: "cpu-int8", 4: "cpu-int4"}),
        ("cuda-graphs", {None: "cuda-graphs", 8: "cuda-int8", 4: "cuda-int4"}),
    ],
)
def test_the_engine_auto_follows_on_a_cpu_and_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str | None, kinds: dict[int | None, str]
) -> None:
    monkeypatch.setattr(torch_loader, "_accelerator", lambda: device)
    monkeypatch.setattr(loader, "against_ours", lambda *_: None)
    monkeypatch.setattr("fastcoder_lsp.torch_engines.graphs.plan.lacking_room", lambda _job: None)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: (8, 0))
    for bits, kind in kinds.items():
        job = job_of(tmp_path / str(bits), "qwen2", bits=bits)
        shape = fast_shape(job.config)
        assert shape is not None
        assert (torch_loader._chosen(job, shape, "auto", []) or loader._own_kind(job, shape, [])) == kind


@pytest.mark.parametrize(("engine", "hub_id", "asked"), [("cpu-int8", SMALL, [8]), ("cpu-int4", SMALL, [4])])
def test_a_start_compiles_no_pass_to_measure_it(
    tmp_path: Path, on: Callable[[int], Measuring], engine: str, hub_id: str, asked: list[int]
) -> None:
    """Only the precision in use is timed, and nothing where the model in use has other heads than the slices."""
    measuring = on(3)  # where four bits may decide
    measure_once(Settings(), hub_id, engine, tmp_path, 0, quiet)
    measure_once(Settings(), NEXT, engine, tmp_path / "other", 0, quiet)
    assert measuring.asked == asked
