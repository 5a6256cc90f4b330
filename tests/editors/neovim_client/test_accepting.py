"""What is chosen and put in: whole, by word, by line, typed along, among alternatives, by keys of one's own."""

from functools import partial

import pytest

from tests.editors.neovim_client.scripted import Scripted, offer, offer_over, requests, settle, type_and_wait, wait_for


def test_alternatives_turn_and_the_chosen_one_is_accepted(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "one")
    type_and_wait(editor, "ix = ", "one")
    assert requests(editor)[-1]["params"]["context"]["triggerKind"] == 2
    offer(editor, "one", "two", "three", "two")
    type_and_wait(editor, "<M-]>", "two 2/3")
    assert requests(editor)[-1]["params"]["context"]["triggerKind"] == 1
    asked = len(requests(editor))
    type_and_wait(editor, "<M-]>", "three 3/3")
    type_and_wait(editor, "<M-]>", "one 1/3")
    type_and_wait(editor, "<M-[>", "three 3/3")
    assert len(requests(editor)) == asked
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "x = three", "the chosen one goes in")


def test_typing_goes_on_with_the_alternative_that_fits(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "alpha", "beta", "bet2")
    type_and_wait(editor, "i<M-Space>", "alpha 1/3")
    asked = len(requests(editor))
    type_and_wait(editor, "be", "ta 1/2")
    type_and_wait(editor, "t", "a 1/2")
    settle(editor)
    assert len(requests(editor)) == asked
    editor.lua("scripted.hold = true")
    type_and_wait(editor, "2", "")
    assert editor.line() == "bet2"


def test_accepting_is_one_undo_step(neovim: Scripted) -> None:
    editor = neovim("old\n")
    offer(editor, "suggested\n    text")
    type_and_wait(editor, "otyped ", "suggested\n    text")
    editor.type("<Tab>")
    wait_for(lambda: editor.text() == "old\ntyped suggested\n    text\n", "it goes in")
    assert editor.rpc.api.win_get_cursor(0) == [3, len("    text")]
    editor.type("<Esc>u")
    wait_for(lambda: editor.text() == "old\ntyped \n", "what was typed is left")
    editor.type("u")
    wait_for(lambda: editor.text() == "old\n", "and goes by the next undo")
    editor.type("<C-r><C-r>")
    wait_for(lambda: editor.text() == "old\ntyped suggested\n    text\n", "redo brings both")


def test_accepting_line_by_line_and_word_by_word(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "größe = naïve(1)\n    zwei drei")
    type_and_wait(editor, "ix", "größe = naïve(1)\n    zwei drei")
    editor.lua("scripted.hold = true")
    type_and_wait(editor, "<M-f>", " = naïve(1)\n    zwei drei")
    type_and_wait(editor, "<M-f>", " naïve(1)\n    zwei drei")
    type_and_wait(editor, "<M-e>", "\n    zwei drei")
    type_and_wait(editor, "<M-f>", " drei")
    assert editor.text() == "xgröße = naïve(1)\n    zwei\n"
    editor.type("<M-e>")
    wait_for(lambda: editor.text() == "xgröße = naïve(1)\n    zwei drei\n", "the rest goes in")
    assert editor.ghost() == ""


def test_a_typed_line_break_keeps_the_rest(neovim: Scripted) -> None:
    editor = neovim(more="vim.o.autoindent = true")
    offer(editor, "1\n    y = 2")
    type_and_wait(editor, "i    x = ", "1\n    y = 2")
    editor.lua("scripted.hold = true")
    type_and_wait(editor, "1<CR>", "y = 2")


def test_the_accept_command_runs_once_after_the_whole(neovim: Scripted) -> None:
    editor = neovim()
    editor.lua(
        """scripted.items = {
          { insertText = 'one two', command = { title = '', command = 'fastcoder.accepted', arguments = { 7 } } } }"""
    )
    type_and_wait(editor, "ix", "one two")
    editor.lua("scripted.hold = true")
    type_and_wait(editor, "<M-f>", " two")
    settle(editor)
    assert requests(editor, "workspace/executeCommand") == []
    editor.type("<Tab>")
    told = partial(requests, editor, "workspace/executeCommand")
    wait_for(told, "the server is told")
    assert [request["params"]["arguments"] for request in told()] == [[7]]


MAPPINGS = {
    "none": ("", "a   "),
    "global": ("vim.keymap.set('i', '<Tab>', 'T')", "aT"),
    "global expression": ("vim.keymap.set('i', '<Tab>', function() return '<lt>T>' end, { expr = true })", "a<T>"),
    "global function": ("vim.keymap.set('i', '<Tab>', function() vim.api.nvim_put({'F'}, 'c', true, true) end)", "aF"),
    "vim script expression": ("vim.cmd([[inoremap <expr> <Tab> 'V' .. (1 + 1)]])", "aV2"),
    "through <Plug>": ("vim.cmd('imap <Tab> <Plug>(x)|inoremap <Plug>(x) P')", "aP"),
    "of the buffer": ("vim.cmd('autocmd BufRead * inoremap <buffer> <Tab> B')", "aB"),
}


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_tab_is_what_it_was_without_ghost_text(neovim: Scripted, mapping: str) -> None:
    configuration, typed = MAPPINGS[mapping]
    editor = neovim(more=configuration)
    editor.type("ia<Tab>")
    wait_for(lambda: editor.line() == typed, f"{typed!r}, not {editor.line()!r}")
    offer(editor, "ghost")
    type_and_wait(editor, "x", "ghost")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == typed + "xghost", "Tab accepts")
    editor.type("<Esc>")
    editor.lua("vim.lsp.enable('fastcoder', false)")
    wait_for(lambda: not editor.lua("return #vim.lsp.get_clients()"), "the server goes")
    wait_for(
        lambda: "fastcoder" not in editor.lua("return vim.fn.maparg('<Tab>', 'i', false, true).desc or ''"),
        "the key is given back",
    )
    editor.type("ccb<Tab>")
    wait_for(lambda: editor.line() == "b" + typed[1:], f"{'b' + typed[1:]!r}, not {editor.line()!r}")


def test_the_completion_menu_comes_first(neovim: Scripted) -> None:
    editor = neovim("alphabet\n", more="vim.o.completeopt = 'menuone,noselect'")
    offer(editor, "ghost")
    editor.type("oal<C-x><C-n>")
    wait_for(lambda: editor.lua("return vim.fn.pumvisible() == 1"), "the menu opens")
    wait_for(lambda: editor.ghost() == "ghost", "ghost text beside the menu")
    type_and_wait(editor, "<C-n>", "")
    assert editor.line() == "alphabet"
    settle(editor)
    assert editor.ghost() == ""
    type_and_wait(editor, "<C-y>.", "ghost")


# What of the plugins is asked, as they answer it.
CMP = """
package.loaded.cmp = { core = { view = {
  visible = function() return true end,
  get_selected_entry = function() return _G.selected end,
} } }
"""
BLINK = """
package.loaded['blink.cmp'] = {
  is_menu_visible = function() return true end,
  get_selected_item = function() return {} end,
}
package.loaded['blink.cmp.completion.list'] = setmetatable({}, {
  __index = function(_, name) return name == 'is_explicitly_selected' and _G.selected ~= nil end,
})
"""


@pytest.mark.parametrize("menu", [CMP, BLINK], ids=["nvim-cmp", "blink.cmp"])
def test_the_menu_of_a_plugin_comes_first(neovim: Scripted, menu: str) -> None:
    """A plugin's menu has no event for its selection: the key looks, and so does the drawing of the screen."""
    editor = neovim(more=menu + "vim.keymap.set('i', '<Tab>', 'T')")
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    editor.lua("_G.selected = {}")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "aT", f"Tab is the user's, not {editor.line()!r}")
    editor.lua("_G.selected = nil")
    type_and_wait(editor, "x", "ghost")
    editor.lua("_G.selected = {} vim.cmd.redraw({ bang = true })")
    wait_for(lambda: editor.ghost() == "", "it goes")


def test_the_repeat_command_repeats_what_was_accepted(neovim: Scripted) -> None:
    editor = neovim("f()\n\n")
    offer_over(editor, "one)", behind=1)
    type_and_wait(editor, "jif()<C-g>U<Left>", "one")
    editor.lua("scripted.hold = true")
    editor.type("<Tab>.x<Esc>")
    wait_for(lambda: editor.line() == "f(one).x", f"accepted, not {editor.line()!r}")
    editor.type("o<Esc>")
    editor.type("if(")
    editor.lua("scripted.hold = false scripted.items = { { insertText = '1,\\n  2)' } }")
    type_and_wait(editor, "0", "1,\n  2)")
    editor.type("<Tab>!<Esc>")
    wait_for(lambda: editor.text() == "f()\nf(one).x\nf(01,\n  2)!\n", f"not {editor.text()!r}")
    editor.type("gg0.")
    wait_for(lambda: editor.text().startswith("f(01,\n  2)!f()\n"), f"repeated, not {editor.text()!r}")


def test_other_keys(neovim: Scripted) -> None:
    editor = neovim(more="require('fastcoder').setup({ keys = { accept = '<C-y>', accept_word = false } })")
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    assert editor.lua("return vim.fn.maparg('<M-f>', 'i')") == ""
    editor.type("<C-y>")
    wait_for(lambda: editor.line() == "aghost", "the other key accepts")
