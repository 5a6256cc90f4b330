"""The client's keys where they have nothing to do: each does what it does without the client."""

import pytest

from tests.editors.neovim_client.scripted import Scripted, offer, settle, type_and_wait, wait_for

KEYS = ("<Tab>", "<M-f>", "<M-e>", "<M-]>", "<M-[>", "<C-]>")
OFF = "vim.cmd('autocmd BufRead * let b:fastcoder = v:false')"
WITHOUT = "vim.lsp.enable('fastcoder', false)"


@pytest.mark.parametrize(
    ("key", "more"),
    [
        *(pytest.param(key, "", id=f"{key}-on") for key in KEYS),
        *(pytest.param(key, OFF, id=f"{key}-off in the buffer") for key in (*KEYS, "<M-Space>")),  # which asks when on
    ],
)
def test_a_key_does_what_it_does_without_the_client(neovim: Scripted, key: str, more: str) -> None:
    editor = neovim(more=more)
    text = "one.two three(four)\n\nlast"

    def outcome() -> tuple[object, ...]:
        editor.type("<Esc>")
        wait_for(lambda: editor.mode() == "n", "normal mode")
        editor.rpc.api.buf_set_lines(0, 0, -1, False, text.split("\n"))
        editor.type(f"gg$ia{key}0")
        settle(editor)
        return editor.text(), editor.mode(), editor.rpc.api.win_get_cursor(0)

    with_client = outcome()
    editor.lua(WITHOUT)
    wait_for(lambda: not editor.lua("return #vim.lsp.get_clients()"), "the server goes")
    assert editor.lua("return vim.fn.maparg(..., 'i', false, true).desc or ''", key).find("fastcoder") == -1
    assert with_client == outcome()


@pytest.mark.parametrize("key", KEYS)
def test_a_key_too_many_is_none_of_ours(neovim: Scripted, key: str) -> None:
    """Keys that wait in a row: the first acts on the suggestion, the next finds none and does what it always does."""
    editor = neovim()
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    editor.lua("scripted.hold = true")
    editor.type(f"x{key}0")  # the letter does not fit, but its event waits for the key
    settle(editor)
    assert editor.ghost() == ""
    assert editor.line() == {"<Tab>": "ax  0", "<C-]>": "ax0"}.get(key, "ax")  # Meta is Esc: f0, e0, [0, ]0
    assert editor.mode() == ("i" if key in ("<Tab>", "<C-]>") else "n")


def test_mappings_made_before_while_and_after(neovim: Scripted) -> None:
    editor = neovim(more="vim.keymap.set('i', '<M-f>', 'G') vim.keymap.set('i', '<M-e>', 'E', { buffer = 1 })")
    editor.type("i<M-f><M-e>")
    wait_for(lambda: editor.line() == "GE", "both from before")
    editor.lua("vim.keymap.set('i', '<M-f>', 'B', { buffer = true })")
    offer(editor, "ghost")
    type_and_wait(editor, "<M-f>", "ghost")
    assert editor.line() == "GEB"
    editor.lua("vim.keymap.set('i', '<M-e>', 'W', { buffer = true })")  # while it is shown
    type_and_wait(editor, "<C-]>", "")
    offer(editor)
    editor.type("<M-f><M-e>")
    wait_for(lambda: editor.line() == "GEBBW", f"those of now, not {editor.line()}")


def test_a_mapping_that_wraps_ours_is_not_run_for_ever(neovim: Scripted) -> None:
    """Menus take a buffer's mapping over, and call it where they have nothing to do themselves."""
    editor = neovim()
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    editor.lua(
        """
        local ours = vim.fn.maparg('<Tab>', 'i', false, true).callback
        _G.runs = 0
        vim.keymap.set('i', '<Tab>', function() _G.runs = _G.runs + 1 ours() end, { buffer = true })
        """
    )
    offer(editor)
    type_and_wait(editor, "<C-]>", "")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "a   ", f"a tab, not {editor.line()!r}")
    assert editor.lua("return runs") == 1


def test_keys_of_a_macro_and_no_suggestion_in_one(neovim: Scripted) -> None:
    editor = neovim("first\nsecond\n")
    offer(editor, "ghost")
    editor.type("qqA<Tab>")
    settle(editor)
    assert editor.ghost() == ""
    editor.type("x<Esc>jq")
    wait_for(lambda: editor.lua("return vim.fn.reg_recording()") == "", "recorded")
    assert editor.lua("return vim.fn.keytrans(vim.fn.getreg('q'))") == "A<Tab>x<Esc>j"
    editor.type("@q")
    settle(editor)
    assert [line.replace("\t", " ").split() for line in editor.text().splitlines()] == [["first", "x"], ["second", "x"]]
    type_and_wait(editor, "A", "ghost")


@pytest.mark.parametrize("keys", ["<C-v>b", "<C-q>b", "<C-r>b", "<C-k>b*"])
def test_ghost_text_goes_while_a_key_waits_for_another(neovim: Scripted, keys: str) -> None:
    """Such a key draws a sign at the cursor, and no event comes before the next key."""
    editor = neovim()
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    editor.lua(
        """
        vim.fn.setreg('b', 'b')
        vim.on_key(function(key)
          if key == 'b' and seen == nil then
            seen = #vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace('fastcoder'), 0, -1, {})
          end
        end)
        """
    )
    editor.type(keys)
    wait_for(lambda: len(editor.line()) == 2, "the character goes in")
    assert editor.lua("return seen") == 0
    wait_for(lambda: editor.ghost() == "ghost", "it is suggested there again")
