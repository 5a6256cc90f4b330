"""Next edits of the real server in a real Neovim: with our client, and with other people's plugins, unmodified.

The plugins are no part of this repository: FASTCODER_PEERS names a folder with checkouts of folke/sidekick.nvim and
copilotlsp-nvim/copilot-lsp.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.editors.conftest import ROOT, Server, assert_leaves, find_editor, put_scripted_on_path, wait_for
from tests.editors.neovim import Neovim

CODE = "def total(price):\n    return price * 2\n"
RENAMED = CODE.replace("price", "amount")
CONFIGURATION = """
vim.opt.runtimepath:append('{root}/editors/neovim')
vim.opt.runtimepath:append('{peer}')
require('fastcoder').setup({{
  name = '{name}',
  edits = {edits},
  settings = {{ edits = {{ model = 'sweep-next-edit-toy', threshold = 0 }} }},
}})
{more}
"""


@dataclass(frozen=True)
class Plugin:
    """One that shows next edits, in a checkout at `folder` (empty: our own client).

    `more` is its own configuration; `shows` is Lua that says whether it shows an edit.
    """

    name: str
    folder: str
    more: str
    shows: str
    edits: str = "nil"


PLUGINS = {
    "ours": Plugin("fastcoder", "", "", "return require('fastcoder').is_edit_visible()", "true"),
    "sidekick.nvim": Plugin(
        "copilot",
        "sidekick.nvim",
        """
        if vim.fn.has('nvim-0.12') == 0 then -- whose handlers are told the request's number, which the plugin relies on
          local request = vim.lsp.client.request
          vim.lsp.client.request = function(self, method, params, handler, buffer)
            local sent, id
            sent, id = request(self, method, params, handler and function(err, result, context)
              context.request_id = id
              handler(err, result, context)
            end, buffer)
            return sent, id
          end
        end
        require('sidekick').setup()
        vim.keymap.set('n', '<Tab>', function()
          return require('sidekick').nes_jump_or_apply() and '' or '<Tab>'
        end, { expr = true })
        """,
        "return require('sidekick.nes').have()",
    ),
    "copilot-lsp": Plugin(
        "copilot_ls",
        "copilot-lsp",
        """
        vim.keymap.set('n', '<Tab>', function()
          local nes = require('copilot-lsp.nes')
          if not vim.b.nes_state then
            return '<C-i>'
          end
          local _ = nes.walk_cursor_start_edit() or (nes.apply_pending_nes() and nes.walk_cursor_end_edit())
        end, { expr = true })
        """,
        "return vim.b.nes_state ~= nil",
    ),
}
"""Each as docs/next-edit.md configures it."""


PEERS = Path(os.environ.get("FASTCODER_PEERS", ""))


@pytest.fixture(params=[name for name, of in PLUGINS.items() if not of.folder or (PEERS / of.folder).is_dir()])
def plugin(request: pytest.FixtureRequest) -> Plugin:
    return PLUGINS[request.param]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return put_scripted_on_path(tmp_path, monkeypatch, "--says", "ghost", "--replaces", "price", "amount")


@pytest.fixture
def editor(plugin: Plugin, server: Server, tmp_path: Path) -> Iterator[Neovim]:
    """Neovim with the plugin, in a file that only it has opened."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "total.py").write_text("crab = '🦀'\n" + CODE)
    peer = PEERS / plugin.folder
    configuration = CONFIGURATION.format(root=ROOT, peer=peer, name=plugin.name, edits=plugin.edits, more=plugin.more)
    started = Neovim(find_editor("neovim", "nvim"), configuration, folder / "total.py", tmp_path, plugin.name)
    yield started
    started.quit()
    assert_leaves(server)


def test_a_renamed_parameter_is_followed_with_one_key(plugin: Plugin, editor: Neovim) -> None:
    for key in ("jfpcw", *"amount", "<Esc>"):
        editor.type(key)
        time.sleep(0.06)  # as people type: each key is a change of its own for the server
    wait_for(lambda: editor.lua(plugin.shows), f"the edit is shown; {editor.messages()}")
    assert editor.lua("return #vim.lsp.get_clients()") == 1
    editor.type("gg<Tab>")
    wait_for(
        lambda: editor.rpc.api.win_get_cursor(0)[0] == 3 or editor.text().endswith(RENAMED), "the cursor goes there"
    )
    if not editor.text().endswith(RENAMED):
        editor.type("<Tab>")
    wait_for(lambda: editor.text().endswith(RENAMED), f"it is made, not {editor.text()!r}")
    editor.type("Go")
    wait_for(lambda: editor.ghost() == "ghost", f"one ghost text, not {editor.ghost()!r}")
    assert editor.messages() == ""
