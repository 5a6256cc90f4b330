"""The trial that compares two engines: its process, its record and its judgement, by engines of the CPU."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.core.files import read_json
from fastcoder_lsp.engine import EngineOptions, trial
from fastcoder_lsp.engine.job import LoadJob
from fastcoder_lsp.engine.trial import TrialResult, choose_engine, compare, judge
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
def test_the_comparison_runs_once_and_while_idle(job: LoadJob) -> None:
    first = choose_engine(job, "machine", kinds=KINDS)
    assert first.chosen == KINDS[0]
    assert "while nobody types" in first.reason
    finished()
    found = choose_engine(job, "machine", kinds=KINDS, command=absent)
    assert len(found.ms) == 6, found.reason
    other = choose_engine(replace(job, digest="other"), "machine", kinds=KINDS, command=absent)
    assert (other.chosen, other.ms) == ("cpu-fp32", {})
    finished()


def absent(_folder: Path) -> list[str]:
    return ["absent"]


def test_no_trial_begins_during_typing(job: LoadJob, monkeypatch: pytest.MonkeyPatch) -> None:
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
    works = ("200 tokens of a prompt", "1 row", "8 rows")
    assert set(found.ms) == {f"{kind}, {work}" for kind in KINDS for work in works}


def test_what_takes_longer_is_not_taken() -> None:
    assert judge(KINDS, (9.0, 2.0, 3.0), (9.0, 1.0, 1.0)).chosen == "cpu-graphs"
    assert judge(KINDS, (9.0, 2.0, 3.0), (9.0, 2.0, 3.0)).chosen == "cpu-fp32"
    told = judge(KINDS, (9.0, 2.0, 3.0), (8.0, 1.0, 1.5))
    assert "cpu-graphs, 1 row 1.00 ms" in told.reason
    assert "cpu-fp32, 200 tokens of a prompt 9.00 ms" in told.reason


def test_a_prompt_outweighs_quicker_steps() -> None:
    """An engine that steps a little sooner, but reads a second longer, makes later suggestions."""
    assert judge(KINDS, (100.0, 2.0, 3.0), (1100.0, 1.0, 2.0)).chosen == "cpu-fp32"
    assert judge(KINDS, (100.0, 200.0, 300.0), (1100.0, 100.0, 200.0)).chosen == "cpu-graphs"
