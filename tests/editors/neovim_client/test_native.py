"""Where Neovim itself draws, as it can from 0.12 on: a stand-in for its functions, behind our keys."""

import pytest

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, offer, requests, settle, tell_late, wait_for

NATIVE = """
-- What Neovim 0.12 documents of vim.lsp.inline_completion, for one suggestion.
local seen = { enabled = {}, selected = {} }
_G.native = seen
vim.lsp.inline_completion = {
  enable = function(on, filter) table.insert(seen.enabled, { on, filter.bufnr }) end,
  select = function(options) table.insert(seen.selected, options.count) end,
  get = function(options)
    local item = seen.item
    if not item then return false end
    vim.schedule(function()
      seen.item = nil
      vim.api.nvim_buf_clear_namespace(0, seen.namespace, 0, -1)
      local accept = options and options.on_accept or function() vim.api.nvim_paste(item.insert_text, false, 0) end
      accept(item)
    end)
    return true
  end,
}
seen.namespace = vim.api.nvim_create_namespace('nvim.lsp.inline_completion')
seen.show = function(text, range)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  seen.item = { insert_text = text, range = range }
  vim.api.nvim_buf_set_extmark(0, seen.namespace, row - 1, col, { virt_text = { { text } } })
end
require('fastcoder').setup({ ghost = 'native' })
"""


def show(editor: Neovim, arguments: str) -> None:
    """Show a suggestion; its keys work from the next drawing of the screen on."""
    editor.lua(f"native.show({arguments})")
    wait_for(lambda: editor.lua("return vim.fn.maparg('<Tab>', 'i', false, true).buffer") == 1, "the keys act on it")


def test_the_keys_of_neovim_0_12(neovim: Scripted) -> None:
    """Where Neovim has inline completion of its own, ours is off and our keys use it (a stand-in: there is no 0.12)."""
    editor = neovim(more=NATIVE)
    offer(editor, "never asked by us")
    assert editor.lua("return native.enabled")[-1][0] is True
    editor.type("ia")
    settle(editor)
    assert requests(editor) == []
    show(editor, "'one two'")
    editor.type("<M-f>")
    wait_for(lambda: editor.line() == "aone", "a word goes in")
    show(editor, "' two\\n  three'")
    editor.type("<M-]><M-[>")
    wait_for(lambda: editor.lua("return native.selected") == [1, -1], "the turns go to Neovim")
    editor.type("<M-e>")
    wait_for(lambda: editor.line() == "aone two", "the line goes in")
    show(editor, "'!'")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "aone two!", "all of it goes in")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "aone two!   ", "Tab is Tab again")


RANGES = ("{ start_row = 0, start_col = 0, end_row = 0, end_col = 3 }", "{ start = { col = 0 }, end_ = { col = 3 } }")


@pytest.mark.parametrize("range_", RANGES)
@pytest.mark.parametrize(
    ("typed", "becomes"), [("foo", "foobar"), ("foob", "foobar"), ("fox", "fox"), ("foo)<Left>", "foobar)")]
)
def test_letters_typed_after_the_answer_stay_once(neovim: Scripted, range_: str, typed: str, becomes: str) -> None:
    """The answer was for `foo`, and its range is as old; a text that no longer fits is not put in."""
    editor = neovim(more=NATIVE)
    editor.type(f"i{typed}")
    wait_for(lambda: editor.line() == typed.replace("<Left>", "") and editor.mode() == "i", "typed")
    settle(editor)
    show(editor, f"'foobar', {range_}")
    editor.type("<Tab>")
    wait_for(lambda: editor.lua("return native.item == nil"), "the suggestion is accepted")
    settle(editor)
    wait_for(lambda: editor.line() == becomes, "its text is there")


def test_neovim_0_12_is_made_to_ask_for_what_was_late(neovim: Scripted) -> None:
    """It asks when the cursor has moved: so it is told that, where nothing is shown and the place is the same."""
    editor = neovim(more=NATIVE)
    editor.type("ia")
    wait_for(lambda: editor.line() == "a" and editor.mode() == "i", "typed")
    settle(editor)
    counts = "_G.moved = 0 vim.api.nvim_create_autocmd('CursorMovedI', { callback = function() moved = moved + 1 end })"
    editor.lua(counts)
    tell_late(editor, columns=-1)
    settle(editor)
    assert editor.lua("return moved") == 0
    tell_late(editor)
    wait_for(lambda: editor.lua("return moved") == 1, "Neovim asks")
    editor.lua("native.show('there already')")
    tell_late(editor)
    settle(editor)
    assert editor.lua("return moved") == 1
