"""`index` and `corpus` as a person uses them, with a small model's tokenizer."""

import shutil
from pathlib import Path

import pytest

from fastcoder_lsp.cli import main as command_line
from fastcoder_lsp.model import ModelFiles


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small workspace, and a cache of its own."""
    monkeypatch.setenv("FASTCODER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "good.py").write_text("def alpha_beta(one):\n    return one + 1\n\n\nalpha_beta(2)\n", encoding="utf-8")
    (folder / ".env").write_text("TOKEN = very_secret_value\n", encoding="utf-8")
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = command_line.main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_index_build_search_verify_clear(
    project: Path, llama_model: ModelFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step says what it did; a missing index says how to build one; what may not be read is not found."""
    model = ["--model", str(llama_model.folder)]
    (project / "left_out.py").write_text("unwanted = 1\n", encoding="utf-8")
    (project / "fastcoder.toml").write_text('read.exclude = ["left_out.py", "*.toml"]\n', encoding="utf-8")
    code, _, err = run(capsys, "index", "status", str(project), *model)
    assert code == 1
    assert "fastcoder-lsp index build" in err
    assert run(capsys, "index", "build", str(project), *model)[:2] == (0, f"{project}: 1 files, 22 tokens, 0.0 MB\n")
    code, out, _ = run(capsys, "index", "status", str(project), *model)
    assert code == 0
    assert "complete" in out
    for text, line in (("alpha_beta", 1), ("a_beta(", 1), ("return one +", 2), ("alpha_beta(2)\n", 6)):
        code, out, _ = run(capsys, "index", "search", text, "--folder", str(project), *model)
        assert (code, out.split(" ")[0]) == (0, f"{project / 'good.py'}:{line}:"), text
    assert run(capsys, "index", "search", "very_secret_value", "--folder", str(project), *model)[:2] == (1, "")
    assert run(capsys, "index", "verify", str(project), *model)[0] == 0
    stored = next((project.parent / "cache" / "index").rglob("*.seg"))
    content = bytearray(stored.read_bytes())
    content[-30] ^= 1
    stored.write_bytes(content)
    code, out, err = run(capsys, "index", "verify", str(project), *model)
    assert (code, "damaged" in out, "index build" in err) == (1, True, True)
    assert run(capsys, "index", "build", str(project), *model)[0] == 0
    assert run(capsys, "index", "verify", str(project), *model)[0] == 0
    assert run(capsys, "index", "clear", str(project), *model)[0] == 0
    assert run(capsys, "index", "status", str(project), *model)[0] == 1


def test_corpus_build_list_remove(project: Path, llama_model: ModelFiles, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["--model", str(llama_model.folder)]
    assert run(capsys, "corpus", "build", str(project), "--name", "mine", *model)[:2] == (
        0,
        "mine: 1 files, 22 tokens, 0.0 MB\n",
    )
    assert run(capsys, "corpus", "list")[1].startswith("mine: 22 tokens in 1 files")
    assert len(list((project.parent / "cache" / "tables").glob("*.npz"))) == 1
    assert run(capsys, "corpus", "remove", "mine")[0] == 0
    assert run(capsys, "corpus", "list")[1].startswith("No corpora yet")
    assert run(capsys, "corpus", "remove", "mine")[0] == 2
    assert run(capsys, "corpus", "build", str(project / "nowhere"), *model)[0] == 2


@pytest.mark.parametrize("command", ["index", "corpus"])
def test_a_disk_that_takes_nothing_is_a_line_and_a_hint(
    command: str,
    project: Path,
    llama_model: ModelFiles,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk, and a cache that can't be made: exit code 6, what to do, and nothing half made."""
    arguments = [command, "build", str(project), "--model", str(llama_model.folder)]
    total = shutil.disk_usage(project).total
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, total, 0))
        code, _, err = run(capsys, *arguments)
    assert (code, "Free some space" in err, "Traceback" in err) == (6, True, False)
    assert not [path for path in (project.parent / "cache").rglob("*") if path.suffix in (".seg", ".tmp")]
    monkeypatch.setenv("FASTCODER_CACHE", str(project / "good.py" / "cache"))
    code, _, err = run(capsys, *arguments)
    assert (code, "FASTCODER_CACHE" in err, "Traceback" in err) == (6, True, False)
