"""An interrupted run ends at the weights of one that was not; a mismatch is told; what a crash leaves is no harm."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, UsageError
from fastcoder_lsp.model.files import RECORD, TrainingRecord, read_record
from fastcoder_lsp.train.cllm import CllmSettings
from fastcoder_lsp.train.options import RequestedOptions
from fastcoder_lsp.train.sdsat import SdsatSettings
from fastcoder_lsp.train.session import Listener, Result, TrainingJob
from fastcoder_lsp.train.tuning import CllmSession, SdsatSession, export_run
from tests.train.conftest import Speaker

STEPS = 6


OWN = {"sdsat": SdsatSettings(), "cllm": CllmSettings(block=8, blocks=2, trajectories=6, batch=4)}
SESSIONS = {SdsatSettings: SdsatSession, CllmSettings: CllmSession}


def job(speaker: Speaker, out: Path, method: str, tuning: str, seed: int = 0) -> TrainingJob:
    asked = RequestedOptions(
        tuning=tuning,  # type: ignore[arg-type]
        steps=STEPS,
        length=64,
        batch=2,
        rate=1e-3,
        rank=4,
        seed=seed,
        precision="fp32",
    )
    return TrainingJob(
        model=str(speaker.folder), data=(str(speaker.texts),), out=out, asked=asked, device="cpu", own=OWN[method]
    )


def go(wanted: TrainingJob, cache: Path, steps: int | None = None) -> Result:
    made: list[int] = []
    listener = Listener(lambda _: None, lambda _done, _wanted: None, lambda status: made.append(status.step))
    return SESSIONS[type(wanted.own)](wanted, cache, lambda: steps is not None and len(made) >= steps, listener).run()


@pytest.mark.ci
@pytest.mark.parametrize(
    ("method", "tuning"), [("sdsat", "full"), ("sdsat", "lora"), ("cllm", "full"), ("cllm", "lora")]
)
def test_an_interrupted_run_ends_at_the_same_weights(
    speaker: Speaker, tmp_path: Path, method: str, tuning: str
) -> None:
    whole = go(job(speaker, tmp_path / "whole", method, tuning), speaker.cache)
    for steps in (2, 1):
        part = go(job(speaker, tmp_path / "parts", method, tuning), speaker.cache, steps)
        assert not part.outcome.finished
    parts = go(job(speaker, tmp_path / "parts", method, tuning), speaker.cache)
    assert whole.outcome.finished
    assert parts.outcome.finished
    left, right = (load_file(result.folder / "model.safetensors") for result in (whole, parts))
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    curves = [(tmp_path / name / "losses.jsonl").read_text() for name in ("whole", "parts")]
    assert curves[0] == curves[1]
    assert whole.record is not None
    assert parts.record is not None
    assert whole.record.figures == parts.record.figures
    base = load_file(speaker.folder / "model.safetensors")
    assert any(not torch.equal(base[name], left[name]) for name in base if base[name].shape == left[name].shape)


def test_another_seed_gives_other_weights(speaker: Speaker, tmp_path: Path) -> None:
    found = [go(job(speaker, tmp_path / str(seed), "sdsat", "full", seed), speaker.cache) for seed in (0, 1)]
    left, right = (load_file(result.folder / "model.safetensors") for result in found)
    assert any(not torch.equal(left[name], right[name]) for name in left)


@pytest.mark.ci
def test_what_does_not_belong_together_is_told(speaker: Speaker, sdsat: Path, tmp_path: Path) -> None:
    done = go(job(speaker, tmp_path / "run", "sdsat", "full"), speaker.cache, 1)
    assert isinstance(done.record, TrainingRecord)
    with pytest.raises(UsageError, match="another run"):
        go(job(speaker, tmp_path / "run", "sdsat", "full", seed=5), speaker.cache)
    with pytest.raises(UsageError, match="is not the model"):
        export_run(tmp_path / "run", str(sdsat), None, speaker.cache)
    assert export_run(tmp_path / "run", None, tmp_path / "copy", speaker.cache).weights == done.record.weights
    with pytest.raises(UsageError, match="contains other files"):
        export_run(tmp_path / "run", None, speaker.texts, speaker.cache)
    (state,) = (tmp_path / "run").glob("step-*/state.safetensors")
    shutil.copytree(state.parent, tmp_path / "run" / "step-0000005")
    (tmp_path / "run" / "step-0000005" / "state.safetensors").write_bytes(b"cut short")
    with pytest.raises(FastcoderError, match="damaged"):
        go(job(speaker, tmp_path / "run", "sdsat", "full"), speaker.cache)


def test_what_a_crash_left_half_written_is_no_checkpoint(speaker: Speaker, tmp_path: Path) -> None:
    left = tmp_path / "run" / "unfinished-0000004"
    go(job(speaker, tmp_path / "run", "sdsat", "full"), speaker.cache, 1)
    left.mkdir()
    (left / "state.safetensors").write_bytes(b"half")
    assert go(job(speaker, tmp_path / "run", "sdsat", "full"), speaker.cache, 1).outcome.step == 2
    assert not left.exists()


def test_a_record_belongs_to_its_weights(speaker: Speaker, tmp_path: Path) -> None:
    folder = go(job(speaker, tmp_path / "run", "sdsat", "full"), speaker.cache, 1).folder
    digest = models.find(str(folder)).digest
    assert read_record(folder, digest) is not None
    with pytest.raises(ModelInvalidError, match="other weights"):
        read_record(folder, "0" * 64)
    row = json.loads((folder / RECORD).read_text())
    for change in ({"version": 99}, {"adaptive": ["x"]}, {"adaptive": None}):
        (tmp_path / RECORD).write_text(json.dumps(row | change))
        with pytest.raises(ModelInvalidError):
            read_record(tmp_path)
    (tmp_path / RECORD).unlink()
    assert read_record(tmp_path) is None


def test_a_folder_with_something_else_is_left_alone(
    speaker: Speaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    arguments = ["--model", str(speaker.folder), "--data", str(speaker.texts), "--out", str(tmp_path), "--steps", "1"]
    assert main(["train", "sdsat", *arguments, "--restart"]) == 2
    assert "contains other files" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
