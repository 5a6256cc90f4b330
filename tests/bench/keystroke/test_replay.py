"""A replay against a real server over stdio: with a scripted model, and with the real one."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.datasets import histories
from benchmarks.keystroke import figures
from benchmarks.typist import choose_runs
from benchmarks.typist.ceiling import ceiling
from benchmarks.typist.replay import Arm, play
from fastcoder_lsp.cli.main import main
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.errors import FastcoderError
from tests.bench.keystroke.made_up import BASE, NAME, write_history

SCRIPTED = (sys.executable, "-m", "tests.lsp.scripted_server")


@pytest.mark.ci
def test_a_session_with_a_scripted_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    write_history(tmp_path)
    subset = choose_runs(tuple(histories.steps(tmp_path, NAME)), None, 0)
    files = histories.base(tmp_path, NAME)
    assert files == BASE
    keys: list[int] = []
    arm = Arm("scripted", "none", 20.0)
    played = play(arm, subset, files, seed=0, on_key=keys.append, command=SCRIPTED)
    assert played.saved >= len("suggested = 1")
    assert played.typed + played.saved == subset.keys == keys[-1]
    assert played.server["engine"] == "scripted"
    found = figures(played, ceiling(subset, dict(files), lambda _: "suggested = 1", lambda _: None))
    assert found["keys"]["accepts"] >= 1
    assert found["shown"] == found["ghost_ms"]["count"] >= 1
    assert found["steps"] > 0
    assert found["ceiling_chars_share"] > 0
    assert not (cache_folder() / "index").exists() or not any((cache_folder() / "index").iterdir())


def test_a_server_that_cannot_work_ends_the_session(tmp_path: Path) -> None:
    write_history(tmp_path)
    subset = choose_runs(tuple(histories.steps(tmp_path, NAME)), None, 0)
    arm = Arm("scripted", "none", 20.0, {"model": "no/such"})
    with pytest.raises(FastcoderError, match="no model no/such"):
        play(arm, subset, BASE, seed=0, on_key=lambda _: None, command=SCRIPTED)


@pytest.mark.ci
@pytest.mark.model
def test_the_command_with_the_real_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table, and the JSON with the promised names."""
    history, found = write_history(tmp_path), tmp_path / "r.json"
    options = ["--replay", str(history), "--limit", "1", "--drafters", "suffix", "--speed", "10"]
    assert main(["bench", "keystroke", *options, "--json", str(found)]) == 0
    assert "suffix" in capsys.readouterr().out
    report = json.loads(found.read_text())
    row = report["drafters"]["suffix"]
    assert set(row["ghost_ms"]) >= {"p50", "p95", "p99"}
    assert set(row) >= {"shown", "empty", "within_budget", "typed_through", "prefilled_tokens_per_key"}
    assert 0 <= row["accepted_chars_share"] <= 1
    assert 0 <= row["ceiling_chars_share"] <= 1
    assert row["requests"] > 0
    assert report["subset"] == {"runs": 1, "of_runs": 1, "keys": 19, "seed": 0}
