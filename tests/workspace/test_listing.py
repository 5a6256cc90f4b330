"""Listing a folder, and paths that are too long for Windows' default."""

from dataclasses import replace
from pathlib import Path, PureWindowsPath

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.paths import SHORT, long_form
from fastcoder_lsp.workspace.rules import ReadingRules


def write(root: Path, name: str, text: str = "x = 1\n") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_listing_holds_what_a_question_for_each_file_allows(tmp_path: Path) -> None:
    """What is worked out once for a folder is what `may_read` says of every file in it, folders in folders included."""
    root = tmp_path / "work"
    write(root, ".gitignore", "*.log\nbuild/\n/top.py\n")
    write(root, ".fastcoderignore", "mine/\n")
    write(root, "sub/.gitignore", "!keep.log\n/local.py\n")
    inner = root / "inner"
    write(inner, ".gitignore", "own.py\n")
    names = ("top.py", "a.py", "a.log", "local.py", "own.py", "keep.log", "large.py", "a.ts", "token.json", "x.pem")
    folders = ("", "sub", "sub/deep", "build", "mine", "node_modules/lib", ".ssh", "inner", "inner/.aws", "inner/sub")
    for folder in folders:
        for name in names:
            write(root, f"{folder}/{name}", "x" * 5_000 if name == "large.py" else "x = 1\n")
    (root / "link.py").symlink_to(root / "a.py")
    (root / "linked").symlink_to(root / "sub")
    small = Settings(read_max_file_bytes=4_000)
    every = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    for roots in ((root,), (root, inner), (inner,)):
        for settings in (small, replace(small, languages_exclude=("typescript",), read_exclude=("deep/*.py",))):
            of = ReadingRules(roots, settings)
            listed = set(of.files())
            assert listed == {path for path in every if of.may_read(path) is None}
            assert inner / "a.py" in listed
            assert inner / "large.py" not in listed


DEEP = "\\".join(["folder"] * 50)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("C:/src/a.py", "C:\\src\\a.py"),
        (f"C:/{DEEP}/a.py", f"\\\\?\\C:\\{DEEP}\\a.py"),
        (f"//server/share/{DEEP}/ä b.py", f"\\\\?\\UNC\\server\\share\\{DEEP}\\ä b.py"),
        (f"\\\\?\\C:\\{DEEP}", f"\\\\?\\C:\\{DEEP}"),
        (f"\\\\?\\UNC\\server\\share\\{DEEP}", f"\\\\?\\UNC\\server\\share\\{DEEP}"),
        (f"{DEEP}\\a.py", f"{DEEP}\\a.py"),  # the form is for whole paths alone
    ],
)
def test_a_path_as_windows_takes_it(path: str, expected: str) -> None:
    assert long_form(PureWindowsPath(path)) == expected


def test_it_is_written_so_where_it_is_needed() -> None:
    stem = "C:\\" + "a" * (SHORT - 3)
    assert long_form(PureWindowsPath(stem)) == stem
    assert long_form(PureWindowsPath(stem + "a")) == f"\\\\?\\{stem}a"
