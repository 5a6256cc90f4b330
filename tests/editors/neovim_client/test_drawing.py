"""How a suggestion stands on the screen, and what of the line it takes the place of."""

import pytest

from tests.editors.neovim_client.scripted import Scripted, offer, requests, type_and_wait, wait_for

ENCODINGS = ("utf-8", "utf-16", "utf-32")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_positions_in_every_encoding(neovim: Scripted, encoding: str) -> None:
    """An item whose range begins before the cursor is drawn from the cursor on, behind characters of any width."""
    editor = neovim(encoding=encoding)
    before = "crab = '🦀é𝔘'; pri"
    editor.lua(
        """
        scripted.items = function(params)
          local at = params.position
          local from = { line = at.line, character = at.character - 3 }
          return { { insertText = 'print(crab)', range = { start = from, ['end'] = at } } }
        end
        """
    )
    type_and_wait(editor, "i" + before, "nt(crab)")
    units = {"utf-8": len(before.encode()), "utf-16": len(before.encode("utf-16-le")) // 2, "utf-32": len(before)}
    assert requests(editor)[-1]["params"]["position"]["character"] == units[encoding]
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "crab = '🦀é𝔘'; print(crab)", "Tab accepts")


def test_what_the_suggestion_replaces_is_not_drawn_twice(neovim: Scripted) -> None:
    """A suggestion that ends with the closer behind the cursor shows only what is new, and takes the closer's place."""
    editor = neovim("f()\n")
    editor.lua(
        """
        scripted.items = function(params)
          local at = params.position
          local to = { line = at.line, character = at.character + 1 }
          return { { insertText = 'ne(1))', range = { start = at, ['end'] = to } } }
        end
        """
    )
    type_and_wait(editor, "f(ao", "ne(1)")
    assert editor.line() == "f(o)"
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "f(one(1))", "the closer is there once")
    assert editor.rpc.api.win_get_cursor(0) == [1, len("f(one(1))")]


def test_what_the_suggestion_replaces_otherwise_is_struck_out(neovim: Scripted) -> None:
    """Over several lines the closer cannot stay where it is: it is shown as going."""
    editor = neovim("f()\n")
    editor.lua(
        """
        scripted.items = function(params)
          local at = params.position
          local to = { line = at.line, character = at.character + 1 }
          return { { insertText = 'ne,\\n  two)', range = { start = at, ['end'] = to } } }
        end
        """
    )
    type_and_wait(editor, "f(ao", "ne,\n  two)")
    namespace = editor.rpc.api.create_namespace("fastcoder")
    mark = editor.rpc.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})[0]
    assert (mark[2], mark[3]["end_col"], mark[3]["hl_group"]) == (3, 4, "FastcoderReplaced")
    editor.type("<Tab>")
    wait_for(lambda: editor.text() == "f(one,\n  two)\n", "it goes in, the closer goes")


def test_tabs_are_as_wide_as_they_will_be(neovim: Scripted) -> None:
    """Virtual text would show a tab as one cell: it is drawn as the spaces that it stands for, and goes in as a tab."""
    editor = neovim(more="vim.o.tabstop = 4")
    offer(editor, "x\ty\n\tz")
    type_and_wait(editor, "iab", "x y\n    z")
    editor.type("<Tab>")
    wait_for(lambda: editor.text() == "abx\ty\n\tz\n", "tabs go in")
