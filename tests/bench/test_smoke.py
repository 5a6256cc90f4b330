"""Each benchmark of drafters runs on one task with the real model, and reports its table."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import main

BODY = "    total = first + second\n    return total\n"
TEXT = f"def add(first, second):\n{BODY}\n\nprint(add(1, 2))\n"


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    start = TEXT.index(BODY)
    row = {"id": "t", "repo": "r", "path": "a.py", "start": start, "end": start + len(BODY)}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with tarfile.open(tmp_path / "repos.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("r/a.py")
        member.size = len(TEXT)
        archive.addfile(member, io.BytesIO(TEXT.encode()))
    return tmp_path


@pytest.mark.ci
@pytest.mark.model
@pytest.mark.parametrize(
    "words",
    [
        ["draft", "--drafters", "suffix", "--nodes", "8"],
        ["decode", "--drafters", "suffix", "--nodes", "8", "--tokens", "8", "--rounds", "1"],
    ],
    ids=lambda words: words[0],
)
def test_it_runs_on_one_task(
    words: list[str], tasks: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words, "--tasks", str(tasks), "--model", str(model_folder)]) == 0
    assert "suffix" in capsys.readouterr().out
