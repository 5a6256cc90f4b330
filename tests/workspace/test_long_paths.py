"""Paths that are too long for Windows' default, as it takes them."""

from pathlib import PureWindowsPath

import pytest

from fastcoder_lsp.workspace.paths import SHORT, long_form

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
    """By a drive, by a share, and what has the form already."""
    assert long_form(PureWindowsPath(path)) == expected


def test_it_is_written_so_where_it_is_needed() -> None:
    """Short ones stay as people write them."""
    stem = "C:\\" + "a" * (SHORT - 3)
    assert long_form(PureWindowsPath(stem)) == stem
    assert long_form(PureWindowsPath(stem + "a")) == f"\\\\?\\{stem}a"
