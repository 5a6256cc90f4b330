"""The tables of a session's folders: read by a thread, kept up to date, and gone with their folder."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.lsp.import_files import ImportFiles

SETTINGS = Settings()


@pytest.fixture
def files() -> Iterator[ImportFiles]:
    found = ImportFiles()
    yield found
    found.stop()


def names(files: ImportFiles, root: Path, name: str, language: str = "python") -> list[str]:
    assert files.wait_idle(20)
    table = files.table(root, language)
    return [] if table is None else [one.path for one in table.defined(name)]


def opened(files: ImportFiles, root: Path, text: str = "", settings: Settings = SETTINGS) -> None:
    files.document(root, settings, [root], root / "open.py", "python", text)


def test_only_families_that_are_open_are_read(tmp_path: Path, files: ImportFiles) -> None:
    (tmp_path / "a.py").write_text("class A:\n    pass\n")
    (tmp_path / "b.ts").write_text("export class A {}\n")
    assert names(files, tmp_path, "A") == []
    opened(files, tmp_path)
    assert names(files, tmp_path, "A") == ["a.py"]
    assert files.table(tmp_path, "typescript") is None


def test_files_and_unsaved_texts_are_followed(tmp_path: Path, files: ImportFiles) -> None:
    (tmp_path / "a.py").write_text("class A:\n    pass\n")
    (tmp_path / "open.py").write_text("")
    opened(files, tmp_path, "class B:\n    pass\n")
    assert names(files, tmp_path, "B") == ["open.py"]
    files.closed(tmp_path / "open.py")
    assert names(files, tmp_path, "B") == []
    (tmp_path / "a.py").unlink()
    (tmp_path / "c.py").write_text("class A:\r\n    pass\r\n")
    files.files_changed([tmp_path / "a.py", tmp_path / "c.py"])
    assert names(files, tmp_path, "A") == ["c.py"]


def test_other_rules_read_everything_again(tmp_path: Path, files: ImportFiles) -> None:
    (tmp_path / "a.py").write_text("class A:\n    pass\n")
    opened(files, tmp_path)
    assert names(files, tmp_path, "A") == ["a.py"]
    files.use({tmp_path: replace(SETTINGS, read_exclude=("a.py",))})
    assert names(files, tmp_path, "A") == []
    files.use({tmp_path: replace(SETTINGS, edits_imports=False)})
    assert files.table(tmp_path, "python") is None


def test_a_changed_ignore_file_has_everything_read_again(tmp_path: Path, files: ImportFiles) -> None:
    (tmp_path / "a.py").write_text("class A:\n    pass\n")
    (tmp_path / "open.py").write_text("")
    opened(files, tmp_path, "class A:\n    pass\n")
    assert names(files, tmp_path, "A") == ["open.py", "a.py"]
    (tmp_path / ".gitignore").write_text("*.py\n")
    files.files_changed([tmp_path / ".gitignore"])
    assert names(files, tmp_path, "A") == []


def test_odd_files_do_no_harm(tmp_path: Path, files: ImportFiles) -> None:
    (tmp_path / "a.py").write_bytes(b"import \xff\0")
    (tmp_path / "b.py").write_text("import (\n" * 1000)
    (tmp_path / "d.py").mkdir()
    (tmp_path / "c.py").write_text("class A:\n    pass\n")
    opened(files, tmp_path)
    assert names(files, tmp_path, "A") == ["c.py"]
