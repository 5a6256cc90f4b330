"""Completion menus of Neovim and its plugins: the accepted entry is the suggestion, with its lines and indentation.

scripts/test-clients fetches the plugins into .scratch/clients, and says which it cannot fetch. Menus of absent plugins
are not tested here; tests/lsp/test_clients.py replays what they declare.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.editors.conftest import ROOT, find_editor, put_scripted_on_path, wait_for
from tests.editors.neovim import Neovim

PLUGINS = ROOT / ".scratch/clients"
SAYS = "gested = [\n            1,\n        ]"
BEFORE = "class A:\n    def f(self):\n        \n"
AFTER = "class A:\n    def f(self):\n        x = suggested = [\n            1,\n        ]\n"
OPTIONS = "init_options = { popup = { enabled = true, budget_ms = 10000 } }"
SERVER = f"""
    vim.lsp.config('fastcoder', {{
      cmd = {{ 'fastcoder-lsp', 'serve' }}, filetypes = {{ 'python' }}, {OPTIONS}, capabilities = CAPABILITIES,
    }})
    vim.lsp.enable('fastcoder')
"""
OWN = "vim.fn.pumvisible() == 1"


@dataclass(frozen=True)
class Menu:
    """How a menu is set up, opened and accepted; `visible`: whether it is, in Lua."""

    name: str
    plugins: tuple[str, ...]
    setup: str
    visible: str
    opens: str
    accepts: str = "<C-n><C-y>"


MENUS = (
    Menu("the lines of the page", (), "PAGE", OWN, "<C-x><C-o>"),
    Menu(
        "mini.completion",
        ("mini.nvim",),
        "require('mini.completion').setup({})"
        + SERVER.replace("CAPABILITIES", "MiniCompletion.get_lsp_capabilities()"),
        OWN,
        "<C-Space>",
    ),
    Menu(
        "nvim-cmp",
        ("nvim-cmp", "cmp-nvim-lsp"),
        """
            local cmp = require('cmp')
            local keys = { ['<C-Space>'] = cmp.mapping.complete(), ['<C-y>'] = cmp.mapping.confirm({ select = true }) }
            cmp.setup({ sources = { { name = 'nvim_lsp' } }, mapping = keys })
            require('cmp_nvim_lsp').setup()
        """
        + SERVER.replace("CAPABILITIES", "require('cmp_nvim_lsp').default_capabilities()"),
        "require('cmp').visible()",
        "<C-Space>",
        "<C-y>",
    ),
    Menu(
        "blink.cmp",
        ("blink.cmp",),
        "require('blink.cmp').setup({ fuzzy = { implementation = 'lua' }, sources = { default = { 'lsp' } } })"
        + SERVER.replace("CAPABILITIES", "{}"),
        "require('blink.cmp').get_selected_item() ~= nil",
        "<C-Space>",
        "<C-y>",
    ),
)
PRESENT = [menu for menu in MENUS if all((PLUGINS / plugin).is_dir() for plugin in menu.plugins)]


def lines_of_the_page() -> str:
    page = (ROOT / "docs/editors/neovim.md").read_text(encoding="utf-8")
    lines = re.search(r"\*\*Only the completion menu\*\*.*?```lua\n(.*?)```", page, re.DOTALL)
    assert lines
    assert "init_options = { popup = { enabled = true } }" in lines[1]  # else Neovim 0.12 has no menu
    return lines[1].replace("init_options = { popup = { enabled = true } }", OPTIONS)


@contextmanager
def started(menu: Menu, folder: Path) -> Iterator[Neovim]:
    program, file = find_editor("neovim", "nvim"), folder / "a.py"
    file.write_text(BEFORE)
    (folder / ".git").mkdir()
    paths = "".join(f"vim.opt.runtimepath:append('{PLUGINS / plugin}')\n" for plugin in menu.plugins)
    options = "vim.opt.completeopt = { 'menuone', 'noselect' }\n"
    setup = lines_of_the_page() if menu.setup == "PAGE" else menu.setup
    editor = Neovim(program, options + paths + setup, file, folder)
    try:
        yield editor
    finally:
        editor.quit()


@pytest.mark.parametrize("menu", PRESENT, ids=lambda menu: menu.name)
def test_an_accepted_entry_is_the_suggestion(menu: Menu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_scripted_on_path(tmp_path, monkeypatch, "--says", SAYS)
    with started(menu, tmp_path) as editor:
        editor.type("GA")
        editor.type("x = sug")

        def opened() -> bool:
            if not editor.lua(f"return {menu.visible}"):
                editor.type(menu.opens)
            return bool(editor.lua(f"vim.wait(1000, function() return {menu.visible} end) return {menu.visible}"))

        wait_for(opened, "the menu")
        editor.type(menu.accepts)
        wait_for(lambda: editor.text() == AFTER, f"the suggestion in {editor.text()!r}", 30)
        assert editor.messages() == ""
