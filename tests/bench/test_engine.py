"""`bench engine` where the light installation is: no option is needed, and the comparison is left out with a word."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.bench import engine

ABSENT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"accelerate", "torch", "transformers"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
"""
"""What Python imports at its start."""


def test_it_runs_without_torch_and_says_how_to_add_the_comparison(llama_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ABSENT, encoding="utf-8")
    report = tmp_path / "engine.json"
    command = [sys.executable, "-m", "fastcoder_lsp.cli.main", "bench", "engine", "--json", str(report)]
    done = subprocess.run(
        [*command, "--model", str(llama_folder), "--rounds", "1"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "No comparison with transformers" in done.stderr
    assert "pip install" in done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    assert set(found["forward_ms"]) >= {"1", "64"}
    assert "transformers_bf16" not in found


def test_weights_are_unpacked_only_where_an_option_allows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a GGUF alone is there; a checkpoint is compared with as it is."""
    monkeypatch.setattr(engine, "missing_packages", lambda *_: ())
    monkeypatch.setattr(engine, "unpacked_bytes", lambda _folder: 2_500_000_000)
    for options, compared, said in (
        (engine.Options(), False, "run with --transformers: it writes 2.5 GB"),
        (engine.Options(transformers=True), True, "Writing 2.5 GB of unpacked weights to "),
        (engine.Options(no_transformers=True), False, ""),
    ):
        assert engine._compares(Path("converted"), options) == compared
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == bool(said)
    monkeypatch.setattr(engine, "unpacked_bytes", lambda _folder: 0)
    assert engine._compares(Path("converted"), engine.Options())
    assert capsys.readouterr().err == ""
