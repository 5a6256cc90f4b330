"""The client sends the place where the cursor rests, once, in normal and insert mode."""

from typing import Any

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, settle, wait_for

TEXT = "first = 1\n\ndef of(x):\n    return x\n"


def opened(neovim: Scripted) -> Neovim:
    editor = neovim(TEXT)
    editor.lua("require('fastcoder.cursor').REST_MS = 20")
    return editor


def told(editor: Neovim) -> list[tuple[int, int]]:
    notified: list[dict[str, Any]] = editor.lua("return scripted.notified")
    places = [one["params"]["position"] for one in notified if one["method"] == "fastcoder/cursor"]
    return [(place["line"], place["character"]) for place in places]


def test_a_place_is_sent_where_the_cursor_rests(neovim: Scripted) -> None:
    editor = opened(neovim)
    editor.type("gg2j")
    wait_for(lambda: (2, 0) in told(editor), "it is sent")
    editor.type("A")
    wait_for(lambda: (2, len("def of(x):")) in told(editor), "it is sent in insert mode")
    sent = told(editor)
    assert len(set(sent)) == len(sent)
    message = editor.lua("return scripted.notified")[-1]["params"]
    assert message["textDocument"]["uri"] == editor.lua("return vim.uri_from_bufnr(0)")
    assert isinstance(message["textDocument"]["version"], int)


def test_no_cursor_is_sent_with_a_selection_or_when_switched_off(neovim: Scripted) -> None:
    editor = opened(neovim)
    editor.type("ggvj")
    settle(editor)
    assert (1, 0) not in told(editor)
    editor.type("\x1b")
    editor.lua("vim.b.fastcoder = false")
    editor.type("3j")
    settle(editor)
    assert (3, 0) not in told(editor)
    editor.lua("vim.b.fastcoder = nil; require('fastcoder.config').options.auto = false")
    editor.type("gg")
    settle(editor)
    assert (0, 0) not in told(editor)[1:]
