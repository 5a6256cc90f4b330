"""Distillation and Medusa-2: an ordinary model comes out, and heads that draft for it alone."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import ModelInvalidError, UsageError
from fastcoder_lsp.model.drafter_files import WEIGHTS, DrafterRecord, open_drafter
from fastcoder_lsp.model.files import read_record
from fastcoder_lsp.papers.train import session
from fastcoder_lsp.papers.train.distill import DistillSettings
from fastcoder_lsp.papers.train.drafters import JointSession
from fastcoder_lsp.papers.train.medusa import JointLesson, MedusaSettings
from fastcoder_lsp.papers.train.options import RequestedOptions, SampleOptions
from fastcoder_lsp.papers.train.run_folder import RunFolder
from fastcoder_lsp.papers.train.samples import shape_of
from fastcoder_lsp.papers.train.session import Result
from fastcoder_lsp.papers.train.tuning import DistillSession
from tests.papers.train.conftest import Speaker, aside, check_same, train
from tests.papers.train.test_training import engine_of, requests, tokens_a_pass

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
        asked = RequestedOptions(tuning="full", steps=40, length=64, batch=2, rate=1e-3, precision="fp32")
        own = DistillSettings(str(tmp_path / "spoilt"), said=24)
        return train(DistillSession, speaker, out, asked, own, steps, collected=SampleOptions(samples=32))

    whole = go_on(tmp_path / "whole")
    assert not go_on(tmp_path / "parts", 3).outcome.finished
    go_on(tmp_path / "parts")
    check_same(tmp_path / "whole", tmp_path / "parts", "model/model.safetensors")
    assert whole.record is not None
    assert whole.record.method == "distill"
    figures = whole.record.figures
    assert figures["held_out_divergence_last"] < 0.5 * figures["held_out_divergence_first"]
    assert models.find(str(whole.folder), speaker.cache).folder == whole.folder


def test_a_time_is_kept_to(speaker: Speaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = list[str]()

    def go_on(out: Path) -> None:
        asked = RequestedOptions(tuning="full", length=64, batch=2, rate=1e-3, precision="fp32", max_minutes=10)
        own, samples = DistillSettings(str(speaker.folder), said=24), SampleOptions(samples=32)
        train(DistillSession, speaker, out, asked, own, 2, notes.append, collected=samples)

    go_on(tmp_path / "run")
    plan = RunFolder(tmp_path / "run").plan()
    assert plan["samples"] == 32
    assert any(f"{plan['steps']} steps fit" in note for note in notes)
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
        asked = RequestedOptions(tuning="full", steps=3, length=64, batch=2, rate=1e-3, precision="fp32")
        own = DistillSettings(str(spoilt), said=24, boost=tuple(map(str, boost)))
        return train(DistillSession, speaker, tmp_path / name, asked, own, collected=SampleOptions(samples=8))

    alone, behind_nobody, behind_all = go_on("alone"), go_on("nobody", spoilt), go_on("all", spoilt, speaker.folder)
    figures = [result.record.figures for result in (alone, behind_nobody, behind_all) if result.record is not None]
    first = [found["held_out_divergence_first"] for found in figures]
    assert first[1] == pytest.approx(first[0], rel=0.2)
    assert first[2] < 0.2 * first[0]  # but for what int8 says otherwise
    with pytest.raises(UsageError, match="another run"):
        go_on("alone", spoilt)


def test_an_interrupted_run_ends_at_the_same_weights(speaker: Speaker, tmp_path: Path) -> None:
    asked = RequestedOptions(tuning="lora", steps=10, length=64, batch=2, rate=1e-3, precision="fp32")

    def go(out: Path, steps: int | None = None) -> Result:
        return train(JointSession, speaker, out, asked, MedusaSettings(heads=2), steps)

    whole = go(tmp_path / "whole")
    for steps in (1, 3):
        assert not go(tmp_path / "parts", steps).outcome.finished
    go(tmp_path / "parts")
    check_same(tmp_path / "whole", tmp_path / "parts", f"drafter/{WEIGHTS}", "model/model.safetensors")
    assert whole.record is not None
    assert whole.record.figures["identical"] == 1.0


def test_a_plan_by_the_clock_is_kept(speaker: Speaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[int] = []

    def time_step(lesson: JointLesson) -> float:
        alone.append(lesson._alone)
        return 2500.0

    monkeypatch.setattr(session, "time_step", time_step)
    asked = RequestedOptions(tuning="lora", length=64, batch=2, precision="fp32", max_minutes=600.0)
    own = MedusaSettings(heads=2)
    assert not train(JointSession, speaker, tmp_path, asked, own, 1).outcome.finished
    outcome = train(JointSession, speaker, tmp_path, replace(asked, max_minutes=None), own).outcome
    assert outcome.finished
    assert outcome.step == 12
    assert alone == [0]


def test_one_text_is_enough(speaker: Speaker, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "all.py").write_text("".join(path.read_text() for path in sorted(speaker.texts.iterdir())))
    one = replace(speaker, texts=texts)
    asked = RequestedOptions(tuning="full", steps=3, length=64, batch=2, rate=1e-2, precision="fp32")
    record = train(JointSession, one, tmp_path / "out", asked, MedusaSettings(heads=2)).record
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
    engine = engine_of(folder, speaker)
    assert tokens_a_pass(engine, make(f"medusa:weights={tmp_path / 'drafter'}"), requests(speaker, 6)) >= 1.5
    engine.close()
    with aside(speaker.cache):
        assert main(["train", "medusa", "--lora", *common, *amounts, "--said", "4"]) != 0
