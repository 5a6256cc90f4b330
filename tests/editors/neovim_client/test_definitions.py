"""What the buffer's other servers know of the names near the cursor is told to ours: places, while nobody types."""

from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import ROOT
from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, settle, wait_for

OTHER = """
_G.wants_definitions = {wanted}
vim.lsp.config('other', {{
  cmd = dofile('{here}/another_server.lua')('utf-16'), filetypes = {{ 'python' }},
}})
vim.lsp.enable('other')
local definitions = require('fastcoder.definitions')
definitions.IDLE_MS = {idle_ms}
"""
TEXT = "first = 1\n\nstore = Store()\nstore.put(key)\n"
PLACE = {
    "uri": "file:///w/store.py",
    "range": {"start": {"line": 3, "character": 6}, "end": {"line": 3, "character": 11}},
}


def opened(neovim: Scripted, *, wanted: str = "true", text: str = TEXT, idle_ms: int = 30) -> Neovim:
    """Neovim with both servers in a file, ours knowing the notification or not; asked after so long without a key."""
    editor = neovim(text, more=OTHER.format(here=Path(__file__).parent.parent, wanted=wanted, idle_ms=idle_ms))
    wait_for(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0, name = 'other' })") == 1, "both are there")
    return editor


def told(editor: Neovim) -> list[dict[str, Any]]:
    notified: list[dict[str, Any]] = editor.lua("return scripted.notified")
    return [one["params"] for one in notified if one["method"] == "fastcoder/definitions"]


def knows(editor: Neovim, place: object = PLACE) -> None:
    editor.lua("another.definitions = ...", place)


def asks_soon(editor: Neovim) -> None:
    """Ask from the next key on, and not before the other server knows the places."""
    editor.lua("require('fastcoder.definitions').IDLE_MS = 30")


NEVER_MS = 10**6


def answered(editor: Neovim) -> None:
    """All that was asked is answered, and nothing is open."""
    editor.type("G")
    wait_for(lambda: told(editor), "it is told")
    settle(editor)  # the first line's answer may have been told, and the same one is not told again


def test_places_of_names_near_the_cursor_are_told(neovim: Scripted) -> None:
    editor = opened(neovim, text="🦀 = far\n\nx = '🦀'; store = Store()\nstore.put(key)\n", idle_ms=NEVER_MS)
    knows(editor)
    asks_soon(editor)
    editor.type("G")
    wait_for(lambda: told(editor), "they are told")
    (message,) = told(editor)
    assert message["textDocument"]["uri"] == editor.lua("return vim.uri_from_bufnr(0)")
    assert [one["name"] for one in message["definitions"]] == ["key", "put", "store", "Store", "far"]
    assert all({"uri": one["uri"], "range": one["range"]} == PLACE for one in message["definitions"])
    asked = [one["position"] for one in editor.lua("return another.asked")]
    assert {"line": 2, "character": len("x = '🦀'; store = ") + 1} in asked
    editor.lua("another.asked = {}")
    editor.type("l")
    settle(editor)
    assert editor.lua("return #another.asked") == 0, "in the same line nothing is new"
    assert len(told(editor)) == 1


def test_keywords_are_not_asked_for(neovim: Scripted) -> None:
    """They are defined nowhere, and would take the places of names."""
    text = "async def store(key):\n    for each in self.items: return None if not each else far\n"
    editor = opened(neovim, text=text, idle_ms=NEVER_MS)
    knows(editor)
    asks_soon(editor)
    editor.type("G")
    wait_for(lambda: told(editor), "they are told")
    assert [one["name"] for one in told(editor)[-1]["definitions"]] == ["far", "each", "items", "key", "store"]


def test_both_clients_know_the_same_words() -> None:
    of_lua = (ROOT / "editors/neovim/lua/fastcoder/definitions.lua").read_text(encoding="utf-8")
    of_code = (ROOT / "editors/vscode/src/shared/definitions.ts").read_text(encoding="utf-8")
    words = of_lua.partition("[[")[2].partition("]]")[0].split()
    assert words == of_code.partition("`\n")[2].partition("`")[0].split()
    assert sorted(words, key=str.lower) == words
    assert len(set(words)) == len(words)
    assert {"return", "class", "def", "function", "const", "fn"} <= set(words)


def test_links_and_lists_are_understood_and_the_rest_is_left(neovim: Scripted) -> None:
    editor = opened(neovim, text="value\n", idle_ms=NEVER_MS)
    own = editor.lua("return vim.uri_from_bufnr(0)")
    link = {"targetUri": "file:///w/a.py", "targetRange": PLACE["range"], "targetSelectionRange": PLACE["range"]}
    others = [{**PLACE, "uri": uri} for uri in (own, "jdt://contents/a", "untitled:b")]
    knows(editor, [*others, link, "nonsense", {"uri": 7}, PLACE, PLACE, PLACE])
    asks_soon(editor)
    editor.type("lh")
    wait_for(lambda: told(editor), "they are told")
    assert [one["uri"] for one in told(editor)[-1]["definitions"]] == ["file:///w/a.py", PLACE["uri"]]
    assert set(told(editor)[-1]["definitions"][0]) == {"name", "uri", "range"}


def test_typing_cancels_the_requests_for_definitions(neovim: Scripted) -> None:
    editor = opened(neovim)
    answered(editor)
    editor.lua("another.hold = true")
    knows(editor)
    editor.type("gg")
    wait_for(lambda: editor.lua("return #another.held") > 0, "the other server is asked")
    held = editor.lua("return #another.held")
    editor.lua("another.hold = false another.definitions = vim.NIL")
    editor.type("ix")
    wait_for(lambda: editor.lua("return #another.cancelled") >= held, "and no longer")
    editor.lua("local late = ... another.definitions = late for _, reply in ipairs(another.held) do reply() end", PLACE)
    editor.lua("another.definitions = vim.NIL")
    settle(editor)
    settle(editor)
    assert all(not message["definitions"] for message in told(editor))


def test_a_server_that_never_answers_holds_nothing_up(neovim: Scripted) -> None:
    editor = opened(neovim)
    editor.lua("require('fastcoder.definitions').ANSWER_MS = 100")
    knows(editor)
    answered(editor)
    editor.lua("another.hold = true scripted.notified = {}")
    editor.type("ggx")
    wait_for(lambda: told(editor), "it is told")
    assert told(editor)[-1]["definitions"] == {} or told(editor)[-1]["definitions"] == []
    assert editor.lua("return #another.cancelled") > 0


def test_a_server_has_one_question_at_a_time(neovim: Scripted) -> None:
    """The user's own requests wait behind ours; and who did not answer one in time has enough to do."""
    editor = opened(neovim)
    answered(editor)
    editor.lua("another.hold, another.asked = true, {}")
    editor.type("gg")
    wait_for(lambda: editor.lua("return #another.asked") > 0, "it is asked")
    for keys in ("G", "gg"):
        editor.type(keys)
        settle(editor)
    assert editor.lua("return #another.asked") == 1
    knows(editor)
    editor.lua("another.hold, scripted.notified = false, {} for _, reply in ipairs(another.held) do reply() end")
    editor.type("j")
    wait_for(lambda: told(editor), "it is asked again")
    assert len(told(editor)[-1]["definitions"]) == 5


OFF = "scripted.tell('fastcoder/status', { state = 'off', message = '', hint = '' })"


@pytest.mark.parametrize(("wanted", "switch"), [("false", ""), ("true", "vim.b.fastcoder = false"), ("true", OFF)])
def test_no_server_is_asked_for_unused_definitions(neovim: Scripted, wanted: str, switch: str) -> None:
    editor = opened(neovim, wanted=wanted)
    knows(editor)
    if switch:
        answered(editor)
    editor.lua(f"{switch} another.asked = {{}}")
    editor.type("gg")
    settle(editor)
    settle(editor)
    assert told(editor) == [] or switch
    assert editor.lua("return #another.asked") == 0
