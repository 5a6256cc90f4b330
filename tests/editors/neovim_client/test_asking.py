"""When the server is asked, and whose answer is shown: while typing, after a pause, late, by a key, not at all."""

import pytest

from tests.editors.neovim_client.scripted import (
    BEHIND_LINE,
    Scripted,
    at,
    notices,
    offer,
    requests,
    settle,
    tell_late,
    type_and_wait,
    wait_for,
)


def test_an_answer_that_comes_too_late_is_dropped(neovim: Scripted) -> None:
    editor = neovim()
    editor.lua("scripted.hold = true")
    editor.type("ia")
    wait_for(lambda: at(editor, 1), "the first request")
    editor.type("b")
    wait_for(lambda: at(editor, 2), "the second request")
    (first,), (second,) = at(editor, 1), at(editor, 2)
    ids = [request["id"] for request in requests(editor)]
    assert ids[first - 1] in editor.lua("return scripted.cancelled")
    offer(editor, "late")
    editor.lua(f"scripted.held[{first}]()")
    settle(editor)
    assert editor.ghost() == ""
    editor.lua(f"scripted.held[{second}]()")
    wait_for(lambda: editor.ghost() == "late", "the newer answer is shown")
    assert ids[second - 1] not in editor.lua("return scripted.cancelled")


def test_after_a_pause_a_suggestion_is_requested_again(neovim: Scripted) -> None:
    """Nothing may mean "not yet", and not every server tells: the place is asked about once more, and no oftener."""
    editor = neovim()
    editor.type("ia")
    wait_for(lambda: len(at(editor, 1)) == 2, "once more")
    editor.lua("vim.wait(2500, function() return false end)")
    assert len(at(editor, 1)) == 2
    editor.type("b")
    wait_for(lambda: at(editor, 2), "asked at the next place")
    offer(editor, "late")
    wait_for(lambda: editor.ghost() == "late", "it is shown when it is there")


def test_a_pause_without_a_suggestion_says_nothing(neovim: Scripted) -> None:
    editor = neovim()
    editor.type("ia")
    wait_for(lambda: len(at(editor, 1)) == 2, "asked once more")
    settle(editor)
    assert notices(editor) == ""


def test_what_was_late_is_shown_when_it_is_made(neovim: Scripted) -> None:
    editor = neovim()
    assert editor.lua("return scripted.capabilities.experimental.fastcoderLate") is True
    editor.type("ia")
    wait_for(lambda: len(at(editor, 1)) == 1, "asked, and answered empty")
    settle(editor)
    offer(editor, "late")
    tell_late(editor)
    wait_for(lambda: editor.ghost() == "late", "it is shown")
    assert len(at(editor, 1)) == 2
    assert requests(editor)[-1]["params"]["context"]["triggerKind"] == 2
    offer(editor, "late and longer")
    tell_late(editor)
    wait_for(lambda: editor.ghost() == "late and longer", "and grows")


def test_better_text_replaces_what_was_asked_for_by_key(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "one", "two")
    type_and_wait(editor, "ia<M-Space>", "one 1/2")
    settle(editor)
    offer(editor, "better")
    tell_late(editor)
    wait_for(lambda: editor.ghost() == "better", "it is replaced")
    assert requests(editor)[-1]["params"]["context"]["triggerKind"] == 2
    offer(editor, "better", "other")
    type_and_wait(editor, "<M-]>", "other 2/2")


def test_what_is_late_elsewhere_is_not_asked_for(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "one", "two")
    type_and_wait(editor, "ia<M-Space>", "one 1/2")
    type_and_wait(editor, "<M-]>", "two 2/2")
    settle(editor)
    asked = len(requests(editor))
    tell_late(editor)
    type_and_wait(editor, "<C-]>", "")
    tell_late(editor)
    settle(editor)
    assert len(requests(editor)) == asked
    offer(editor)
    editor.type("b")
    wait_for(lambda: at(editor, 2), "asked anew, and there is nothing")
    settle(editor)
    asked = len(requests(editor))
    tell_late(editor, columns=-1)
    tell_late(editor, versions=-1)
    editor.type("<Esc>")
    wait_for(lambda: editor.mode() == "n", "normal mode")
    tell_late(editor, columns=1)
    settle(editor)
    assert len(requests(editor)) == asked
    assert editor.ghost() == ""


def test_why_is_told_in_a_window(neovim: Scripted) -> None:
    editor = neovim()
    assert editor.lua("return vim.fn.getcompletion('FastCoder w', 'cmdline')") == ["why"]
    editor.lua("vim.b.fastcoder = false scripted.why = { text = 'Too slow.\\nWait.', items = {} }")
    name = editor.lua("return vim.uri_from_bufnr(0)")
    editor.rpc.command("FastCoder why")
    wait_for(lambda: "Too slow. Wait." in notices(editor), f"the explanation, not {notices(editor)!r}")
    assert notices(editor).startswith("b:fastcoder is false")
    assert requests(editor, "fastcoder/why")[-1]["params"] == {"textDocument": {"uri": name}}


def test_the_explanation_does_not_take_the_focus(neovim: Scripted) -> None:
    editor = neovim("\n" * 3)
    windows = "return #vim.api.nvim_list_wins()"
    editor.lua("scripted.why = { text = 'Too slow.', items = {} }")
    editor.rpc.command("FastCoder why")
    wait_for(lambda: "Too slow." in notices(editor), "the explanation")
    editor.type("iab")
    wait_for(lambda: editor.line() == "ab" and editor.lua(windows) == 1, "the letters are in the file")
    editor.type("<Esc>")
    for _ in range(2):
        editor.rpc.command("FastCoder why")
        wait_for(lambda: "Too slow." in notices(editor), "the explanation")
        settle(editor)
    wait_for(lambda: editor.text() == "Too slow.\n", "it is entered")
    editor.type("q")
    wait_for(lambda: editor.lua(windows) == 1, "it closes")


def test_why_without_a_server_is_answered_by_the_editor(neovim: Scripted) -> None:
    """The server has never seen it: what it would say of it is no help."""
    editor = neovim()
    editor.lua("scripted.why = { text = 'Unknown.', items = {} }")
    editor.rpc.command("enew")
    editor.type("iabc<Esc>")
    editor.rpc.command("FastCoder why")
    wait_for(lambda: "No suggestions here" in notices(editor), f"the reason, not {notices(editor)!r}")
    assert "no file type. Save it under a name" in notices(editor)
    assert requests(editor, "fastcoder/why") == []


def test_no_answer_is_shown_outside_insert_mode(neovim: Scripted) -> None:
    editor = neovim()
    editor.lua("scripted.hold = true")
    editor.type("ia")
    wait_for(lambda: at(editor, 1), "the request")
    (number,) = at(editor, 1)
    editor.type("<Esc>")
    wait_for(lambda: requests(editor)[number - 1]["id"] in editor.lua("return scripted.cancelled"), "it is cancelled")
    offer(editor, "late")
    editor.lua(f"scripted.held[{number}]()")
    settle(editor)
    assert editor.ghost() == ""


def test_a_dismissed_suggestion_stays_away(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "one")
    type_and_wait(editor, "ia", "one")
    editor.lua("scripted.hold = true")
    editor.type("o")
    wait_for(lambda: editor.lua("return #scripted.held") > 0, "the next request is open")
    assert editor.ghost() == "ne"
    type_and_wait(editor, "<C-]>", "")
    editor.lua("for _, reply in ipairs(scripted.held) do reply() end")
    settle(editor)
    assert editor.ghost() == ""
    assert editor.line() == "ao"


def test_a_buffer_can_be_left_alone(neovim: Scripted) -> None:
    editor = neovim()
    offer(editor, "ghost")
    editor.lua("vim.b.fastcoder = false")
    editor.type("ia")
    settle(editor)
    assert requests(editor) == []


def test_only_when_asked(neovim: Scripted) -> None:
    editor = neovim(more="require('fastcoder').setup({ auto = false })")
    offer(editor, "ghost")
    editor.type("ia")
    settle(editor)
    assert requests(editor) == []
    type_and_wait(editor, "<M-Space>", "ghost")


WAYS_OUT = (
    "<Esc>",
    "<C-c>",
    "<C-o>",
    "<C-o>:split<CR><Esc>",
    "<Cmd>wincmd w<CR>",
    "<Cmd>enew!<CR>",
    "<C-r>=",
    "<Insert>",
)


@pytest.mark.parametrize("keys", WAYS_OUT)
def test_the_suggestion_goes_with_insert_mode(neovim: Scripted, keys: str) -> None:
    editor = neovim(more="vim.cmd.split()")
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    number = editor.rpc.api.get_current_buf().number
    editor.lua("scripted.hold = true")
    editor.type(keys)
    marks = "return vim.api.nvim_buf_get_extmarks(..., vim.api.nvim_create_namespace('fastcoder'), 0, -1, {})"
    wait_for(lambda: editor.lua(marks, number) == [], "it goes")


def test_asking_shows_a_sign(neovim: Scripted) -> None:
    editor = neovim()
    editor.lua("scripted.hold = true")
    signs = "return vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace('fastcoder-asking'), 0, -1, {})"
    editor.type("ia<M-Space>")
    wait_for(lambda: len(editor.lua(signs)) == 1, "the sign")
    editor.lua("scripted.held[#scripted.held]()")
    wait_for(lambda: editor.lua(signs) == [], "it goes")
    wait_for(lambda: "No suggestion here" in str(editor.lua(BEHIND_LINE)), "a notice")


@pytest.mark.parametrize(("line", "told"), [(0, "File too large."), (7, "No suggestion here.")])
def test_the_notice_says_the_servers_reason(neovim: Scripted, line: int, told: str) -> None:
    editor = neovim()
    reason = {"code": "large", "text": "File too large.", "hint": "", "line": line, "character": 1}
    editor.lua("scripted.why = { text = '', items = { ... } }", reason)
    editor.type("ia<M-Space>")
    notice = f" fastcoder: {told} See :FastCoder why."
    wait_for(lambda: editor.lua(BEHIND_LINE) == [[0, "eol", notice]], f"it is said, not {editor.lua(BEHIND_LINE)}")


@pytest.mark.parametrize("wide", [True, False], ids=["on a long line", "in a narrow window"])
@pytest.mark.parametrize("wrap", ["wrap", "nowrap"])
def test_a_notice_without_room_behind_a_line_is_in_a_corner(neovim: Scripted, wrap: str, wide: bool) -> None:
    editor = neovim("x" * (70 if wide else 5) + "\n" * 30, more=f"vim.cmd('set columns=80 lines=24 {wrap}')")
    if not wide:
        editor.lua("vim.cmd('vsplit') vim.api.nvim_win_set_width(0, 30)")
    row = """
        for _, window in ipairs(vim.api.nvim_list_wins()) do
          if vim.api.nvim_win_get_config(window).relative ~= '' then
            return vim.api.nvim_win_get_position(window)[1] < 12
          end
        end
    """
    for keys, upper in (("A<M-Space>", False), ("<Esc>20jA<M-Space>", True)):
        editor.lua("vim.fn.setline(21, vim.fn.getline(1)) vim.cmd.redraw()")
        editor.type(keys)
        wait_for(lambda: "No suggestion here. See :FastCoder why." in notices(editor), f"not {notices(editor)!r}")
        assert editor.lua(BEHIND_LINE) == []
        assert editor.lua(row) is upper
        editor.lua("require('fastcoder.notice').hide()")
