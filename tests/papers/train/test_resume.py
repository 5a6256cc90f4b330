"""An interrupted run ends at the weights of one that was not; a mismatch is told; what a crash leaves is no harm."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fastcoder_lsp import model as models
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError, UsageError
from fastcoder_lsp.model.files import RECORD, TrainingRecord, read_record
from fastcoder_lsp.papers.train.cllm import CllmSettings
from fastcoder_lsp.papers.train.options import RequestedOptions
from fastcoder_lsp.papers.train.sdsat import SdsatSettings
from fastcoder_lsp.papers.train.session import Result
from fastcoder_lsp.papers.train.tuning import CllmSession, SdsatSession, export_run
from tests.papers.train.conftest import Speaker, check_same, train

STEPS = 6


OWN = {"sdsat": SdsatSettings(), "cllm": CllmSettings(block=8, blocks=2, trajectories=6, batch=4)}
SESSIONS = {"sdsat": SdsatSession, "cllm": CllmSession}


def go(
    speaker: Speaker, out: Path, method: str = "sdsat", tuning: Any = "full", steps: int | None = None, seed: int = 0
) -> Result:
    amounts = {"length": 64, "batch": 2, "rank": 4}
    asked = RequestedOptions(tuning=tuning, steps=STEPS, rate=1e-3, seed=seed, precision="fp32", **amounts)
    return train(SESSIONS[method], speaker, out, asked, OWN[method], steps, device="cpu")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("method", "tuning"), [("sdsat", "full"), ("sdsat", "lora"), ("cllm", "full"), ("cllm", "lora")]
)
def test_an_interrupted_run_ends_at_the_same_weights(
    speaker: Speaker, tmp_path: Path, method: str, tuning: str
) -> None:
    whole = go(speaker, tmp_path / "whole", method, tuning)
    for steps in (2, 1):
        part = go(speaker, tmp_path / "parts", method, tuning, steps)
        assert not part.outcome.finished
    parts = go(speaker, tmp_path / "parts", method, tuning)
    assert whole.outcome.finished
    assert parts.outcome.finished
    check_same(tmp_path / "whole", tmp_path / "parts", "model/model.safetensors")
    assert whole.record is not None
    assert parts.record is not None
    assert whole.record.figures == parts.record.figures
    base, left = (load_file(folder / "model.safetensors") for folder in (speaker.folder, whole.folder))
    assert any(not torch.equal(base[name], left[name]) for name in base if base[name].shape == left[name].shape)


def test_another_seed_gives_other_weights(speaker: Speaker, tmp_path: Path) -> None:
    found = [go(speaker, tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    left, right = (load_file(result.folder / "model.safetensors") for result in found)
    assert any(not torch.equal(left[name], right[name]) for name in left)


@pytest.mark.ci
def test_what_does_not_belong_together_is_told(speaker: Speaker, sdsat: Path, tmp_path: Path) -> None:
    done = go(speaker, tmp_path / "run", steps=1)
    assert isinstance(done.record, TrainingRecord)
    with pytest.raises(UsageError, match="another run"):
        go(speaker, tmp_path / "run", seed=5)
    with pytest.raises(UsageError, match="is not the model"):
        export_run(tmp_path / "run", str(sdsat), None, speaker.cache)
    assert export_run(tmp_path / "run", None, tmp_path / "copy", speaker.cache).weights == done.record.weights
    with pytest.raises(UsageError, match="contains other files"):
        export_run(tmp_path / "run", None, speaker.texts, speaker.cache)
    (state,) = (tmp_path / "run").glob("step-*/state.safetensors")
    shutil.copytree(state.parent, tmp_path / "run" / "step-0000005")
    (tmp_path / "run" / "step-0000005" / "state.safetensors").write_bytes(b"cut short")
    with pytest.raises(FastcoderError, match="damaged"):
        go(speaker, tmp_path / "run")


def test_what_a_crash_left_half_written_is_no_checkpoint(speaker: Speaker, tmp_path: Path) -> None:
    left = tmp_path / "run" / "unfinished-0000004"
    go(speaker, tmp_path / "run", steps=1)
    left.mkdir()
    (left / "state.safetensors").write_bytes(b"half")
    assert go(speaker, tmp_path / "run", steps=1).outcome.step == 2
    assert not left.exists()


def test_a_record_belongs_to_its_weights(speaker: Speaker, tmp_path: Path) -> None:
    folder = go(speaker, tmp_path / "run", steps=1).folder
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
