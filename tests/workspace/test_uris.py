"""URIs and the paths behind them; listing folders; paths that are too long for Windows."""

from pathlib import PurePosixPath, PureWindowsPath

import pytest

from fastcoder_lsp.workspace.paths import MAX_PATH_CHARACTERS, MAX_SHORT_PATH, long_form, path_text


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///C:/Users/a/b.py", "C:/Users/a/b.py"),  # Neovim, Helix
        ("file:///c%3A/Users/a/b.py", "c:/Users/a/b.py"),  # VS Code
        ("file:///c%3a/%C3%A4%20b.py", "c:/ä b.py"),
        ("FILE:///C:/a.py", "C:/a.py"),
        ("file://localhost/C:/a.py", "C:/a.py"),
        ("file://server/share/a.py", "//server/share/a.py"),
        ("file://wsl.localhost/Debian/home/a.py", "//wsl.localhost/Debian/home/a.py"),
        ("file://wsl%24/Debian/home/a.py", "//wsl$/Debian/home/a.py"),  # VS Code, of \\wsl$
        ("file:////server/share/a.py", "//server/share/a.py"),
        ("vscode-notebook-cell:/c%3A/a.ipynb#W0sZmlsZQ", "c:/a.ipynb"),
        ("untitled:Untitled-1", None),
        ("file:///C:/a%00b.py", None),
    ],
)
def test_windows(uri: str, expected: str | None) -> None:
    assert path_text(uri, windows=True) == expected
    if expected is not None:
        assert PureWindowsPath(expected).is_absolute()


@pytest.mark.parametrize("path", ["C:/Users/a b/ä#%.py", "//server/share/x y.py"])
def test_windows_paths_come_back(path: str) -> None:
    assert path_text(PureWindowsPath(path).as_uri(), windows=True) == path


@pytest.mark.parametrize("path", ["/home/a b/ä#%.py", "/C:/odd", "/a\\b.py"])
def test_other_paths_come_back(path: str) -> None:
    assert path_text(PurePosixPath(path).as_uri(), windows=False) == path


def test_a_host_is_no_part_of_a_path_elsewhere() -> None:
    assert path_text("file://localhost/home/a.py", windows=False) == "/home/a.py"


def test_what_is_too_long_names_nothing() -> None:
    assert path_text("file:///" + "a" * MAX_PATH_CHARACTERS, windows=True) is None


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
    stem = "C:\\" + "a" * (MAX_SHORT_PATH - 3)
    assert long_form(PureWindowsPath(stem)) == stem
    assert long_form(PureWindowsPath(stem + "a")) == f"\\\\?\\{stem}a"
