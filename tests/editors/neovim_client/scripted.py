"""A real Neovim, and a scripted server inside it that says what a test needs; how tests speak to both."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import ROOT, find_editor
from tests.editors.conftest import wait_for as wait_long_for
from tests.editors.neovim import Neovim

CONFIGURATION = """
vim.opt.runtimepath:append('{root}/editors/neovim')
vim.lsp.config('fastcoder', {{ cmd = dofile('{here}/scripted_server.lua')('{encoding}') }})
vim.lsp.enable('fastcoder')
{more}
"""
wait_for = partial(wait_long_for, wait_s=60.0)
"""Nothing computes here; a busy machine may still let one wait."""


class Scripted:
    """Neovim with the scripted server in a file of one language, in insert mode at the end of an empty buffer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._program = find_editor("neovim", "nvim")
        self._folder = folder
        self._opened: list[Neovim] = []
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(variable, str(folder / variable.lower()))

    def __call__(self, text: str = "", *, more: str = "", encoding: str = "utf-8") -> Neovim:
        file = self._folder / "example.py"
        file.write_text(text)
        here = Path(__file__).parent.parent
        configuration = CONFIGURATION.format(root=ROOT, here=here, encoding=encoding, more=more)
        editor = Neovim(self._program, configuration, file, self._folder)
        self._opened.append(editor)
        wait_for(lambda: editor.lua("return vim.lsp.get_clients({ bufnr = 0 })[1].initialized"), "it is initialized")
        return editor

    def close(self) -> None:
        for editor in self._opened:
            editor.quit()


def offer(editor: Neovim, *texts: str) -> None:
    """From now on the server suggests these texts where the cursor is."""
    editor.lua("scripted.items = vim.tbl_map(function(text) return { insertText = text } end, ...)", list(texts))


def offer_over(editor: Neovim, text: str, before: int = 0, behind: int = 0) -> None:
    """The same of one text, which replaces so many characters before the cursor and behind it."""
    editor.lua(
        """
        local text, before, behind = ...
        scripted.items = function(params)
          local at = params.position
          local from = { line = at.line, character = at.character - before }
          local to = { line = at.line, character = at.character + behind }
          return { { insertText = text, range = { start = from, ['end'] = to } } }
        end
        """,
        text,
        before,
        behind,
    )


def requests(editor: Neovim, method: str = "textDocument/inlineCompletion") -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = editor.lua("return scripted.requests")
    return [request for request in asked if request["method"] == method]


def type_and_wait(editor: Neovim, keys: str, ghost: str) -> None:
    editor.type(keys)
    wait_for(lambda: editor.ghost() == ghost, f"ghost text {ghost!r}, not {editor.ghost()!r}")


BEHIND_LINE = """
    local space = vim.api.nvim_create_namespace('fastcoder-notice')
    local marks = vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })
    return vim.tbl_map(function(mark) return { mark[2], mark[4].virt_text_pos, mark[4].virt_text[1][1] } end, marks)
"""
"""Lua: the notices behind lines, each with its row and position."""


def notices(editor: Neovim) -> str:
    """What stands in the corner of the screen."""
    code = """
        local text = {}
        for _, window in ipairs(vim.api.nvim_list_wins()) do
          if vim.api.nvim_win_get_config(window).relative ~= '' then
            vim.list_extend(text, vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false))
          end
        end
        return table.concat(text, ' ')
    """
    return str(editor.lua(code))


def settle(editor: Neovim) -> None:
    """Let every timer, key and scheduled function come to its end."""
    editor.lua("vim.wait(120, function() return false end)")


def at(editor: Neovim, column: int) -> list[int]:
    """The requests, by number, at a column of the first line; a slow machine asks on entering insert mode, too."""
    return [i for i, asked in enumerate(requests(editor), 1) if asked["params"]["position"]["character"] == column]


def tell_late(editor: Neovim, **changed: object) -> None:
    """The server has made what belongs at the cursor, or at another place."""
    editor.lua(
        """
        local changed = ...
        local position = vim.lsp.util.make_position_params(0, 'utf-8').position
        local version = vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]
        position.character = position.character + (changed.columns or 0)
        scripted.tell('fastcoder/late', {
          textDocument = { uri = vim.uri_from_bufnr(0), version = version + (changed.versions or 0) },
          position = position,
        })
        """,
        changed,
    )
