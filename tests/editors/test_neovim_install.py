"""Each way of installing the plugin that is documented leaves the same Neovim behind; no server needed."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.editors.conftest import ROOT, find_editor

PLUGIN = ROOT / "editors/neovim"
PAGES = (ROOT / "docs/editors/neovim.md", PLUGIN / "doc/fastcoder.txt")
DOCUMENTED = "/path/to/fastcoder-lsp"
SETUP = "require('fastcoder').setup()\n"
# Where Neovim has no vim.pack: what that hands to `load` (runtime/lua/vim/pack.lua), nothing is cloned.
VIM_PACK = """
vim.pack = { add = function(specs, options)
  for _, source in ipairs(specs) do
    options.load({ spec = { src = source, name = vim.fs.basename(source) }, path = source })
  end
end }
"""
# What lazy.nvim does with a folder at its event: the folder goes on the runtimepath, its plugin/ files are sourced,
# `main` gets `opts`.
LAZY = """
local spec = {spec}
vim.api.nvim_create_autocmd(spec.event, {{ once = true, callback = function()
  vim.opt.runtimepath:prepend(spec.dir)
  for _, file in ipairs(vim.fn.glob(spec.dir .. '/plugin/**/*.lua', false, true)) do
    vim.cmd.source(file)
  end
  require(spec.main).setup(spec.opts)
end }})
"""
LOOK = """
local lines = {{ vim.fn.exists(':FastCoder'), vim.lsp.is_enabled('fastcoder'), vim.lsp.config.fastcoder.cmd[1] }}
vim.cmd.help('fastcoder-keys')
table.insert(lines, vim.fs.basename(vim.api.nvim_buf_get_name(0)))
vim.cmd.checkhealth('fastcoder')
local report = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')
table.insert(lines, report:match('drawn by fastcoder') or report:match('inline_completion') or report)
vim.fn.writefile(vim.tbl_map(tostring, lines), '{seen}')
"""


def snippet(page: Path, containing: str) -> str:
    """The one piece of Lua on a page that has something in it."""
    fence = r"```lua\n(.*?)```" if page.suffix == ".md" else r">lua\n(.*?)\n<"
    [found] = [text for text in re.findall(fence, page.read_text(), re.DOTALL) if containing in text]
    return str(found)


def by_runtimepath(page: Path, _home: Path) -> str:
    return snippet(page, f"vim.opt.runtimepath:append('{DOCUMENTED}")


def by_lazy(page: Path, _home: Path) -> str:
    return LAZY.format(spec=snippet(page, "main = 'fastcoder'"))


def by_vim_pack(page: Path, _home: Path) -> str:
    return VIM_PACK + snippet(page, "vim.pack.add") + "\n" + SETUP


def by_package(page: Path, home: Path) -> str:
    [commands] = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    commands = commands.replace(DOCUMENTED, str(home / "clone"))
    subprocess.run(["/bin/sh", "-e", "-c", commands], check=True)
    return SETUP


WAYS = [(way, page) for way in (by_runtimepath, by_lazy, by_vim_pack) for page in PAGES] + [(by_package, PAGES[0])]


@pytest.mark.parametrize(("way", "page"), WAYS, ids=[f"{way.__name__}-{page.name}" for way, page in WAYS])
def test_it_is_there(
    way: Callable[[Path, Path], str], page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = find_editor("neovim", "nvim")
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the health report is not to start a server's program
    clone = tmp_path / "clone"
    shutil.copytree(PLUGIN, clone / "editors/neovim")
    init, look, seen, file = (tmp_path / name for name in ("init.lua", "look.lua", "seen", "example.py"))
    init.write_text(way(page, tmp_path).replace(DOCUMENTED, str(clone)))
    look.write_text(LOOK.format(seen=seen))
    file.write_text("")
    command = [program, "--headless", "-n", "-i", "NONE", "-u", str(init), str(file)]
    done = subprocess.run(
        [*command, "-c", f"luafile {look}", "-c", "qall!"], capture_output=True, text=True, timeout=60, check=False
    )
    assert seen.exists(), done.stderr
    assert seen.read_text().splitlines()[:4] == ["2", "true", "fastcoder-lsp", "fastcoder.txt"]
    assert seen.read_text().splitlines()[4] in ("drawn by fastcoder", "inline_completion")
