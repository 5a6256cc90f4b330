"""`auto` on a Mac: torch's engine on its GPU only where it was found quicker than the CPU's kernels."""

import pytest

from fastcoder_lsp.engine import loader
from fastcoder_lsp.engine.architecture import fast_shape
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.loader import load_engine
from fastcoder_lsp.engine.trial import TrialResult
from tests.engine.test_trial import finished, idle, job

__all__ = ["idle", "job"]
KINDS = ("cpu-int8", "mps-bf16")


@pytest.mark.parametrize("chosen", KINDS)
def test_a_mac_takes_what_the_trial_found(chosen: str, job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, str]]()

    def choose(_job: LoadJob, machine: str, *, kinds: tuple[str, str]) -> TrialResult:
        asked.append(kinds)
        return TrialResult(chosen, "compared once", {})

    monkeypatch.setattr(loader, "_accelerator", lambda: "mps-bf16")
    monkeypatch.setattr(loader, "choose_engine", choose)
    kind, notes = loader._choose(job, fast_shape(job.config))
    assert (kind, asked) == (chosen, [KINDS])
    assert notes[0] == "compared once"
    assert ("MPS is untested" in notes) is (chosen == "mps-bf16")


def test_a_model_without_kernels_of_ours_is_not_compared(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """What transformers runs, it runs on the GPU that is there."""
    monkeypatch.setattr(loader, "_accelerator", lambda: "mps-bf16")
    monkeypatch.setattr(loader, "choose_engine", lambda *_: pytest.fail("compared"))
    assert loader._choose(job, None)[0] == "mps-bf16"


@pytest.mark.ci
@pytest.mark.usefixtures("idle")
def test_a_trial_that_ends_without_an_outcome_leaves_the_cpu(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_accelerator", lambda: "mps-bf16")
    engine = load_engine(job)
    finished()
    assert engine.info.name == "cpu-int8"
    assert "mps-bf16" in engine.info.notes[0]
    engine.close()
