"""`auto` on a GPU: the graph engine is compared with the eager one once, and taken where it says the same, sooner."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import torch

from fastcoder_lsp.engine import loader, trial
from fastcoder_lsp.engine.architecture import graph_shape
from fastcoder_lsp.engine.job import Job, prepare
from fastcoder_lsp.engine.loader import load_engine
from fastcoder_lsp.engine.options import EngineOptions
from fastcoder_lsp.engine.static.memory import least_bytes
from fastcoder_lsp.engine.static.plan import LEAST_CONTEXT
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.engine.trial import Verdict, choose_engine, read_json
from fastcoder_lsp.engine.trial_process import Said, compare, judge
from fastcoder_lsp.errors import ModelInvalidError, ResourceError
from tests.engine.tiny_models import make_model

KINDS = ("cpu-fp32", "cpu-graphs")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A tiny model."""
    folder = make_model(tmp_path / "model", "qwen2")
    return prepare(
        folder,
        "tiny",
        "test",
        "digest",
        options=EngineOptions(context=400),
        cache=tmp_path / "cache",
        kernels=tmp_path / "kernels",
        progress=lambda _share, _what: None,
        enter=lambda _stage: None,
    )


def test_the_comparison_runs_in_a_process_of_its_own_and_once(job: Job) -> None:
    """Both engines are loaded and heard there; what it found is remembered, and another model's is not this one's."""
    found = choose_engine(job, "machine", kinds=KINDS)
    assert found.chosen in KINDS
    assert len(found.ms) == 4, found.reason
    assert choose_engine(job, "machine", kinds=KINDS, command=lambda _folder: ["absent"]) == found
    other = choose_engine(replace(job, digest="other"), "machine", kinds=KINDS, command=lambda _folder: ["absent"])
    assert (other.chosen, other.ms) == ("cpu-fp32", {})


class Card:
    """A GPU of which so many bytes are free; nothing runs on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        self.free = free
        self.tried = list[str]()
        monkeypatch.setattr(loader, "_accelerator", lambda: loader.GPU_KIND)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (self.free, 1 << 34))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "small card")

    def note(self, job: Job, _shape: object, kind: str, notes: list[str]) -> TreeEngine:
        """Stands in for loading: what was asked for, and the notes."""
        self.tried.append(kind)
        return cast("TreeEngine", (kind, notes))


def test_a_model_that_cannot_fit_is_not_tried(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is loaded it is said what is needed, what is free, and what would fit; the CPU's engine runs."""
    shape = graph_shape(job.config)
    assert shape is not None
    card = Card(monkeypatch, least_bytes(shape, "int8", 2, own_head=True) + 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6))
    compared = list[Job]()

    def compared_once(job: Job, _machine: str) -> Verdict:
        compared.append(job)
        return Verdict("cuda-graphs", "", {})

    monkeypatch.setattr(loader, "_load", card.note)
    monkeypatch.setattr(loader, "choose_engine", compared_once)
    _, notes = cast("tuple[str, list[str]]", load_engine(job))
    assert (card.tried, compared) == (["cpu-int8"], [])
    assert "free on small card" in notes[0]
    assert "cuda-int8" in notes[0]
    card.free = 1 << 33
    load_engine(job)
    assert (card.tried, compared) == (["cpu-int8", "cuda-graphs"], [job])


def test_a_gpu_that_cannot_be_asked_is_left_alone(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has it for itself: the CPU's engine runs, with CUDA's own words."""
    card = Card(monkeypatch, 0)

    def busy() -> tuple[int, int]:
        raise RuntimeError("all CUDA-capable devices are busy\nor unavailable")

    monkeypatch.setattr(torch.cuda, "mem_get_info", busy)
    monkeypatch.setattr(loader, "_load", card.note)
    _, notes = cast("tuple[str, list[str]]", load_engine(job))
    assert card.tried == ["cpu-int8"]
    assert notes[0].endswith("devices are busy")


def test_the_eager_engine_is_reckoned_before_it_is_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by name on a card that has no room: no weight is opened, and sizes are said, the whole cache's too."""
    shape = graph_shape(job.config)
    assert shape is not None
    card = Card(monkeypatch, least_bytes(shape, "plain", 2, own_head=True))
    opened = list[Path]()

    def unreadable(folder: Path) -> object:
        opened.append(folder)
        raise ModelInvalidError("opened")

    monkeypatch.setattr("fastcoder_lsp.engine.weights.open_weights", unreadable)
    named = replace(job, options=replace(job.options, kind="cuda-bf16", context=600))
    needed = card.free + (named.capacity - LEAST_CONTEXT) * shape.slot_numbers * 2
    card.free = needed - 1
    with pytest.raises(ResourceError, match="free on small card"):
        load_engine(named)
    assert opened == []
    card.free = needed
    with pytest.raises(ModelInvalidError, match="opened"):
        load_engine(named)
    assert opened == [named.folder]


@pytest.mark.parametrize("kept", ["{}", "[]", '{"attempts": "many"}', '{"chosen": "another"}', "{"])
def test_a_damaged_record_is_no_record(kept: str, job: Job) -> None:
    """Whatever is in it, a trial is begun; a verdict without its reason is one all the same."""
    choose_engine(job, "machine", kinds=KINDS, command=lambda _folder: [sys.executable, "-c", ""])
    record = next((job.cache / "tuning").glob("engine-*.json"))
    record.write_text(kept, encoding="utf-8")
    assert choose_engine(job, "machine", kinds=KINDS, command=lambda _folder: ["absent"]).chosen == "cpu-fp32"
    assert read_json(record)["attempts"] == 1
    record.write_text('{"chosen": "cpu-graphs"}', encoding="utf-8")
    assert choose_engine(job, "machine", kinds=KINDS) == Verdict("cpu-graphs", "", {})


@pytest.mark.parametrize("code", ["import os; os.abort()", "import time; time.sleep(60)", "raise SystemExit('no')"])
def test_a_trial_that_dies_hangs_or_fails_costs_two_starts(
    code: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eager engine is taken, with a note; after the second time no trial is begun."""
    monkeypatch.setattr(trial, "SECONDS", 2.0)
    begun = []

    def command(folder: Path) -> list[str]:
        begun.append(folder)
        return [sys.executable, "-c", code]

    for _ in range(4):
        found = choose_engine(job, "machine", kinds=KINDS, command=command)
        assert found.chosen == "cpu-fp32"
        assert "cpu-graphs" in found.reason
    assert len(begun) == trial.ATTEMPTS


def test_the_same_model_says_the_same(job: Job) -> None:
    """Token by token and in a tree, the graph engine's programs on the CPU agree with the eager engine."""
    found = compare(job, KINDS)
    assert "other tokens" not in found.reason
    assert "fewer" not in found.reason


def test_what_says_something_else_or_takes_longer_is_not_taken() -> None:
    """A difference counts where the two best logits are apart; ties do not; equal or more time is no gain."""
    plain = Said((1, 2, 3), (4.0, 0.1, 4.0), 15, (2.0, 3.0))
    quick = replace(plain, ms=(1.0, 1.0))
    assert judge(KINDS, plain, quick).chosen == "cpu-graphs"
    assert judge(KINDS, plain, replace(quick, tokens=(1, 9, 3))).chosen == "cpu-graphs"
    assert judge(KINDS, plain, replace(quick, tokens=(9, 2, 3))).chosen == "cpu-fp32"
    assert judge(KINDS, plain, replace(quick, accepted=3)).chosen == "cpu-fp32"
    assert judge(KINDS, plain, plain).chosen == "cpu-fp32"


@pytest.mark.ci
def test_a_gpu_whose_programs_fail_to_load_is_left_alone(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` falls back to the eager engine, then to the CPU's, and the notes say what failed and what runs."""
    real, tried = loader._load, list[str]()

    def fail(job: Job, shape: object, kind: str, notes: list[str]) -> object:
        tried.append(kind)
        if kind.startswith("cuda"):
            notes.append("half done")
            raise {"cuda-graphs": ValueError("no kernel image\nis there"), "cuda-bf16": ResourceError("too small")}[
                kind
            ]
        return real(job, shape, kind, notes)  # type: ignore[arg-type]

    monkeypatch.setattr(loader, "_load", fail)
    monkeypatch.setattr(loader, "_accelerator", lambda: "cuda-bf16")
    monkeypatch.setattr(loader, "_tried", lambda _job: ("cuda-graphs", ["compared"]))
    engine = load_engine(job)
    assert tried == ["cuda-graphs", "cuda-bf16", "cpu-int8"]
    assert engine.info.name == "cpu-int8"
    first, second = engine.info.notes[1:3]
    assert "using cuda-bf16 instead: ValueError: no kernel image" in first
    assert "using cpu-int8 instead: too small" in second
    assert "half done" not in engine.info.notes


def test_a_gpu_engine_that_was_asked_for_says_what_it_lacks(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little memory for an engine that the user named is an error; a program that fails costs speed alone."""
    failures: dict[str, Exception] = {"cuda-graphs": ResourceError("too small")}

    def fail(_job: Job, _shape: object, kind: str, _notes: list[str]) -> object:
        raise failures.get(kind, RuntimeError(kind))

    monkeypatch.setattr(loader, "_load", fail)
    monkeypatch.setattr(loader, "_require_device", lambda _kind: None)
    named = replace(job, options=replace(job.options, kind="cuda-graphs"))
    with pytest.raises(ResourceError):
        load_engine(named)
    failures["cuda-graphs"] = ValueError("broken")
    with pytest.raises(RuntimeError, match="cuda-bf16"):
        load_engine(named)


def test_a_verdict_is_told() -> None:
    """The reason names the engine and both times."""
    told = judge(KINDS, Said((), (), 0, (2.0, 3.0)), Said((), (), 0, (1.0, 1.5)))
    assert isinstance(told, Verdict)
    assert "cpu-graphs, 1 rows 1.00 ms" in told.reason
    assert "cpu-fp32, 1 rows 2.00 ms" in told.reason
