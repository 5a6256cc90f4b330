"""Distillation and Medusa-2: an ordinary model comes out, and heads that draft for it alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.decode.loop import decode
from fastcoder_lsp.draft.base import NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model.drafter_files import WEIGHTS, DrafterRecord, open_drafter
from fastcoder_lsp.model.files import read_record
from fastcoder_lsp.train import session
from fastcoder_lsp.train.distill import DistillSettings
from fastcoder_lsp.train.drafters import JointSession
from fastcoder_lsp.train.medusa import JointLesson, MedusaSettings
from fastcoder_lsp.train.options import RequestedOptions, SampleOptions
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.samples import shape_of
from fastcoder_lsp.train.session import Listener, Result, TrainingJob
from fastcoder_lsp.train.tuning import DistillSession
from tests.train.conftest import Speaker, aside
from tests.train.test_training import engine_of, requests

pytestmark = pytest.mark.ci


def test_a_student_learns_what_the_model_says(speaker: Speaker, tmp_path: Path) -> None:
    """Stopped and gone on with: to the bit the weights of one run; the divergence falls; an ordinary model comes out.

    The student is the model itself, spoilt: so that what it has to learn is known to be learnable.
    """
    shutil.copytree(speaker.folder, tmp_path / "spoilt")
    weights = load_file(tmp_path / "spoilt" / "model.safetensors")
    torch.manual_seed(5)
    for name in weights:
        if "mlp" in name:
            weights[name] = weights[name] + 0.05 * torch.randn_like(weights[name])
    save_file(weights, tmp_path / "spoilt" / "model.safetensors", metadata={"format": "pt"})

    def go_on(out: Path, steps: int | None = None) -> Result:
        made: list[int] = []
        job = TrainingJob(
            model=str(speaker.folder),
            data=(str(speaker.texts),),
            out=out,
            asked=RequestedOptions(tuning="full", steps=40, length=64, batch=2, rate=1e-3, precision="fp32"),
            own=DistillSettings(str(tmp_path / "spoilt"), said=24),
            collected=SampleOptions(samples=32),
        )
        listener = Listener(lambda _: None, lambda _done, _wanted: None, lambda status: made.append(status.step))
        return DistillSession(job, speaker.cache, lambda: steps is not None and len(made) >= steps, listener).run()

    whole = go_on(tmp_path / "whole")
    assert not go_on(tmp_path / "parts", 3).outcome.finished
    parts = go_on(tmp_path / "parts")
    left, right = (load_file(result.folder / "model.safetensors") for result in (whole, parts))
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert whole.record is not None
    assert whole.record.method == "distill"
    figures = whole.record.figures
    assert figures["held_out_divergence_last"] < 0.5 * figures["held_out_divergence_first"]
    assert models.find(str(whole.folder), speaker.cache).folder == whole.folder


def test_a_time_is_kept_to(speaker: Speaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, made = list[str](), list[int]()

    def go_on(out: Path) -> None:
        job = TrainingJob(
            model=str(speaker.folder),
            data=(str(speaker.texts),),
            out=out,
            asked=RequestedOptions(tuning="full", length=64, batch=2, rate=1e-3, precision="fp32", max_minutes=10),
            own=DistillSettings(str(speaker.folder), said=24),
            collected=SampleOptions(samples=32),
        )
        listener = Listener(notes.append, lambda _done, _wanted: None, lambda status: made.append(status.step))
        DistillSession(job, speaker.cache, lambda: len(made) >= 2, listener).run()

    go_on(tmp_path / "run")
    plan = RunFolder(tmp_path / "run").plan()
    assert plan["samples"] == 32
    assert any(f"{plan['steps']} steps fit" in note for note in notes)
    made.clear()
    monkeypatch.setattr(session, "SHARE", 0.0)
    with pytest.raises(UsageError, match="collected nothing within"):
        go_on(tmp_path / "other")


def test_the_next_student_learns_what_the_ones_before_it_miss(speaker: Speaker, tmp_path: Path) -> None:
    """Where one of them says all that the target says nothing is left to learn; where it knows nothing, all is."""
    spoilt = tmp_path / "spoilt"
    shutil.copytree(speaker.folder, spoilt)
    weights = load_file(spoilt / "model.safetensors")
    torch.manual_seed(6)
    noisy = {name: torch.randn_like(value) * value.std() for name, value in weights.items()}
    save_file(noisy, spoilt / "model.safetensors", metadata={"format": "pt"})

    def go_on(name: str, *boost: Path) -> Result:
        job = TrainingJob(
            model=str(speaker.folder),
            data=(str(speaker.texts),),
            out=tmp_path / name,
            asked=RequestedOptions(tuning="full", steps=3, length=64, batch=2, rate=1e-3, precision="fp32"),
            own=DistillSettings(str(spoilt), said=24, boost=tuple(map(str, boost))),
            collected=SampleOptions(samples=8),
        )
        listener = Listener(lambda _: None, lambda *_: None, lambda _: None)
        return DistillSession(job, speaker.cache, lambda: False, listener).run()

    alone, behind_nobody, behind_all = go_on("alone"), go_on("nobody", spoilt), go_on("all", spoilt, speaker.folder)
    figures = [result.record.figures for result in (alone, behind_nobody, behind_all) if result.record is not None]
    first = [found["held_out_divergence_first"] for found in figures]
    assert first[1] == pytest.approx(first[0], rel=0.2)
    assert first[2] < 0.2 * first[0]  # but for what int8 says otherwise
    with pytest.raises(UsageError, match="another run"):
        go_on("alone", spoilt)


def go(speaker: Speaker, out: Path, steps: int | None = None) -> Result:
    """Train ten steps by LoRA, stopped after `steps` where that is given."""
    made: list[int] = []
    job = TrainingJob(
        model=str(speaker.folder),
        data=(str(speaker.texts),),
        out=out,
        asked=RequestedOptions(tuning="lora", steps=10, length=64, batch=2, rate=1e-3, precision="fp32"),
        own=MedusaSettings(heads=2),
    )
    listener = Listener(lambda _: None, lambda _done, _wanted: None, lambda status: made.append(status.step))
    return JointSession(job, speaker.cache, lambda: steps is not None and len(made) >= steps, listener).run()


def test_an_interrupted_run_ends_at_the_same_weights(speaker: Speaker, tmp_path: Path) -> None:
    whole = go(speaker, tmp_path / "whole")
    for steps in (1, 3):
        assert not go(speaker, tmp_path / "parts", steps).outcome.finished
    go(speaker, tmp_path / "parts")
    for name in (f"drafter/{WEIGHTS}", "model/model.safetensors"):
        left, right = (load_file(tmp_path / run / name) for run in ("whole", "parts"))
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)
    assert (tmp_path / "whole/losses.jsonl").read_text() == (tmp_path / "parts/losses.jsonl").read_text()
    assert whole.record is not None
    assert whole.record.figures["identical"] == 1.0


def test_a_plan_by_the_clock_is_kept(speaker: Speaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[int] = []

    def time_step(lesson: JointLesson) -> float:
        alone.append(lesson._alone)
        return 2500.0

    monkeypatch.setattr(session, "time_step", time_step)
    asked = RequestedOptions(tuning="lora", length=64, batch=2, precision="fp32", max_minutes=600.0)
    job = TrainingJob(str(speaker.folder), (str(speaker.texts),), tmp_path, asked, MedusaSettings(heads=2))
    made: list[int] = []
    listener = Listener(lambda _: None, lambda _done, _wanted: None, lambda status: made.append(status.step))
    assert not JointSession(job, speaker.cache, lambda: bool(made), listener).run().outcome.finished
    job = replace(job, asked=replace(asked, max_minutes=None))
    outcome = JointSession(job, speaker.cache, lambda: False, listener).run().outcome
    assert outcome.finished
    assert outcome.step == 12
    assert alone == [0]


def test_one_text_is_enough(speaker: Speaker, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "all.py").write_text("".join(path.read_text() for path in sorted(speaker.texts.iterdir())))
    job = TrainingJob(
        model=str(speaker.folder),
        data=(str(texts),),
        out=tmp_path / "out",
        asked=RequestedOptions(tuning="full", steps=3, length=64, batch=2, rate=1e-2, precision="fp32"),
        own=MedusaSettings(heads=2),
    )
    listener = Listener(lambda _: None, lambda _done, _wanted: None, lambda _: None)
    record = JointSession(job, speaker.cache, lambda: False, listener).run().record
    assert isinstance(record, DrafterRecord)
    assert "ranks" not in record.lists
    learnt = load_file(tmp_path / "out/drafter" / WEIGHTS)
    with open_weights(speaker.folder) as weights:
        head_VE = weights.head(shape_of(speaker.folder)).float()
    assert torch.equal(learnt["head"].float(), head_VE[learnt["ids"].long()])


def test_the_heads_are_of_the_tuned_model(speaker: Speaker, tmp_path: Path) -> None:
    common = ["--model", str(speaker.folder), "--data", str(speaker.texts), "--out", str(tmp_path)]
    amounts = ["--steps", "60", "--length", "128", "--batch", "8", "--rate", "1e-3"]
    with aside(speaker.cache):
        assert main(["train", "medusa", "--lora", *common, *amounts]) == 0
    folder = tmp_path / "model"
    files = models.find(str(folder), speaker.cache)
    tuned = read_record(files.folder, files.digest)
    assert tuned is not None
    assert tuned.method == "medusa"
    with pytest.raises(ModelInvalidError, match="was made for"):
        open_drafter(tmp_path / "drafter", "medusa", models.find(str(speaker.folder), speaker.cache).digest)
    engine, tokens, passes = engine_of(folder, speaker), 0, 0
    drafter = make(f"medusa:weights={tmp_path / 'drafter'}")
    for request in requests(speaker, 6):
        plain = decode(engine, NoDrafter(), request, lambda: False)
        drafted = decode(engine, drafter, request, lambda: False)
        assert drafted.tokens == plain.tokens
        tokens, passes = tokens + len(drafted.tokens), passes + drafted.counts.steps
    engine.close()
    assert tokens / passes >= 1.5
    with aside(speaker.cache):
        assert main(["train", "medusa", "--lora", *common, *amounts, "--said", "4"]) != 0
