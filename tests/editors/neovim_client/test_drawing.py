"""How a suggestion stands on the screen, and what of the line it takes the place of."""

import pytest

from tests.editors.neovim_client.scripted import Scripted, offer, offer_over, requests, type_and_wait, wait_for

ENCODINGS = ("utf-8", "utf-16", "utf-32")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_positions_in_every_encoding(neovim: Scripted, encoding: str) -> None:
    editor = neovim(encoding=encoding)
    before = "crab = '🦀é𝔘'; pri"
    offer_over(editor, "print(crab)", before=3)
    type_and_wait(editor, "i" + before, "nt(crab)")
    units = {"utf-8": len(before.encode()), "utf-16": len(before.encode("utf-16-le")) // 2, "utf-32": len(before)}
    assert requests(editor)[-1]["params"]["position"]["character"] == units[encoding]
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "crab = '🦀é𝔘'; print(crab)", "Tab accepts")


def test_what_the_suggestion_replaces_is_not_drawn_twice(neovim: Scripted) -> None:
    editor = neovim("f()\n")
    offer_over(editor, "ne(1))", behind=1)
    type_and_wait(editor, "f(ao", "ne(1)")
    assert editor.line() == "f(o)"
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "f(one(1))", "the closer is there once")
    assert editor.rpc.api.win_get_cursor(0) == [1, len("f(one(1))")]


def test_what_the_suggestion_replaces_otherwise_is_struck_out(neovim: Scripted) -> None:
    editor = neovim("f()\n")
    offer_over(editor, "ne,\n  two)", behind=1)
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


@pytest.mark.parametrize(
    ("text", "tail", "pieces"),
    [
        ("d)", ")", [(0, "d")]),
        ("d)\nnext", ")", [(0, "d")]),
        ("a], b)", "])", [(0, "a"), (1, ", b")]),
        ("a).b()", ")", [(0, "a).b(")]),
    ],
)
def test_closers_that_stay_are_drawn_once(
    neovim: Scripted, text: str, tail: str, pieces: list[tuple[int, str]]
) -> None:
    editor = neovim(f"f({tail}\n")
    offer_over(editor, text, behind=len(tail))
    editor.type("f(a")
    wait_for(editor.ghost, "ghost text")
    namespace = editor.rpc.api.create_namespace("fastcoder")
    marks = editor.rpc.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
    assert [(mark[2] - 2, mark[3]["virt_text"][0][0]) for mark in marks] == pieces
    assert not any("end_col" in mark[3] for mark in marks)
    editor.type("<Tab>")
    wait_for(lambda: editor.text() == f"f({text}\n", f"it goes in, not {editor.text()!r}")


@pytest.mark.parametrize(
    ("tail", "replaces", "drawn", "moves"),
    [(")", 0, "tem)\nprint()", [7, 8]), ("), x", 1, "tem\nprint(, x", [8, 11]), (") ", 1, "tem\nprint(", None)],
)
def test_the_rest_of_the_line_goes_behind_several_lines(
    neovim: Scripted, tail: str, replaces: int, drawn: str, moves: list[int] | None
) -> None:
    editor = neovim(f"print({tail}\n")
    offer_over(editor, "tem)\nprint(", behind=replaces)
    type_and_wait(editor, "f(ai", drawn)
    namespace = editor.rpc.api.create_namespace("fastcoder")
    marks = editor.rpc.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
    struck = [[mark[2], mark[3]["end_col"]] for mark in marks if mark[3].get("hl_group") == "FastcoderReplaced"]
    assert struck == ([moves] if moves else [])
    editor.type("<Tab>")
    shown = drawn.split("\n")[1] if moves else "print( "
    wait_for(lambda: editor.text() == f"print(item)\n{shown}\n", f"as it was drawn, not {editor.text()!r}")


def test_parts_that_pass_a_closer_take_its_place(neovim: Scripted) -> None:
    editor = neovim("f()\n")
    offer_over(editor, "a)\nb", behind=1)
    type_and_wait(editor, "f(a", "a\nb")
    editor.lua("scripted.hold = true")
    editor.type("<M-e>")
    wait_for(
        lambda: editor.text() == "f(a)\n" and editor.ghost() == "\nb", f"not {editor.text()!r}, {editor.ghost()!r}"
    )


@pytest.mark.parametrize("wrap", ["wrap", "nowrap"])
def test_a_narrow_window_shows_all_of_it(neovim: Scripted, wrap: str) -> None:
    editor = neovim("\n" * 3, more=f"vim.o.{wrap.removeprefix('no')} = {str(wrap == 'wrap').lower()}")
    editor.lua("vim.cmd('vsplit') vim.api.nvim_win_set_width(0, 20)")
    first, second = "first(a, b, c, d, e, f)", "second(a, b, c, d, e, f)"
    offer(editor, f"{first}\n{second}")
    editor.type("ia")
    wait_for(editor.ghost, "ghost text")
    drawn = editor.ghost()
    assert drawn.replace("\n↪ ", "") == f"{first}\n{second}"
    below = drawn.split("\n")[1:] if wrap == "wrap" else drawn.split("\n")
    assert max(map(len, below)) <= 20
    editor.lua("vim.api.nvim_win_set_height(0, 1)")
    wait_for(lambda: " +" in editor.ghost().split("\n")[0] and "lines" in editor.ghost(), "what is below is counted")


def test_of_two_windows_the_current_one_alone_shows_it(neovim: Scripted) -> None:
    editor = neovim("\n" * 3, more="vim.o.columns = 80")
    editor.rpc.command("vsplit")
    offer(editor, "lines\nbelow")
    type_and_wait(editor, "iabc", "lines\nbelow")
    screen = editor.lua(
        """
        vim.cmd.redraw()
        local rows = {}
        for row = 1, 3 do
          local cells = {}
          for column = 1, vim.o.columns do cells[column] = vim.fn.screenstring(row, column) end
          rows[row] = table.concat(cells)
        end
        return table.concat(rows, '\\n')
        """
    )
    assert (screen.count("abc"), screen.count("abclines"), screen.count("below")) == (2, 1, 1)


GHOST = "return vim.api.nvim_get_hl(0, { name = 'FastcoderGhost', link = false })"


def test_ghost_text_has_a_colour_of_its_own_without_true_colour(neovim: Scripted) -> None:
    editor = neovim(more="vim.o.termguicolors = false")
    normal = editor.lua("return vim.api.nvim_get_hl(0, { name = 'Normal' })").get("ctermfg")
    for command in ("set background=dark", "set background=light", "colorscheme habamax", "colorscheme default"):
        editor.rpc.command(command)
        assert editor.lua(GHOST)["ctermfg"] not in (None, normal), command
    editor.rpc.command("highlight FastcoderGhost ctermfg=5")
    editor.rpc.command("set termguicolors notermguicolors")
    editor.rpc.command("edit!")
    assert editor.lua(GHOST)["ctermfg"] == 5


LOOKS = """
    vim.cmd.redraw()
    local row, column, text = ...
    local letters, looks = {}, {}
    for at = column, column + #text - 1 do
      letters[#letters + 1], looks[#looks + 1] = vim.fn.screenstring(row, at), vim.fn.screenattr(row, at)
    end
    assert(table.concat(letters) == text, table.concat(letters))
    return looks
"""
"""Lua: how the letters of a text that stands at a place of the screen look; the same number for the same look."""


@pytest.mark.parametrize("true_colour", ["termguicolors", "notermguicolors"])
def test_a_matching_closer_does_not_colour_ghost_text(neovim: Scripted, true_colour: str) -> None:
    """Neovim's own matchparen marks the closer behind the cursor: the ghost text before it keeps its look."""
    editor = neovim(more=f"vim.cmd('set {true_colour}') vim.cmd('inoremap ( ()<Left>')")
    offer(editor, "item\nprint")
    type_and_wait(editor, "iprint(", "item\nprint)")
    wait_for(lambda: editor.lua("return #vim.fn.getmatches()") > 0, "matchparen marks the pair")
    inline, below = editor.lua(LOOKS, 1, len("print(") + 1, "item"), editor.lua(LOOKS, 2, 1, "print")
    assert set(inline) == set(below)
    assert editor.lua(LOOKS, 1, len("print(item") + 1, ")") != below[:1]
