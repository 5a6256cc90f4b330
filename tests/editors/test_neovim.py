"""The server in a real Neovim, typed into over its RPC interface, with the files of editors/neovim and a real model."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.editors.conftest import (
    ROOT,
    Server,
    assert_leaves,
    find_editor,
    make_workspace,
    put_scripted_on_path,
    wait_for,
)
from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import notices
from tests.opened import opening

CONFIGURATION = f"""
vim.opt.runtimepath:append('{ROOT}/editors/neovim')
vim.lsp.enable('fastcoder')
"""
POPUP_ONLY = """
vim.opt.completeopt = 'menuone,popup'
vim.lsp.config('fastcoder', { cmd = { 'fastcoder-lsp', 'serve' }, root_markers = { '.git' } })
vim.lsp.enable('fastcoder')
"""
TYPED = "    return sorted("
Start = Callable[[str], Neovim]


@pytest.fixture
def neovim(server: Server, workspace: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts Neovim with a configuration, the file expenses/reports.py, and a server of its own."""
    program = find_editor("neovim", "nvim")
    file = workspace / "expenses/reports.py"
    yield from opening(lambda configuration: Neovim(program, configuration, file, tmp_path), Neovim.quit)
    assert_leaves(server)


@pytest.fixture(scope="module")
def shared(lasting_server: Server) -> Iterator[Neovim]:
    """One Neovim for the tests that leave it as it was."""
    folder = lasting_server.folder.parent
    program = find_editor("neovim", "nvim")
    editor = Neovim(program, CONFIGURATION, make_workspace(folder) / "expenses/reports.py", folder)
    yield editor
    editor.quit()
    assert_leaves(lasting_server)


@pytest.fixture
def editor(shared: Neovim) -> Neovim:
    """Neovim with the file as it stands on the disk, below the head of an unfinished function."""
    shared.type("<Esc>")
    wait_for(lambda: shared.mode() == "n", "normal mode")
    shared.rpc.command("edit! | call cursor(1, 1) | messages clear")
    return shared


def open_function(editor: Neovim, typed: str = TYPED) -> None:
    """Type the beginning of a function's body."""
    editor.rpc.funcs.search("largest first")
    editor.type("o<C-u>" + typed)
    wait_for(lambda: editor.line() == typed, "the letters arrive")


def test_ghost_text_appears_and_tab_accepts_it(editor: Neovim) -> None:
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    before, ghost = editor.text(), editor.ghost()
    assert editor.lua("return vim.lsp.get_clients({ bufnr = 0 })[1].offset_encoding") == "utf-8"
    editor.type("<Tab>")
    wait_for(lambda: editor.text() != before, "Tab accepts")
    assert editor.text() == before.replace(TYPED, TYPED + ghost, 1)
    assert editor.server_text() == editor.text()
    assert "Error" not in editor.messages()


def test_astral_characters_do_not_shift_positions(editor: Neovim) -> None:
    """Neovim counts bytes (UTF-8): ghost text stands right behind characters that take four of them."""
    typed = "    crabs = ['🦀', '𝔘'] + list(expenses)[:"
    open_function(editor, typed)
    wait_for(editor.ghost, "ghost text")
    before, ghost = editor.text(), editor.ghost()
    editor.type("<Tab>")
    wait_for(lambda: editor.text() != before, "Tab accepts")
    assert typed + ghost in editor.text()
    assert editor.server_text() == editor.text()


def test_changed_settings_arrive(editor: Neovim) -> None:
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    editor.lua("require('fastcoder').change_settings({ languages = { exclude = { 'python' } } })")
    editor.type(" <BS>")
    editor.lua("vim.wait(500, function() return false end)")
    assert (editor.line(), editor.ghost()) == (TYPED, "")
    editor.lua("require('fastcoder').change_settings({ languages = { exclude = {} } })")
    editor.type(" <BS>")
    wait_for(editor.ghost, "ghost text again")


def test_statistics_and_health(editor: Neovim, lasting_server: Server) -> None:
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    editor.type("<Esc>")
    editor.rpc.command("FastCoder stats")
    wait_for(lambda: "median" in notices(editor), "the figures are shown")
    assert "accepted" in notices(editor)
    assert "Too early to tell" in notices(editor)
    editor.type("k")
    wait_for(lambda: "median" not in notices(editor), "moving the cursor closes them")
    editor.rpc.command("checkhealth fastcoder")
    report = editor.text()
    editor.rpc.command("close")
    assert str(lasting_server.program) in report
    assert "ready" in report
    assert "utf-8 positions" in report
    server_part = report[report.index("The server ~") :]
    assert "ERROR" not in server_part
    assert "WARNING" not in server_part


@pytest.mark.ci
def test_status_while_loading_and_switching_off_and_on(neovim: Start, server: Server) -> None:
    editor = neovim(CONFIGURATION + "vim.lsp.config('fastcoder', { init_options = { host = { enabled = false } } })")
    editor.lua(
        """
        _G.seen = {}
        vim.api.nvim_create_autocmd('User', { pattern = 'FastCoderStatus', callback = function()
          table.insert(_G.seen, require('fastcoder').status().state)
        end })
        """
    )
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    wait_for(lambda: editor.status() == "fastcoder", "the statusline says ready")
    seen = editor.lua("return _G.seen")
    assert seen.index("loading") < seen.index("ready")
    (process,) = server.processes()
    loaded = process.memory_info().rss
    editor.rpc.command("FastCoder toggle")
    wait_for(lambda: editor.status() == "fastcoder off", "the statusline says off")
    wait_for(lambda: not editor.ghost(), "nothing is shown any more")
    wait_for(lambda: process.memory_info().rss < 0.9 * loaded, "the model is unloaded")
    editor.type("<BS>")
    wait_for(lambda: editor.line() == TYPED[:-1], "the letter goes")
    editor.rpc.command("FastCoder toggle")
    wait_for(lambda: editor.status() != "fastcoder off", "on again")
    editor.type(TYPED[-1])
    wait_for(editor.ghost, "ghost text again")


@pytest.mark.ci
def test_a_killed_server_comes_back(neovim: Start, server: Server) -> None:
    editor = neovim(CONFIGURATION)
    open_function(editor)
    (process,) = server.processes()
    process.kill()
    wait_for(lambda: [other.pid for other in server.processes()] not in ([], [process.pid]), "another server")
    wait_for(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 1, "it serves the buffer")
    editor.type("<BS>" + TYPED[-1])
    wait_for(editor.ghost, "ghost text again")
    assert editor.server_text() == editor.text()


@pytest.mark.ci
def test_popup_completion_without_our_lua(neovim: Start) -> None:
    """A client that only has the completion menu gets the suggestion there, through omni completion.

    Neovim 0.11 itself puts an entry in up to its first space; plugins that apply text edits put all of it in.
    """
    editor = neovim(POPUP_ONLY)
    open_function(editor, "    return sort")

    shown = "return vim.fn.pumvisible() == 1"

    def menu() -> bool:
        editor.type("<C-x><C-o>")  # until the model is loaded the answers are empty: a menu never waits for long
        return bool(editor.lua("return vim.wait(1000, function() return vim.fn.pumvisible() == 1 end)"))

    wait_for(menu, "the completion menu")
    (offered,) = (item["word"] for item in editor.lua("return vim.fn.complete_info({ 'items' }).items"))
    editor.type("<C-y>")
    wait_for(lambda: not editor.lua(shown), "the entry goes in")
    assert editor.line() == f"    return {offered}"
    assert offered.startswith("sort")
    assert len(offered) > len("sort")
    assert editor.server_text() == editor.text()


@pytest.mark.ci
def test_a_killed_neovim_leaves_no_server(neovim: Start, server: Server) -> None:
    """SIGKILL gives the editor no chance to say goodbye; the server ends all the same, even while it computes."""
    editor = neovim(CONFIGURATION)
    open_function(editor)
    assert server.processes()
    os.kill(editor.pid, signal.SIGKILL)
    assert_leaves(server)


@pytest.fixture
def slow(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Neovim]:
    """Neovim with a server that needs more than a second for a suggestion, and has a tenth of one."""
    (workspace / "fastcoder.toml").unlink()
    arguments = ("--says", "sorted(expenses)", "--step-ms", "100", "--budget-ms", "100")
    server = put_scripted_on_path(tmp_path, monkeypatch, *arguments)
    editor = Neovim(find_editor("neovim", "nvim"), CONFIGURATION, workspace / "expenses/reports.py", tmp_path)
    editor.lua(
        "require('fastcoder.ghost').late, _G.late = function(...) _G.told = true return _G.late(...) end, "
        "require('fastcoder.ghost').late"
    )
    yield editor
    for process in server.processes():
        process.resume()
    editor.quit()
    assert_leaves(server)


def test_what_was_late_is_shown_when_it_is_made(slow: Neovim) -> None:
    open_function(slow, "    return ")
    wait_for(lambda: slow.ghost() == "sorted(expenses)", "the late suggestion")
    assert slow.lua("return told") is True
    slow.type("<Esc>")
    slow.rpc.command("FastCoder why")
    wait_for(lambda: "not ready within 100 ms" in notices(slow), "the reason")
    slow.type("k")


def _ends_with(editor: Neovim, letter: str) -> bool:
    return editor.line().endswith(letter)


@pytest.mark.ci
def test_a_server_that_stood_still_goes_on(slow: Neovim, tmp_path: Path) -> None:
    """Stopped for a while (a suspended laptop): Neovim stays usable, and afterwards there is ghost text again."""
    open_function(slow, "    return ")
    wait_for(lambda: slow.ghost() == "sorted(expenses)", "ghost text")
    [process] = Server(tmp_path / "bin", tmp_path / "server.log").processes()
    process.suspend()
    for letter in "xyz":
        slow.type(letter)
        wait_for(partial(_ends_with, slow, letter), "typing goes on")
    wait_for(lambda: slow.ghost() == "", "the old suggestion does not fit any more")
    slow.lua("vim.wait(3000, function() return false end)")
    process.resume()
    slow.type("<CR>    return ")
    wait_for(lambda: slow.ghost() == "sorted(expenses)", "ghost text again")
    assert "Error" not in slow.messages()
