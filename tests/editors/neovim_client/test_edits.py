"""Next edits: when they are asked for, how they are drawn, and the one key that goes there and makes them."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, notices, offer, requests, settle, type_and_wait, wait_for

PROPOSES = "_G.proposes_edits = true "
METHOD = "textDocument/copilotInlineEdit"
CODE = "def area(width, height):\n    return width * height\n\n\nprint(area(2, 3))\n"
Place = tuple[int, int, int, int]


def propose(editor: Neovim, *edits: tuple[Place, str], uri: str = "", version: int = 0) -> None:
    """From now on the server proposes these edits, each a range of four numbers and a text."""
    editor.lua(
        """
        local edits, uri, version = ...
        scripted.edits = function(params)
          local document = { uri = uri ~= '' and uri or params.textDocument.uri }
          document.version = uri == '' and params.textDocument.version + version or nil
          return vim.iter(ipairs(edits)):map(function(i, edit)
            local at, text = unpack(edit)
            return {
              text = text,
              range = { start = { line = at[1], character = at[2] }, ['end'] = { line = at[3], character = at[4] } },
              textDocument = document,
              command = { title = '', command = 'github.copilot.didAcceptCompletionItem', arguments = { i } },
            }
          end):totable()
        end
        """,
        edits,
        uri,
        version,
    )


def drawn(editor: Neovim) -> list[str]:
    """The lines that the proposal touches, with [-what goes-] and {+what comes+}; lines that come below it."""
    code = """
        local space = vim.api.nvim_get_namespaces()['fastcoder-edit']
        local buffer, rows, below = vim.api.nvim_get_current_buf(), {}, {}
        local at = {}
        for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, space, 0, -1, { details = true })) do
          local _, row, col, details = unpack(mark)
          at[row] = at[row] or {}
          if details.end_col then
            vim.list_extend(at[row], { { col, 1, '[-' }, { details.end_col, 2, '-]' } })
          end
          for _, chunk in ipairs(details.virt_text or {}) do
            table.insert(at[row], { col, 3, '{+' .. chunk[1] .. '+}' })
          end
          for _, line in ipairs(details.virt_lines or {}) do
            below[row] = below[row] or {}
            local text = table.concat(vim.tbl_map(function(chunk) return chunk[1] end, line))
            table.insert(below[row], '{+' .. text .. '+}')
          end
        end
        local lines = {}
        for row, marks in vim.spairs(at) do
          table.sort(marks, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
          local line, text, last = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1], '', 0
          for _, mark in ipairs(marks) do
            text, last = text .. line:sub(last + 1, mark[1]) .. mark[3], mark[1]
          end
          table.insert(lines, text .. line:sub(last + 1))
          vim.list_extend(lines, below[row] or {})
        end
        return lines
    """
    found: list[str] = editor.lua(code)
    return found


def hint(editor: Neovim) -> str:
    """The words that say where an edit is that one does not see, behind the line or in the corner."""
    code = """
        local space = vim.api.nvim_get_namespaces()['fastcoder-notice']
        local marks = vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })
        return marks[1] and marks[1][4].virt_text[1][1] or ''
    """
    return str(editor.lua(code)).strip() or notices(editor)


def told(editor: Neovim, method: str) -> list[Any]:
    """The ids of the edits that a notification was about."""
    notified = editor.lua("return scripted.notified")
    return [of["params"]["item"]["command"]["arguments"][0] for of in notified if of["method"] == method]


def shows(editor: Neovim, *lines: str) -> None:
    wait_for(lambda: drawn(editor) == list(lines), f"{lines} is drawn, not {drawn(editor)}")


def becomes(editor: Neovim, text: str) -> None:
    wait_for(lambda: editor.text() == text, f"not {editor.text()!r}")


RENAMED = ((1, 11, 1, 16), "breadth"), ((1, 19, 1, 25), "depth")
DRAWN = "    return [-width-]{+breadth+} * [-height-]{+depth+}"


def test_after_a_change_one_key_makes_the_edit(neovim: Scripted) -> None:
    editor = neovim(CODE, more=PROPOSES)
    propose(editor, *RENAMED)
    editor.type("fwcwbreadth<Esc>")
    shows(editor, DRAWN)
    assert requests(editor, METHOD)[-1]["params"]["context"]["triggerKind"] == 2
    propose(editor)
    editor.type("<Tab>")
    becomes(editor, CODE.replace("(width", "(breadth").replace("width * height", "breadth * depth"))
    assert editor.rpc.api.win_get_cursor(0) == [2, len("    return breadth * depth") - 1]
    commands = partial(requests, editor, "workspace/executeCommand")
    wait_for(commands, "the server is told that it was made")
    assert [command["params"]["arguments"] for command in commands()] == [[1], [2]]
    assert told(editor, "textDocument/didShowInlineEdit") == [1, 2]
    editor.type("ggu")
    becomes(editor, CODE.replace("(width", "(breadth"))
    editor.type("G0.")
    becomes(editor, CODE.replace("(width", "(breadth").replace("print(", "breadth("))


def test_while_typing_the_key_goes_there_then_makes_it(neovim: Scripted) -> None:
    text = "x = 1\n" + "\n" * 60 + "print(x)\n"
    editor = neovim(text, more=PROPOSES)
    propose(editor, ((61, 6, 61, 7), "y"))
    editor.type("sy")
    wait_for(lambda: "↓ line 62 (<Tab>)" in hint(editor), "a hint")
    shows(editor, "print([-x-]{+y+})")
    editor.type("<Tab>")
    wait_for(lambda: editor.rpc.api.win_get_cursor(0) == [62, 6], "the cursor goes there")
    assert hint(editor) == ""
    assert editor.mode() == "i"
    assert [jump["lnum"] for jump in editor.rpc.funcs.getjumplist()[0]] == [1]
    propose(editor)
    editor.type("<Tab>")
    becomes(editor, text.replace("x", "y"))
    editor.type("!<Esc>")
    becomes(editor, text.replace("x", "y").replace("(y)", "(y!)"))
    editor.type("u")
    becomes(editor, text.replace("x", "y"))
    editor.type("u")
    becomes(editor, "y" + text[1:])
    editor.type("<C-r><C-r>gg0.")
    wait_for(lambda: editor.text().startswith("!y = 1\n"), f"the last insertion alone, not {editor.text()!r}")


def test_ghost_text_comes_first(neovim: Scripted) -> None:
    editor = neovim("x = 1\n", more=PROPOSES)
    propose(editor, ((0, 0, 0, 1), "y"))
    offer(editor, "ghost")
    type_and_wait(editor, "ob", "ghost")
    settle(editor)
    editor.lua("vim.wait(300, function() return false end)")
    assert requests(editor, METHOD) == []
    editor.type("<C-]>")
    offer(editor)
    editor.type("c")
    shows(editor, "[-x-]{+y+} = 1")
    offer(editor, "later")
    type_and_wait(editor, "<M-Space>", "later")
    assert drawn(editor) == []
    editor.type("<Tab>")
    becomes(editor, "x = 1\nbclater\n")


def test_what_ends_it(neovim: Scripted) -> None:
    editor = neovim("x = 1\n" + "\n" * 80, more=PROPOSES + "vim.keymap.set('n', '<Esc>', '<Cmd>let g:escaped = 1<CR>')")
    propose(editor, ((0, 0, 0, 1), "y"))
    editor.type("A0")
    shows(editor, "[-x-]{+y+} = 10")
    editor.type("<Esc>5jkk")
    settle(editor)
    shows(editor, "[-x-]{+y+} = 10")
    editor.type("<Esc>")
    shows(editor)
    assert told(editor, "fastcoder/editRejected") == [1]
    wait_for(lambda: editor.lua("return vim.g.escaped") == 1, "the user's own Escape, too")
    asked = len(requests(editor, METHOD))
    editor.type("lh<Tab>")  # nothing is shown: Tab is Neovim's
    settle(editor)
    assert len(requests(editor, METHOD)) == asked
    editor.type("ggA0<Esc>")
    shows(editor, "[-x-]{+y+} = 100")
    propose(editor)
    editor.type("rz")
    shows(editor)
    propose(editor, ((0, 0, 0, 1), "y"))
    editor.type("gg0x")
    shows(editor, "[- -]{+y+}= 10z")
    editor.type("60j")
    shows(editor)
    editor.type("gg0x")
    shows(editor, "[-=-]{+y+} 10z")
    editor.type(":set nomodifiable<CR><Tab>")
    shows(editor)
    assert editor.messages() == ""
    editor.rpc.command("set modifiable")
    propose(editor, ((0, 0, 0, 1), "y"), version=1)
    editor.type("gg0x")
    settle(editor)
    editor.lua("vim.wait(300, function() return false end)")
    assert drawn(editor) == [], "an answer about another version"


OFF = {
    "the command": "scripted.tell('fastcoder/status', { state = 'off' })",
    "the server": "scripted.tell('fastcoder/status', { state = 'ready', edits = false })",
    "the buffer": ":let b:fastcoder = v:false<CR>",
    "the options": ":lua require('fastcoder').setup({ edits = false })<CR>",
    "a snooze": ":FastCoder snooze 5<CR>",
    "a recording": "qa",
}


@pytest.mark.parametrize("how", OFF)
def test_it_vanishes_when_edits_are_turned_off(neovim: Scripted, how: str) -> None:
    editor = neovim("x = 1\n", more=PROPOSES)
    editor.rpc.ui_attach(80, 24)  # without a screen nothing is drawn
    propose(editor, ((0, 0, 0, 1), "y"))
    editor.type("A0<Esc>")
    shows(editor, "[-x-]{+y+} = 10")
    (editor.lua if "tell(" in OFF[how] else editor.type)(OFF[how])
    shows(editor)
    editor.type("<Tab><Tab>0")
    settle(editor)
    assert editor.text() == "x = 10\n"
    if how == "a recording":
        editor.type("q")
        wait_for(lambda: editor.rpc.funcs.getreg("a") == "\t\t0", f"not {editor.rpc.funcs.getreg('a')!r}")


def test_escape_after_a_count_or_a_register_only_cancels_these(neovim: Scripted) -> None:
    editor = neovim("x = 1\nz\n", more=PROPOSES)
    propose(editor, ((0, 0, 0, 1), "y"))
    editor.type("A0<Esc>")
    for keys in ("3<Esc>", '"a<Esc>', '""<Esc>', '2"a3<Esc>'):
        editor.type(keys)
        settle(editor)
        shows(editor, "[-x-]{+y+} = 10")
    assert told(editor, "fastcoder/editRejected") == []
    propose(editor)
    editor.type("yyj3<Esc>p")
    becomes(editor, "x = 10\nz\nx = 10\n")
    assert editor.rpc.funcs.getreg("a") == ""


def test_it_stays_in_other_windows_of_its_buffer(neovim: Scripted) -> None:
    editor = neovim("x = 1\n", more=PROPOSES)
    propose(editor, ((0, 0, 0, 1), "y"))
    editor.type("A0<Esc>")
    shows(editor, "[-x-]{+y+} = 10")
    for command in ("split", "vsplit", "wincmd w", "close"):
        editor.rpc.command(command)
        settle(editor)
        shows(editor, "[-x-]{+y+} = 10")
    editor.rpc.command("new")
    assert not editor.lua("return require('fastcoder').is_edit_visible()")
    editor.rpc.command("close")
    shows(editor)


def test_nothing_is_asked_where_no_edits_are_proposed(neovim: Scripted) -> None:
    editor = neovim("x = 1\n")
    propose(editor, ((0, 0, 0, 1), "y"))

    def asks() -> bool:
        before = len(requests(editor, METHOD))
        editor.type("A0<Esc>")
        wait_for(lambda: editor.mode() == "n", "normal mode")
        editor.lua("vim.wait(300, function() return false end)")
        return len(requests(editor, METHOD)) > before

    assert not asks()
    editor.lua("scripted.tell('fastcoder/status', { state = 'ready', edits = true })")
    assert asks()
    editor.lua("vim.b.fastcoder = false")
    assert not asks()
    editor.lua("vim.b.fastcoder = nil require('fastcoder').setup({ edits = false })")
    assert not asks()
    editor.lua("require('fastcoder').setup({ edits = true })")
    editor.type("qq")
    assert not asks()
    editor.type("q")
    assert asks()
    editor.lua("scripted.tell('fastcoder/status', { state = 'ready', edits = false })")
    assert not asks()


FORMS = {
    "words": (((0, 8, 0, 13), "breadth"), ["one two [-three-]{+breadth+}"]),
    "an insertion in a line": (((0, 3, 0, 3), " more"), ["one {+more +}two three"]),
    "a deletion in a line": (((0, 3, 0, 7), ""), ["one [-two -]three"]),
    "another line": (((0, 0, 0, 13), "f(x)"), ["[-one two three-]", "{+f(x)+}"]),
    "new lines": (((1, 0, 1, 0), "new\n\n"), ["one two three", "{+new+}", "{+ +}"]),
    "new lines at the top": (((0, 0, 0, 0), "new\n"), ["one two three", "{+new+}"]),
    "new lines at the end": (((3, 0, 3, 0), "end\n"), ["\tfour()", "{+end+}"]),
    "lines that go": (((1, 0, 3, 0), ""), ["{+¶+}", "[-\tfour()-]"]),
    "more lines for one": (
        ((2, 0, 2, 7), "if five:\n\t\treturn six"),
        ["", "{+if five:+}", "[-\tfour()-]", "{+        return six+}"],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_a_diff_in_place_and_becomes_what_is_drawn(neovim: Scripted, form: str) -> None:
    text = "one two three\n\n\tfour()\n"
    (place, new), lines = FORMS[form]
    editor = neovim(text, more=PROPOSES + "vim.o.tabstop = 4")
    propose(editor, (place, new))
    editor.rpc.command("FastCoder edit")
    shows(editor, *lines)
    assert requests(editor, METHOD)[-1]["params"]["context"]["triggerKind"] == 1
    at = [sum(map(len, text.splitlines(keepends=True)[:row])) + column for row, column in (place[:2], place[2:])]
    editor.type("<Tab>")
    becomes(editor, text[: at[0]] + new + text[at[1] :])


MIXED = "one two three\r\n\r\n\tfour()\r\nlast\n"
DOS = MIXED.replace("last\n", "last\r\n")
RETURNS: dict[str, tuple[str, Place, str, str]] = {
    "lines for a line": (MIXED, (0, 0, 0, 13), "f(\nx)", MIXED.replace("one two three", "f(\r\nx)")),
    "a new line": (MIXED, (1, 0, 1, 0), "new\n", MIXED.replace("\r\n\r\n", "\r\nnew\r\n\r\n")),
    "new lines behind a line": (MIXED, (0, 13, 0, 13), "\na\nb", MIXED.replace("three", "three\r\na\r\nb")),
    "lines that go": (MIXED, (0, 3, 2, 1), "(\n", MIXED.replace(" two three\r\n\r\n\t", "(\r\n")),
    "a line without": (MIXED, (3, 0, 3, 4), "a\nb", MIXED.replace("last", "a\nb")),
    "at the end": (MIXED, (4, 0, 4, 0), "new\n", MIXED + "new\n"),
    "dos": (DOS, (0, 0, 0, 13), "f(\nx)", DOS.replace("one two three", "f(\r\nx)")),
}


@pytest.mark.parametrize("form", RETURNS)
def test_carriage_returns_neither_come_nor_go(neovim: Scripted, form: str) -> None:
    """In a file whose line ends are mixed, too, where Neovim takes them for parts of the lines."""
    text, place, new, wanted = RETURNS[form]
    editor = neovim(text, more=PROPOSES)
    file = Path(editor.lua("return vim.api.nvim_buf_get_name(0)"))
    propose(editor, (place, new))
    editor.rpc.command("FastCoder edit")
    wait_for(lambda: drawn(editor), "it is drawn")
    editor.type("jj<Tab>")
    wait_for(lambda: not drawn(editor), "it is made")
    editor.rpc.command("write")
    assert file.read_bytes() == wanted.encode()


def test_wide_and_narrow_encodings(neovim: Scripted) -> None:
    editor = neovim("crab = '🦀é𝔘'; pri\n", more=PROPOSES, encoding="utf-16")
    propose(editor, ((0, 16, 0, 19), "print"))
    editor.rpc.command("FastCoder edit")
    shows(editor, "crab = '🦀é𝔘'; [-pri-]{+print+}")
    editor.type("<Tab>")
    becomes(editor, "crab = '🦀é𝔘'; print\n")


@pytest.mark.parametrize("wrap", ["wrap", "nowrap"])
def test_a_narrow_window(neovim: Scripted, wrap: str) -> None:
    text = "call(alpha, beta)\n" + "\n" * 80
    editor = neovim(text, more=PROPOSES + f"vim.cmd('set {wrap} columns=60')")
    editor.lua("vim.cmd('vsplit') vim.api.nvim_win_set_width(0, 18)")
    propose(editor, ((0, 12, 0, 16), "gamma, delta"))
    editor.rpc.command("FastCoder edit")
    words = ["call(alpha, [-beta-]{+gamma, delta+})"]
    lines = ["[-call(alpha, beta)-]", "{+call(alpha, gamma,+}", "{+↪  delta)+}"]
    shows(editor, *(words if wrap == "wrap" else lines))
    editor.type("60Gix<Esc>")
    propose(editor, ((0, 0, 0, 4), "invoke"))
    editor.rpc.command("FastCoder edit")
    wait_for(lambda: "↑ line 1 (<Tab>)" in hint(editor), f"a hint, not {hint(editor)!r}")


def test_an_edit_of_another_file(neovim: Scripted) -> None:
    editor = neovim("x = 1\n", more=PROPOSES)
    folder = editor.lua("return vim.fs.dirname(vim.api.nvim_buf_get_name(0))")
    editor.lua("vim.fn.writefile({ 'one', 'two' }, ...)", f"{folder}/other.py")
    propose(editor, ((1, 0, 1, 3), "three"), uri=f"file://{folder}/other.py")
    editor.type("A0<Esc>")
    wait_for(lambda: "other.py, line 2 (<Tab>)" in hint(editor), f"a hint, not {hint(editor)!r}")
    propose(editor, ((0, 0, 0, 3), "three"), uri=f"file://{folder}/other.py")
    editor.type("x")  # what was asked about has changed
    wait_for(lambda: "other.py, line 1 (<Tab>)" in hint(editor), f"the newer one, not {hint(editor)!r}")
    propose(editor)
    editor.rpc.command("set hidden")
    editor.type("<Tab>")
    shows(editor, "[-one-]", "{+three+}")
    editor.type("<Tab>")
    becomes(editor, "three\ntwo\n")


LOOK = "return vim.api.nvim_get_hl(0, { name = ..., link = false })"


def test_it_can_be_told_apart_on_any_screen(neovim: Scripted) -> None:
    editor = neovim(more=PROPOSES)
    for colours in ("termguicolors", "notermguicolors"):
        for scheme in ("default", "habamax", "quiet"):
            for background in ("dark", "light"):
                editor.rpc.command(f"set {colours} background={background} | colorscheme {scheme}")
                deleted, inserted = editor.lua(LOOK, "FastcoderDeleted"), editor.lua(LOOK, "FastcoderInserted")
                normal = editor.lua(LOOK, "Normal")
                assert [deleted["strikethrough"], deleted["cterm"]["strikethrough"]] == [True, True]
                for look, ground in ((inserted, "bg"), (inserted.get("cterm", {}), "ctermbg")):
                    stands_out = (
                        inserted.get(ground) not in (None, normal.get(ground))
                        or "underline" in look
                        or "reverse" in look
                    )
                    assert stands_out, (colours, scheme, background, ground, inserted)


MAPPING = """
    vim.keymap.set({ 'n', 'i' }, '<C-e>', function()
      return require('fastcoder').accept_edit() and '' or 'none'
    end, { expr = true })
"""


def test_a_mapping_of_ones_own(neovim: Scripted) -> None:
    keys = "require('fastcoder').setup({ keys = { edit = false, reject = false } }) "
    editor = neovim("x = 1\n", more=PROPOSES + keys + MAPPING)
    propose(editor, ((0, 0, 0, 1), "y"))
    editor.type("A0<Esc>")
    shows(editor, "[-x-]{+y+} = 10")
    assert editor.lua("return vim.fn.maparg('<Tab>', 'n')") == ""
    propose(editor)
    editor.type("<C-e>")
    becomes(editor, "y = 10\n")
