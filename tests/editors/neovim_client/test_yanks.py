"""Where somebody copies code is told to our server: the place alone, and only what is copied to be put in elsewhere."""

import json
from typing import Any

import pytest

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, settle, wait_for

TEXT = "first = 1\n\ndef of(x):\n    return x\n\npassword = 'hunter2'\n"
WANTED = "_G.wants_definitions = true"


def opened(neovim: Scripted, more: str = WANTED) -> Neovim:
    editor = neovim(TEXT, more=more)
    editor.lua("require('fastcoder.yanks').PAUSE_MS = 20")
    return editor


def told(editor: Neovim) -> list[dict[str, Any]]:
    notified: list[dict[str, Any]] = editor.lua("return scripted.notified")
    return [one["params"] for one in notified if one["method"] == "fastcoder/yanked"]


def lines(message: dict[str, Any]) -> tuple[int, int]:
    """From…to of whole lines."""
    place = message["range"]
    assert place["start"]["character"] == place["end"]["character"] == 0
    return place["start"]["line"], place["end"]["line"]


def version(editor: Neovim) -> int:
    """Of the document, as the server was told last."""
    found: int = editor.lua("return vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]")
    return found


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ("ggyy", (0, 1)),
        ("gg2jVjy", (2, 4)),
        ("gg2jvj2ly", (2, 4)),
        ("gg2jyiw", (2, 3)),
        ('gg"ayy', (0, 1)),
        ('gg"Ayy', (0, 1)),
        ("gg2j\x16jy", (2, 4)),
        (":3,4yank\r", (2, 4)),
        ("ggjj$vby", (2, 3)),
    ],
)
def test_the_lines_that_are_copied_are_told(neovim: Scripted, keys: str, place: tuple[int, int]) -> None:
    editor = opened(neovim)
    editor.type(keys)
    wait_for(lambda: told(editor), "it is told")
    (message,) = told(editor)
    uri = editor.lua("return vim.uri_from_bufnr(0)")
    assert message["textDocument"] == {"uri": uri, "version": version(editor)}
    assert lines(message) == place
    assert set(message) == {"textDocument", "range"}


@pytest.mark.parametrize("keys", ["ggdd", "ggcwnew\x1b", "ggx", 'gg"_yy', 'gg"+yy', 'gg"*yy', 'gg"_dd', "ggCnew\x1b"])
def test_what_is_deleted_or_goes_to_other_programs_is_not(neovim: Scripted, keys: str) -> None:
    editor = opened(neovim)
    editor.type(keys)
    settle(editor)
    settle(editor)
    assert told(editor) == []


def test_what_is_put_in_at_once_was_told_before(neovim: Scripted) -> None:
    editor = opened(neovim)
    before = version(editor)
    editor.type("ggyyp")
    wait_for(lambda: told(editor), "it is told")
    assert told(editor)[0]["textDocument"]["version"] == before
    wait_for(lambda: version(editor) > before, "the change follows")


def test_a_command_that_copies_much_tells_little(neovim: Scripted) -> None:
    editor = opened(neovim)
    editor.lua("vim.cmd('normal! gg') for number = 1, 200 do vim.cmd('2,4yank') vim.cmd('1yank') end")
    wait_for(lambda: len(told(editor)) > 1, "the last one is told")
    settle(editor)
    assert lines(told(editor)[-1]) == (0, 1)
    assert len(told(editor)) <= 20


@pytest.mark.parametrize(
    "switch",
    [
        "vim.b.fastcoder = false",
        "scripted.tell('fastcoder/status', { state = 'off', message = '', hint = '', context = true })",
        "scripted.tell('fastcoder/status', { state = 'ready', message = '', hint = '', context = false })",
        "vim.lsp.buf_detach_client(0, vim.lsp.get_clients({ name = 'fastcoder' })[1].id)",
        "vim.cmd('enew') vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'elsewhere' })",
    ],
)
def test_nothing_is_told_where_it_is_of_no_use(neovim: Scripted, switch: str) -> None:
    editor = opened(neovim)
    editor.lua(switch)
    settle(editor)
    editor.type("ggyy")
    settle(editor)
    settle(editor)
    assert told(editor) == []


def test_the_server_says_later_that_it_is_of_use(neovim: Scripted) -> None:
    editor = opened(neovim, "_G.wants_definitions = false")
    editor.type("ggyy")
    settle(editor)
    assert told(editor) == []
    editor.lua("scripted.tell('fastcoder/status', { state = 'ready', message = '', hint = '', context = true })")
    editor.type("yy")
    wait_for(lambda: told(editor), "it is told")
    assert "first" not in json.dumps(told(editor))
