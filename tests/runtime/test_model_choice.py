"""Measuring before choosing, the offer of a larger model, and the first hour: with made-up times and clocks."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from fastcoder_lsp.cli.doctor.model import check_choice
from fastcoder_lsp.config import Settings, kernels_folder
from fastcoder_lsp.engine import loader
from fastcoder_lsp.engine import speeds as timing
from fastcoder_lsp.engine.architecture import fast_shape
from fastcoder_lsp.kernels.cache import current_version
from fastcoder_lsp.model import choice as rule
from fastcoder_lsp.model.catalogue import BITS, FAMILY
from fastcoder_lsp.model.choice import Measured, current_choice
from fastcoder_lsp.runtime import model_choice
from fastcoder_lsp.runtime.model_choice import bits_by_choice, chosen_model, measure_once
from fastcoder_lsp.torch_engines import loader as torch_loader
from tests.engine.test_trial import job_of
from tests.model.test_choice import GB, measured, said

SMALL, NEXT = FAMILY[0].hub_id, FAMILY[1].hub_id


def quiet(_share: float, _what: str) -> None:
    pass


class Measuring:
    """Gives the times of the smallest size in eight bits; `asked`: the bits, in order."""

    def __init__(self, times: Measured) -> None:
        self.times, self.asked = times, list[int]()

    def __call__(self, bits: int, threads: int, *_: object) -> Measured:
        self.asked.append(bits)
        times = replace(self.times, bits=bits, speed=self.times.speeds[SMALL, bits])
        return replace(times, threads=threads, kernels=current_version())


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Measuring]:
    """Make this machine one of such times in eight bits."""

    def become(step_ms: float, prompt_ms: float, *, grouped: bool = False) -> Measuring:
        measuring = Measuring(measured(step_ms, prompt_ms, grouped=grouped))
        monkeypatch.setattr(timing, "measure", measuring)
        monkeypatch.setattr(model_choice, "usable_gpu_bytes", lambda: 0)
        monkeypatch.setattr(rule, "installed_bytes", lambda: 16 * GB)
        monkeypatch.setattr(rule, "available_bytes", lambda: 12 * GB)
        return measuring

    return become


def test_a_machine_is_measured_once(
    tmp_path: Path, on: Callable[..., Measuring], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the precision that is in use first, and again on mains power; not where a GPU decides."""
    measuring = on(12, 250)
    assert said(chosen_model(tmp_path, quiet, gpu_bytes=8 << 30)) == "7B int4"
    for battery, bits, asked in ((True, 4, 1), (True, 8, 1), (False, 8, 2), (False, 4, 2), (True, 4, 2)):
        monkeypatch.setattr(rule, "on_battery", lambda battery=battery: battery)
        measuring.times = replace(measuring.times, battery=battery)
        assert said(chosen_model(tmp_path, quiet, bits=bits)) == "1.5B int4"
        assert len(measuring.asked) == asked
    chosen_model(tmp_path, quiet, threads=3)
    assert measuring.asked == [4, 8, 8]


@pytest.mark.parametrize(
    ("prompt_ms", "state", "text"),
    [
        (400, "ok", "`auto` chooses Qwen2.5-Coder-0.5B in int8: 24 ms a token, a prompt of 400 tokens in 0.4 s, "),
        (1400, "note", "no size keeps all limits: a prompt of 400 tokens takes 1.4 s (limit 1.0)"),
        (None, "note", "nothing could be timed"),
    ],
)
def test_doctor_says_a_sentence(
    tmp_path: Path,
    on: Callable[..., Measuring],
    monkeypatch: pytest.MonkeyPatch,
    prompt_ms: float | None,
    state: str,
    text: str,
) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path))
    on(24, prompt_ms or 400)
    if prompt_ms is None:
        monkeypatch.setattr(timing, "measure", Mock(side_effect=(MemoryError, None)))
        assert said(chosen_model(tmp_path, quiet)) == "0.5B int8"
    [check] = check_choice(Settings())
    assert text in check.text
    assert "\n" not in check.text
    assert check.state == state


@pytest.mark.parametrize(
    ("clock_s", "worked_s", "ms"),
    [(0.5, 0.044, 22.0), (0.02, 0.044, 20.0), (0.01, 0.0, 10.0)],
    ids=["busy machine", "idle machine", "coarse clock"],
)
def test_other_programs_hardly_change_a_time(
    monkeypatch: pytest.MonkeyPatch, clock_s: float, worked_s: float, ms: float
) -> None:
    """A pass of two threads."""
    monkeypatch.setattr(timing, "usable_cores", lambda: 2)
    monkeypatch.setattr(os, "name", "posix")
    monkeypatch.setattr(time, "perf_counter", Mock(side_effect=(1.0, 1.0 + clock_s)))
    monkeypatch.setattr(time, "process_time", Mock(side_effect=(3.0, 3.0 + worked_s)))
    assert timing.pass_ms(Mock(threads=2), 1) == pytest.approx(ms)


@pytest.mark.parametrize("bits", BITS)
def test_by_the_real_kernels_all_sizes_have_times(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(timing, "available_bytes", lambda: 1 << 20)  # memory is scarce
    monkeypatch.setattr(timing, "SECONDS", 0.0)
    found = timing.measure(bits, 2, kernels_folder(), quiet)
    assert found is not None
    assert found.bits == bits
    assert found.speed.prompt_ms > found.speed.step_ms
    steps = [found.speeds[size.hub_id, bits].step_ms for size in FAMILY]
    assert steps == sorted(steps)


def test_the_engine_runs_the_precision_that_was_chosen(tmp_path: Path, on: Callable[..., Measuring]) -> None:
    on(12, 250)
    assert current_choice(tmp_path, 0).hub_ids == (SMALL,)
    chosen_model(tmp_path, quiet)
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


def test_a_start_compiles_no_pass_to_measure_it(tmp_path: Path, on: Callable[..., Measuring]) -> None:
    """The precision in use is timed, and nothing where the model in use has other heads than the slices."""
    measuring = on(16, 400)
    for engine in ("cpu-int8", "cpu-int4", "cuda-int4"):
        measure_once(Settings(), SMALL, engine, tmp_path / engine, 0, quiet)
        measure_once(Settings(), NEXT, engine, tmp_path / "other", 0, quiet)
    assert measuring.asked == [8, 4]
