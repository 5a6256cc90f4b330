"""What a user of Neovim reads and copies: the help file, the snippets of the page, the commands; no server needed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.editors.conftest import ROOT, find_editor

PLUGIN = ROOT / "editors/neovim"
PAGES = (ROOT / "docs/editors/neovim.md", PLUGIN / "doc/fastcoder.txt")


def run_lua(code: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    program = find_editor("neovim", "nvim")
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))
    script = home / "script.lua"
    script.write_text(code)
    command = [program, "--headless", "-n", "-i", "NONE", "--clean", "--cmd", f"set runtimepath^={PLUGIN}"]
    done = subprocess.run(
        [*command, "-c", f"luafile {script}", "-c", "qall!"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_help_tags_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PLUGIN / "doc", tmp_path / "doc", ignore=shutil.ignore_patterns("tags"))
    code = f"""
        vim.cmd.helptags('{tmp_path}/doc')
        vim.opt.runtimepath:prepend('{tmp_path}')
        local text = table.concat(vim.fn.readfile('{tmp_path}/doc/fastcoder.txt'), '\\n')
        for tag in text:gmatch('|(%S+)|') do
          if not pcall(vim.cmd.help, tag) then print('no such tag: ' .. tag) end
        end
        vim.cmd.help('fastcoder')
        print('found ' .. vim.fn.expand('%:t') .. ':' .. vim.fn.line('.'))
    """
    assert run_lua(code, tmp_path, monkeypatch).strip() == "found fastcoder.txt:1"
    # The index comes along: make it anew by `nvim --clean --headless -c 'helptags editors/neovim/doc' -c qall`.
    assert (tmp_path / "doc/tags").read_text() == (PLUGIN / "doc/tags").read_text()


def test_the_options_that_are_documented_are_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = re.search(r"setup\((\{\n.*?\n    \})\)", PAGES[1].read_text(), re.DOTALL)
    assert documented
    code = f"print(vim.deep_equal({documented[1]}, require('fastcoder.config').options))"
    assert run_lua(code, tmp_path, monkeypatch).strip() == "true"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_are_lua(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fence = r"```lua\n(.*?)```" if page.suffix == ".md" else r">lua\n(.*?)\n<"
    snippets = re.findall(fence, page.read_text(), re.DOTALL)
    assert len(snippets) >= 4
    checks = "\n".join(
        f"check([==[{snippet}]==])" for snippet in (re.sub(r"^\s*lualine_x", "local x", text) for text in snippets)
    )
    code = f"""
        local function check(text)
          local ok = loadstring(text) or loadstring('return ' .. text)
          print(ok and 'lua' or 'not lua: ' .. text)
        end
        {checks}
    """
    assert run_lua(code, tmp_path, monkeypatch).split() == ["lua"] * len(snippets)


def test_the_lazy_spec_sets_the_plugin_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = re.search(r"With lazy.nvim:\n\n```lua\n(.*?)```", PAGES[0].read_text(), re.DOTALL)
    assert spec
    code = f"""
        local spec = {spec[1]}
        assert(spec.dir:match('editors/neovim$') and spec.name)
        require(spec.main).setup(spec.opts)
        print(vim.lsp.is_enabled('fastcoder'), vim.lsp.config.fastcoder.cmd[1])
    """
    assert run_lua(code, tmp_path, monkeypatch).split() == ["true", "fastcoder-lsp"]


def test_commands_are_completed_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        print(table.concat(vim.fn.getcompletion('FastCoder ', 'cmdline'), ' '))
        vim.cmd.FastCoder('nonsense')
    """
    names, *listed = run_lua(code, tmp_path, monkeypatch).splitlines()
    manual = PAGES[1].read_text()
    assert len(names.split()) >= 8
    for name in names.split():
        assert f":FastCoder {name}" in manual
        assert any(line.strip().startswith(f":FastCoder {name}") for line in listed)
    assert "nonsense" in listed[0]


def test_health_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    code = """
        require('fastcoder').setup({ cmd = { 'no-such-fastcoder', 'serve' } })
        vim.cmd.checkhealth('fastcoder')
        print(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n'))
    """
    report = run_lua(code, tmp_path, monkeypatch)
    assert "no-such-fastcoder is not on PATH" in report
    assert "Install it" in report
    assert "<Tab>" in report
