"""`fastcoder-lsp editor`: what it writes into configurations that are there, and what it refuses."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import main
from tests.editors.conftest import find_editor

WHERE = {
    "neovim": Path(".config/nvim/plugin/fastcoder.lua"),
    "emacs": Path(".emacs.d/init.el"),
    "helix": Path(".config/helix/languages.toml"),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def write(editor: str) -> int:
    return main(["editor", editor, "--write"])


@pytest.mark.parametrize("editor", WHERE)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_writing_twice_keeps_one_copy(editor: str, end: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / WHERE[editor]
    assert write(editor) == 0
    once = file.read_text(encoding="utf-8")
    first, last = once.splitlines()[0], once.splitlines()[-1]
    own, below = f"{first.split()[0]} mine", f"{first.split()[0]} below"
    old = end.join((own, "", first, "x = 1", last, below, ""))
    file.write_bytes(old.encode())
    file.chmod(0o600)
    assert write(editor) == 0
    assert write(editor) == 0
    assert file.read_bytes().decode() == f"{own}\n\n{once}{below}\n".replace("\n", end)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["Made", "Changed", str(file)]


def test_emacs_lines_go_where_emacs_looks_first(home: Path) -> None:
    (home / ".emacs").write_text("(setq a 1)", encoding="utf-8")
    assert write("emacs") == 0
    assert (home / ".emacs").read_text(encoding="utf-8").startswith("(setq a 1)\n\n;; fastcoder-lsp begins\n(load ")
    assert not (home / ".emacs.d").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"[language-server.fastcoder]\n",
        b"a = [\n",
        b"\xff\n",
        b'[[language]]\nname = "python"\nlanguage-servers = ["pyright"]\n',
    ],
)
def test_a_file_that_would_not_work_stays(content: bytes, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / WHERE["helix"]
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    assert write("helix") == 2
    assert file.read_bytes() == content
    assert "stays as it is" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("editor", WHERE)
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder"])
def test_only_a_regular_file_is_written(kind: str, editor: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / WHERE[editor]
    file.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    before = file.lstat()
    assert write(editor) == 2
    assert f"{file} is " in capsys.readouterr().err
    assert (file.lstat().st_mode, file.lstat().st_ino) == (before.st_mode, before.st_ino)


def test_a_relative_folder_for_settings_does_not_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert write("neovim") == 0
    assert (home / WHERE["neovim"]).is_file()


@pytest.mark.parametrize("editor", ["vscode", "zed", "jetbrains"])
def test_other_editors_are_printed_only(editor: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(editor) == 2
    assert main(["editor", editor]) == 0
    out = capsys.readouterr().out
    assert {"vscode": "--install-extension", "zed": "fastcoder-lsp", "jetbrains": "LSP4IJ"}[editor] in out
    assert Path(sys.prefix, "bin").as_posix() in out or editor == "vscode"


def test_neovim_sets_up_once_from_two_places(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nvim = find_editor("neovim", "nvim")
    assert main(["editor", "neovim"]) == 0
    init = home / ".config" / "nvim" / "init.lua"
    init.parent.mkdir(parents=True)
    init.write_text(capsys.readouterr().out * 2, encoding="utf-8")
    assert write("neovim") == 0
    look = """lua
        local _ = vim.lsp.config.fastcoder
        print(#vim.api.nvim_get_autocmds({ group = 'fastcoder', event = 'LspAttach' }), vim.fn.exists(':FastCoder'))"""
    command = [nvim, "--headless", "-n", "-i", "NONE", "-c", " ".join(look.split()), "-c", "qall!"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr.split() == ["1", "2"]
    init.unlink()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr.split() == ["1", "2"]
