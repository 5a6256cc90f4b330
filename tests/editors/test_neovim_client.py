"""What the Neovim plugin itself decides: a real Neovim, and a scripted server inside it that says what a test needs."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import ROOT, find_editor
from tests.editors.conftest import wait_for as wait_long_for
from tests.editors.neovim import Neovim

CONFIGURATION = """
vim.opt.runtimepath:append('{root}/editors/neovim')
vim.lsp.config('fastcoder', {{ cmd = dofile('{here}/scripted_server.lua')('{encoding}') }})
vim.lsp.enable('fastcoder')
{more}
"""
wait_for = partial(wait_long_for, wait_s=20.0)
"""Nothing computes here; a busy machine may still let one wait."""
ENCODINGS = ("utf-8", "utf-16", "utf-32")


class Scripted:
    """Neovim with the scripted server in a file of one language, in insert mode at the end of an empty buffer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._program = find_editor("neovim", "nvim")
        self._folder = folder
        self._opened: list[Neovim] = []
        for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(variable, str(folder / variable.lower()))

    def __call__(self, text: str = "", *, more: str = "", encoding: str = "utf-8") -> Neovim:
        file = self._folder / "example.py"
        file.write_text(text)
        here = Path(__file__).parent
        configuration = CONFIGURATION.format(root=ROOT, here=here, encoding=encoding, more=more)
        editor = Neovim(self._program, configuration, file, self._folder)
        self._opened.append(editor)
        wait_for(lambda: editor.lua("return vim.lsp.get_clients({ bufnr = 0 })[1].initialized"), "it is initialized")
        return editor

    def close(self) -> None:
        for editor in self._opened:
            editor.quit()


@pytest.fixture
def neovim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """Starts Neovim with the scripted server."""
    scripted = Scripted(tmp_path, monkeypatch)
    yield scripted
    scripted.close()


def offer(editor: Neovim, *texts: str) -> None:
    """From now on the server suggests these texts where the cursor is."""
    editor.lua("scripted.items = vim.tbl_map(function(text) return { insertText = text } end, ...)", list(texts))


def requests(editor: Neovim, method: str = "textDocument/inlineCompletion") -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = editor.lua("return scripted.requests")
    return [request for request in asked if request["method"] == method]


def type_and_wait(editor: Neovim, keys: str, ghost: str) -> None:
    editor.type(keys)
    wait_for(lambda: editor.ghost() == ghost, f"ghost text {ghost!r}, not {editor.ghost()!r}")


def settle(editor: Neovim) -> None:
    """Let every timer, key and scheduled function come to its end."""
    editor.lua("vim.wait(120, function() return false end)")


def test_alternatives_turn_and_the_chosen_one_is_accepted(neovim: Scripted) -> None:
    """While one types there is one suggestion; the first turn asks for all, turns go round, Tab takes what shows."""
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
    """A letter that another alternative begins with changes to that one; nobody is asked while one of them fits."""
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


def at(editor: Neovim, column: int) -> list[int]:
    """The requests, by number, at a column of the first line; a slow machine asks on entering insert mode, too."""
    return [i for i, asked in enumerate(requests(editor), 1) if asked["params"]["position"]["character"] == column]


def test_an_answer_that_comes_too_late_is_dropped(neovim: Scripted) -> None:
    """An older request is cancelled when a newer one goes out, and its answer is never shown."""
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


def test_one_who_pauses_is_asked_for_again(neovim: Scripted) -> None:
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


def tell_late(editor: Neovim, **changed: object) -> None:
    """The server has made what belongs at the cursor, or at another place."""
    editor.lua(
        """
        local changed = ...
        local position = vim.lsp.util.make_position_params(0, 'utf-8').position
        local version = vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]
        position.character = position.character + (changed.columns or 0)
        scripted.tell('fastcoder/late', {
          textDocument = { uri = vim.uri_from_bufnr(0), version = version + (changed.versions or 0) },
          position = position,
        })
        """,
        changed,
    )


def test_what_was_late_is_shown_when_it_is_made(neovim: Scripted) -> None:
    """The server says that it is there: it is asked for at once, without a key, and drawn."""
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


def test_what_is_late_elsewhere_is_not_asked_for(neovim: Scripted) -> None:
    """Alternatives that one chooses from, a dismissed one, another column, an older text, normal mode: nothing."""
    editor = neovim()
    offer(editor, "one", "two")
    type_and_wait(editor, "ia<M-Space>", "one 1/2")
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
    """`:FastCoder why` asks about this buffer and shows the explanation, after what the editor knows itself."""
    editor = neovim()
    assert editor.lua("return vim.fn.getcompletion('FastCoder w', 'cmdline')") == ["why"]
    editor.lua("vim.b.fastcoder = false scripted.why = { text = 'Too slow.\\nWait.', items = {} }")
    name = editor.lua("return vim.uri_from_bufnr(0)")
    editor.rpc.command("FastCoder why")
    wait_for(lambda: "Too slow.\nWait." in editor.text(), f"the explanation, not {editor.text()!r}")
    assert editor.text().startswith("b:fastcoder is false")
    assert requests(editor, "fastcoder/why")[-1]["params"] == {"textDocument": {"uri": name}}
    editor.type("q")
    wait_for(lambda: editor.lua("return #vim.api.nvim_list_wins()") == 1, "the window closes")


def test_no_answer_is_shown_outside_insert_mode(neovim: Scripted) -> None:
    """Leaving insert mode cancels what is asked, and nothing appears afterwards."""
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
    """The key takes the ghost text away, and the answer that was still to come with it."""
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


def test_accepting_is_one_undo_step(neovim: Scripted) -> None:
    """Undo takes the suggestion back and leaves what was typed; the next undo takes that; redo brings both again."""
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
    """A line goes in without its break, the next with the break before it; a word is what the buffer calls one."""
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
    """Return, and the indentation that Neovim adds, are letters of the suggestion like others."""
    editor = neovim(more="vim.o.autoindent = true")
    offer(editor, "1\n    y = 2")
    type_and_wait(editor, "i    x = ", "1\n    y = 2")
    editor.lua("scripted.hold = true")
    type_and_wait(editor, "1<CR>", "y = 2")


def test_the_accept_command_runs_once_after_the_whole(neovim: Scripted) -> None:
    """The server is told when all of it is in, not for a part."""
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
    """The user's own Tab, however it is made, works where nothing is shown, and again when the server has gone."""
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
    """Ghost text shows beside an open menu, goes while an entry is chosen, and then Tab is not ours."""
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


def test_a_buffer_can_be_left_alone(neovim: Scripted) -> None:
    """`vim.b.fastcoder = false`: nothing is asked there."""
    editor = neovim()
    offer(editor, "ghost")
    editor.lua("vim.b.fastcoder = false")
    editor.type("ia")
    settle(editor)
    assert requests(editor) == []


def test_only_when_asked(neovim: Scripted) -> None:
    """With `auto = false` typing asks nobody; the key does."""
    editor = neovim(more="require('fastcoder').setup({ auto = false })")
    offer(editor, "ghost")
    editor.type("ia")
    settle(editor)
    assert requests(editor) == []
    type_and_wait(editor, "<M-Space>", "ghost")


def test_wrong_options_are_named(neovim: Scripted) -> None:
    """An unknown option, an unknown key and a wrong value each raise with their name, and change nothing."""
    editor = neovim()
    for options, name in (
        ("{ autos = true }", "autos"),
        ("{ keys = { acept = '<Tab>' } }", "acept"),
        ("{ debounce_ms = -1 }", "debounce_ms"),
        ("{ keys = { accept = 3 } }", "keys.accept"),
    ):
        problem = editor.lua(f"return select(2, pcall(require('fastcoder').setup, {options}))")
        assert name in str(problem), problem
    assert editor.lua("return require('fastcoder.config').options.keys.accept") == "<Tab>"
    assert editor.lua("return require('fastcoder.config').options.debounce_ms") == 15


def test_other_keys(neovim: Scripted) -> None:
    """A key can be another, or none."""
    editor = neovim(more="require('fastcoder').setup({ keys = { accept = '<C-y>', accept_word = false } })")
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")
    assert editor.lua("return vim.fn.maparg('<M-f>', 'i')") == ""
    editor.type("<C-y>")
    wait_for(lambda: editor.line() == "aghost", "the other key accepts")


def test_tabs_are_as_wide_as_they_will_be(neovim: Scripted) -> None:
    """Virtual text would show a tab as one cell: it is drawn as the spaces that it stands for, and goes in as a tab."""
    editor = neovim(more="vim.o.tabstop = 4")
    offer(editor, "x\ty\n\tz")
    type_and_wait(editor, "iab", "x y\n    z")
    editor.type("<Tab>")
    wait_for(lambda: editor.text() == "abx\ty\n\tz\n", "tabs go in")


def test_status_for_the_statusline(neovim: Scripted) -> None:
    """It says what the server said last (loading: what, and how far), a percent sign as a statusline wants it."""
    editor = neovim()
    assert editor.status() == "fastcoder …"
    for state, percent, shown in (
        ("loading", 40, "fastcoder 40%% m"),
        ("ready", None, "fastcoder"),
        ("thinking", None, "fastcoder ·"),
        ("off", None, "fastcoder off"),
        ("error", None, "fastcoder !"),
    ):
        told = {"state": state, "percent": percent, "message": "m", "hint": "h"}
        editor.lua("scripted.tell('fastcoder/status', ...)", told)
        wait_for(lambda shown=shown: editor.status() == shown, shown)  # type: ignore[misc]
    assert editor.lua("return require('fastcoder').status()") == {"state": "error", "message": "m", "hint": "h"}
    editor.lua("vim.cmd.enew()")
    assert editor.status() == ""


def test_a_server_that_keeps_dying_is_left_alone(neovim: Scripted) -> None:
    """It is started again a few times; then one message says what to do, and the command starts it."""
    editor = neovim(more="require('fastcoder').setup({ restarts = 2 }) _G.starts = 0")
    editor.lua(
        """
        local fine = vim.lsp.config.fastcoder.cmd
        vim.lsp.config('fastcoder', { cmd = function(dispatchers)
          _G.starts = _G.starts + 1
          if not _G.mended then
            vim.defer_fn(function() dispatchers.on_exit(1, 9) end, 20)
          end
          return fine(dispatchers)
        end })
        vim.lsp.enable('fastcoder', false)
        """
    )
    wait_for(lambda: not editor.lua("return #vim.lsp.get_clients()"), "the first one stops")
    editor.lua("vim.lsp.enable('fastcoder')")
    wait_for(lambda: ":FastCoder restart" in editor.messages(), "a message says what to do")
    assert editor.lua("return _G.starts") == 3
    settle(editor)
    assert editor.messages().count(":FastCoder restart") == 1
    editor.lua("_G.mended = true")
    editor.rpc.command("FastCoder restart")
    wait_for(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 1, "it is back")
    offer(editor, "ghost")
    type_and_wait(editor, "ia", "ghost")


def test_one_server_for_all_folders(neovim: Scripted, tmp_path: Path) -> None:
    """A file of another repository is served by the same server, which is told of the folder, once."""
    editor = neovim()
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    for name in ("a.py", "b.py"):
        (other / name).write_text("")
        editor.rpc.command(f"edit {other / name}")
        wait_for(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 1, "it serves the file")
    assert editor.lua("return #vim.lsp.get_clients()") == 1
    notified = editor.lua("return scripted.notified")
    changes = [told["params"] for told in notified if told["method"] == "workspace/didChangeWorkspaceFolders"]
    assert [folder["uri"] for change in changes for folder in change["event"]["added"]] == [other.as_uri()]


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
seen.show = function(text)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  seen.item = { insert_text = text }
  vim.api.nvim_buf_set_extmark(0, seen.namespace, row - 1, col, { virt_text = { { text } } })
end
"""


def test_the_keys_of_neovim_0_12(neovim: Scripted) -> None:
    """Where Neovim has inline completion of its own, ours is off and our keys use it (a stand-in: there is no 0.12)."""
    editor = neovim(more=NATIVE)
    offer(editor, "never asked by us")
    assert editor.lua("return native.enabled")[-1][0] is True
    editor.type("ia")
    settle(editor)
    assert requests(editor) == []
    editor.lua("native.show('one two')")
    editor.type("<M-f>")
    wait_for(lambda: editor.line() == "aone", "a word goes in")
    editor.lua("native.show(' two\\n  three')")
    editor.type("<M-]><M-[>")
    wait_for(lambda: editor.lua("return native.selected") == [1, -1], "the turns go to Neovim")
    editor.type("<M-e>")
    wait_for(lambda: editor.line() == "aone two", "the line goes in")
    editor.lua("native.show('!')")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "aone two!", "all of it goes in")
    editor.type("<Tab>")
    wait_for(lambda: editor.line() == "aone two!   ", "Tab is Tab again")


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
