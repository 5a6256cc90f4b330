"""`auto` on a GPU or a Mac: which engine is taken, where it is compared with the CPU, what happens where one fails."""

import json
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
import torch

from fastcoder_lsp.core.files import read_json
from fastcoder_lsp.engine import EngineOptions, loader, trial
from fastcoder_lsp.engine.architecture import fast_shape
from fastcoder_lsp.engine.foreign import ForeignBackend
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.loader import load_engine
from fastcoder_lsp.engine.static.plan import least_bytes
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.engine.trial import TrialResult, choose_engine, compare, judge
from fastcoder_lsp.errors import ResourceError
from fastcoder_lsp.model.files import ModelFiles
from tests.engine.tiny_models import make_model

KINDS = ("cpu-fp32", "cpu-graphs")


@pytest.fixture
def job(tmp_path: Path) -> LoadJob:
    return job_of(tmp_path, "qwen2")


def job_of(folder: Path, kind: str, **options: Any) -> LoadJob:
    files = ModelFiles("tiny", make_model(folder / kind, kind), "test", "", "digest")
    wanted = EngineOptions(**({"context": 400} | options))
    return LoadJob.of(files, wanted, folder / "cache", folder / "kernels", lambda _share, _what: None)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that counts as idle at once."""
    monkeypatch.setattr(trial, "IDLE_S", 0.02)
    monkeypatch.setattr(trial, "LOOK_S", 0.01)
    monkeypatch.setattr(trial, "BUSY", 100.0)


def finished() -> None:
    for thread in threading.enumerate():
        if thread.name == trial.THREAD:
            thread.join(100)


@pytest.mark.usefixtures("idle")
def test_the_comparison_runs_while_nobody_types_and_once(job: LoadJob) -> None:
    first = choose_engine(job, "machine", kinds=KINDS)
    assert first.chosen == KINDS[0]
    assert "while nobody types" in first.reason
    finished()
    found = choose_engine(job, "machine", kinds=KINDS, command=absent)
    assert len(found.ms) == 4, found.reason
    other = choose_engine(replace(job, digest="other"), "machine", kinds=KINDS, command=absent)
    assert (other.chosen, other.ms) == ("cpu-fp32", {})
    finished()


def absent(_folder: Path) -> list[str]:
    return ["absent"]


def test_no_trial_begins_while_somebody_types(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, begun = list[bool](), list[Path]()
    script = iter([True, False, False, True, False, False, False])

    def busy() -> bool:
        time.sleep(0.1)
        looks.append(next(script, False))
        return looks[-1]

    def command(folder: Path) -> list[str]:
        begun.append(folder)
        code = f"import pathlib; pathlib.Path('outcome.json').write_text({json.dumps(json.dumps(FOUND))})"
        return [sys.executable, "-c", "import time; time.sleep(100)" if len(begun) == 1 else code]

    monkeypatch.setattr(trial, "_busy", busy)
    monkeypatch.setattr(trial, "IDLE_S", 2.0)
    monkeypatch.setattr(trial, "LOOK_S", 1.0)
    choose_engine(job, "machine", kinds=KINDS, command=command)
    finished()
    assert looks[:4] == [True, False, False, True]
    assert len(begun) == 2
    assert choose_engine(job, "machine", kinds=KINDS).chosen == FOUND["chosen"]


FOUND = {"chosen": "cpu-graphs", "reason": "quicker", "ms": {}}


class Card:
    """A GPU of which so many bytes are free; nothing runs on it. `lost`: it fails at every call.

    Loading by `load` is only written down, and fails by the kind as `fails` says.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, free: int = 1 << 33, capability: tuple[int, int] = (8, 6)
    ) -> None:
        self.free, self.kept, self.given_back, self.lost = free, 0, 0, False
        self.tried, self.fails, self._patch = list[str](), dict[str, Exception](), monkeypatch
        monkeypatch.setattr(loader, "_accelerator", lambda: loader.GPU_KIND)
        for name, found in {
            "is_available": lambda: True,
            "mem_get_info": lambda: (self.free, 1 << 34),
            "memory_reserved": lambda: self.kept,
            "memory_allocated": lambda: 0,
            "get_device_name": lambda: "small card",
            "get_device_capability": lambda: capability,
            "synchronize": self._synchronize,
            "empty_cache": self._empty_cache,
        }.items():
            monkeypatch.setattr(torch.cuda, name, found)

    def _synchronize(self) -> None:
        if self.lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def _empty_cache(self) -> None:
        self.given_back += 1

    def load(self, job: LoadJob) -> tuple[str, list[str]]:
        """The kind that is taken, and the notes."""
        self._patch.setattr(loader, "_load", self._load)
        self.tried.clear()
        return cast("tuple[str, list[str]]", load_engine(job))

    def _load(self, _job: LoadJob, _shape: object, kind: str, notes: list[str]) -> TreeEngine:
        self.tried.append(kind)
        if kind in self.fails:
            notes.append("half done")
            raise self.fails[kind]
        return cast("TreeEngine", (kind, notes))


def test_a_model_that_cannot_fit_is_not_tried(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = fast_shape(job.config)
    assert shape is not None
    card = Card(monkeypatch, least_bytes(shape, "int8", 2, own_head=True) + 1)
    kind, notes = card.load(job)
    assert kind == "cpu-int8"
    assert "free on small card" in notes[0]
    assert "cuda-int8" in notes[0]
    card.free = 1 << 33
    assert card.load(job)[0] == "cuda-graphs"


def test_memory_that_torch_keeps_counts_as_free(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of this process that was closed leaves memory with torch's allocator: the next one finds it there."""
    card = Card(monkeypatch, free=1000)
    assert card.load(job)[0] == "cpu-int8"
    card.kept = 1 << 33
    assert card.load(job)[0] == "cuda-graphs"


@pytest.mark.parametrize("kind", ["qwen2", "starcoder2"])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_a_gpu_serves_without_a_trial(
    kind: str, capability: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "choose_engine", lambda *_, **__: pytest.fail("compared"))
    card = Card(monkeypatch, capability=capability)
    assert card.load(job_of(tmp_path, kind))[0] == "cuda-graphs"


def test_a_gpu_without_tensor_cores_for_bfloat16_is_compared_with_the_cpu(
    job: LoadJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, asked = Card(monkeypatch, capability=(7, 5)), list[tuple[str, str]]()
    verdicts = iter([TrialResult("cpu-int8", "not yet", {}), TrialResult("cuda-graphs", "faster here", {})])

    def choose(_job: LoadJob, machine: str, *, kinds: tuple[str, str]) -> TrialResult:
        assert "small card (7, 5)" in machine
        asked.append(kinds)
        return next(verdicts)

    monkeypatch.setattr(loader, "choose_engine", choose)
    assert card.load(job) == ("cpu-int8", ["not yet"])
    assert card.load(job) == ("cuda-graphs", ["faster here"])
    assert asked == [("cpu-int8", "cuda-graphs")] * 2


@pytest.mark.parametrize("chosen", ["cpu-int8", "mps-bf16"])
def test_a_mac_takes_what_the_trial_found(
    chosen: str, job: LoadJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What transformers runs is not compared: it runs on the GPU that is there."""
    card, asked = Card(monkeypatch), list[tuple[str, str]]()

    def choose(_job: LoadJob, machine: str, *, kinds: tuple[str, str]) -> TrialResult:
        asked.append(kinds)
        return TrialResult(chosen, "compared once", {})

    monkeypatch.setattr(loader, "_accelerator", lambda: "mps-bf16")
    monkeypatch.setattr(loader, "choose_engine", choose)
    kind, notes = card.load(job)
    assert (kind, notes[0]) == (chosen, "compared once")
    assert ("MPS is untested" in notes) is (chosen == "mps-bf16")
    assert card.load(job_of(tmp_path, "gpt_neox"))[0] == "mps-bf16"
    assert asked == [("cpu-int8", "mps-bf16")]


@pytest.mark.ci
@pytest.mark.usefixtures("idle")
def test_a_trial_that_ends_without_an_outcome_leaves_the_cpu(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_accelerator", lambda: "mps-bf16")
    engine = load_engine(job)
    finished()
    assert engine.info.name == "cpu-int8"
    assert "mps-bf16" in engine.info.notes[0]
    engine.close()


def test_a_gpu_that_cannot_be_asked_is_left_alone(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has it for itself: the CPU's engine runs, with CUDA's own words."""
    card = Card(monkeypatch, 0)

    def busy() -> tuple[int, int]:
        raise RuntimeError("all CUDA-capable devices are busy\nor unavailable")

    monkeypatch.setattr(torch.cuda, "mem_get_info", busy)
    kind, notes = card.load(job)
    assert kind == "cpu-int8"
    assert notes[0].endswith("devices are busy")


class Weights:
    """Files of a model of which no tensor may be read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __contains__(self, name: str) -> bool:
        return False

    def raw(self, name: str, *_shape: int) -> torch.Tensor:
        raise NotImplementedError(f"{name} is read")


@pytest.mark.parametrize("kind", ["cuda-bf16", "cuda-graphs"])
def test_an_engine_by_name_is_reckoned_before_weights_are_read(
    kind: Any, job: LoadJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.engine.fake_cuda import FakeCuda

    shape = fast_shape(job.config)
    assert shape is not None
    needed = least_bytes(shape, "plain", 2, own_head=False)
    FakeCuda().install(monkeypatch)
    card = Card(monkeypatch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "small card")
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda *_: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda *_: 0)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *_: None)
    monkeypatch.setattr("fastcoder_lsp.engine.weights.open_weights", lambda _folder: Weights())
    named = replace(job, options=replace(job.options, kind=kind))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (needed - 1, 1 << 34))
    with pytest.raises(ResourceError, match="free on small card"):
        load_engine(named)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (needed, 1 << 34))
    with pytest.raises(NotImplementedError, match="is read"):
        load_engine(named)
    assert card.given_back == (kind != "cuda-bf16")


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("kept", ["{}", "[]", '{"attempts": "many"}', '{"chosen": "another"}', "{"])
def test_a_damaged_record_is_no_record(kept: str, job: LoadJob) -> None:
    choose_engine(job, "machine", kinds=KINDS, command=absent)
    finished()
    record = next((job.cache / "tuning").glob("engine-*.json"))
    record.write_text(kept, encoding="utf-8")
    assert choose_engine(job, "machine", kinds=KINDS, command=absent).chosen == "cpu-fp32"
    finished()
    assert read_json(record)["attempts"] == 1
    record.write_text('{"chosen": "cpu-graphs"}', encoding="utf-8")
    assert choose_engine(job, "machine", kinds=KINDS) == TrialResult("cpu-graphs", "", {})


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("code", ["import os; os.abort()", "import time; time.sleep(60)", "raise SystemExit('no')"])
def test_a_trial_that_dies_hangs_or_fails_is_begun_twice(
    code: str, job: LoadJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "SECONDS", 1.0)
    begun = []

    def command(folder: Path) -> list[str]:
        begun.append(folder)
        return [sys.executable, "-c", code]

    for _ in range(4):
        found = choose_engine(job, "machine", kinds=KINDS, command=command)
        finished()
        assert found.chosen == "cpu-fp32"
        assert "cpu-graphs" in found.reason
    assert len(begun) == trial.ATTEMPTS
    assert "failed" in found.reason


def test_a_trials_process_ends_with_the_server(tmp_path: Path) -> None:
    """Its input is a pipe of the server's: where that ends, so does the process, whatever it does."""
    code = "from fastcoder_lsp.engine import trial as t; import threading, time; "
    code += "threading.Thread(target=t._end_with_parent, daemon=True).start(); time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(100) == 0


def test_both_engines_are_timed(job: LoadJob) -> None:
    found = compare(job, KINDS)
    assert set(found.ms) == {f"{kind}, {rows} rows" for kind in KINDS for rows in (1, 16)}


def test_what_takes_longer_is_not_taken() -> None:
    assert judge(KINDS, (2.0, 3.0), (1.0, 1.0)).chosen == "cpu-graphs"
    assert judge(KINDS, (2.0, 3.0), (2.0, 3.0)).chosen == "cpu-fp32"
    told = judge(KINDS, (2.0, 3.0), (1.0, 1.5))
    assert "cpu-graphs, 1 rows 1.00 ms" in told.reason
    assert "cpu-fp32, 1 rows 2.00 ms" in told.reason


BROKEN = ValueError("no kernel image\nis there")


def named(job: LoadJob, kind: str) -> LoadJob:
    return replace(job, options=replace(job.options, kind=cast("Any", kind)))


def test_a_gpu_whose_programs_fail_to_load_is_left_alone(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    card.fails = {"cuda-graphs": BROKEN, "cuda-bf16": ResourceError("too small")}
    kind, notes = card.load(job)
    assert card.tried == ["cuda-graphs", "cuda-bf16", kind] == ["cuda-graphs", "cuda-bf16", "cpu-int8"]
    assert "using cuda-bf16 instead: ValueError: no kernel image" in notes[0]
    assert "using cpu-int8 instead: too small" in notes[1]
    assert "half done" not in notes
    assert card.given_back == 2


def test_a_gpu_engine_that_was_asked_for_says_what_it_lacks(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    card.fails = {"cuda-graphs": ResourceError("too small")}
    with pytest.raises(ResourceError):
        card.load(named(job, "cuda-graphs"))
    card.fails = {"cuda-graphs": BROKEN}
    assert card.load(named(job, "cuda-graphs"))[0] == "cuda-bf16"
    card.fails["cuda-bf16"] = RuntimeError("cuda-bf16")
    with pytest.raises(RuntimeError, match="cuda-bf16"):
        card.load(named(job, "cuda-graphs"))


def test_what_a_failed_load_held_is_given_back(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    card, held, alive = Card(monkeypatch), list[weakref.ref[torch.Tensor]](), list[bool]()

    def load(_job: LoadJob, _shape: object, kind: str, notes: list[str]) -> TreeEngine:
        if kind == "cuda-graphs":
            weights = torch.ones(10)
            held.append(weakref.ref(weights))
            raise ValueError(f"no kernel image for {len(weights)} of them")
        return cast("TreeEngine", (kind, notes))

    monkeypatch.setattr(loader, "_load", load)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(held[0]() is not None))
    assert cast("tuple[str, list[str]]", load_engine(job))[0] == "cuda-bf16"
    assert alive == [False]
    assert not card.lost


def test_a_gpu_that_is_lost_while_loading_is_tried_otherwise_at_the_next_start(
    job: LoadJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card(monkeypatch)
    card.fails = {"cuda-graphs": RuntimeError("CUDA error: an illegal memory access")}
    card.lost = True
    assert card.load(job)[0] == "cpu-int8"
    assert card.tried == ["cuda-graphs", "cpu-int8"]
    card.lost = False
    kind, notes = card.load(job)
    assert (kind, card.tried) == ("cuda-bf16", ["cuda-bf16"])
    assert "illegal memory access" in notes[0]
    later = time.time() + trial.REMEMBERED_S + 1
    monkeypatch.setattr(trial, "time", SimpleNamespace(time=lambda: later))
    card.fails = {}
    assert card.load(job)[0] == "cuda-graphs"


@pytest.mark.parametrize("kept", ["[]", "{", '{"cuda-graphs": 3}', '{"cuda-graphs": {"time": "now"}}'])
def test_a_damaged_record_of_faults_is_none(kept: str, job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    card, faults = Card(monkeypatch), trial.gpu_faults(job.cache)
    faults.path.parent.mkdir(parents=True)
    faults.path.write_text(kept, encoding="utf-8")
    assert card.load(job)[0] == "cuda-graphs"


def test_cudnns_attention_is_off_for_every_engine_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For models that transformers runs, too: cuDNN would make a plan for each length of the text."""
    Card(monkeypatch)
    said = list[bool]()
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", said.append)
    monkeypatch.setattr(loader, "_build", lambda *_: pytest.fail("built before it was off") if not said else BACKEND)
    engine = load_engine(named(job_of(tmp_path, "gpt_neox"), "cuda-bf16"))
    assert (said, engine.info.name) == ([False], "cuda-bf16 transformers")


def test_a_lost_gpu_ends_the_process_of_a_model_that_transformers_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every later call would fail; running out of memory, or a wrong argument, is no such error."""
    card, ended = Card(monkeypatch), list[tuple[str, str]]()
    monkeypatch.setattr(trial.GpuFaults, "end", lambda _faults, *how: ended.append(how))
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, _device: module)
    monkeypatch.setattr(ForeignBackend, "_can_cut", lambda _backend: True)
    engine = load_engine(named(job_of(tmp_path, "gpt_neox"), "cuda-bf16"))
    assert isinstance(engine.backend, ForeignBackend)
    for lost, error in (
        (False, RuntimeError("CUDA error: invalid argument")),
        (True, torch.OutOfMemoryError("out of memory")),
        (True, RuntimeError("CUDA error: an illegal memory access\nand more")),
    ):
        card.lost = lost
        monkeypatch.setattr(engine.backend, "_run", raising(error))
        with pytest.raises(RuntimeError):
            engine.prefill([1, 2, 3], lambda: False)
    assert ended == [("cuda-bf16", "CUDA error: an illegal memory access")]


def raising(error: Exception) -> Callable[..., object]:
    def fail(*_given: object) -> object:
        raise error

    return fail


BACKEND = SimpleNamespace(name="cuda-bf16 transformers", device="cuda", vocabulary=8, capacity=1 << 20)
