"""A smaller model learns to say what the model says: by the ordinary loop, and an ordinary model comes out."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fastcoder_lsp import model as models
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.train import collecting
from fastcoder_lsp.train.distill import DistillSettings
from fastcoder_lsp.train.distill_session import DistillJob, distil
from fastcoder_lsp.train.options import Asked
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.session import Listener, Result
from tests.train.conftest import Speaker

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
        job = DistillJob(
            model=str(speaker.folder),
            data=(str(speaker.texts),),
            out=out,
            asked=Asked(tuning="full", steps=40, length=64, batch=2, rate=1e-3, precision="fp32"),
            distill=DistillSettings(str(tmp_path / "spoilt"), said=24),
            samples=32,
        )
        listener = Listener(lambda _: None, lambda _done, _wanted: None, lambda status: made.append(status.step))
        return distil(job, speaker.cache, lambda: steps is not None and len(made) >= steps, listener)

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
    """As many steps are planned as fit; what the model says may take a part of it; where that is none, it is told."""
    notes, made = list[str](), list[int]()

    def go_on(out: Path) -> None:
        job = DistillJob(
            model=str(speaker.folder),
            data=(str(speaker.texts),),
            out=out,
            asked=Asked(tuning="full", length=64, batch=2, rate=1e-3, precision="fp32", max_minutes=10),
            distill=DistillSettings(str(speaker.folder), said=24),
            samples=32,
        )
        listener = Listener(notes.append, lambda _done, _wanted: None, lambda status: made.append(status.step))
        distil(job, speaker.cache, lambda: len(made) >= 2, listener)

    go_on(tmp_path / "run")
    plan = RunFolder(tmp_path / "run").plan()
    assert plan["samples"] == 32
    assert any(f"{plan['steps']} steps fit" in note for note in notes)
    made.clear()
    monkeypatch.setattr(collecting, "SHARE", 0.0)
    with pytest.raises(UsageError, match="nothing was collected in time"):
        go_on(tmp_path / "other")
