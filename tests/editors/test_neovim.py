"""The server in a real Neovim, typed into over its RPC interface, with the files of editors/neovim."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pynvim
import pytest

from tests.editors.conftest import ROOT, Server, assert_leaves, find_editor, wait_for

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


class Neovim:
    """A running editor with one file open."""

    def __init__(self, program: str, configuration: str, file: Path, home: Path) -> None:
        init = home / "init.lua"
        init.write_text(configuration)
        self.rpc: Any = pynvim.attach(
            "child", argv=[program, "--embed", "--headless", "-n", "-i", "NONE", "-u", str(init), str(file)]
        )
        self.pid: int = self.rpc.funcs.getpid()
        wait_for(
            lambda: self.lua("return vim.tbl_count(vim.lsp.get_clients({ bufnr = 0 })) > 0"), "the server attaches"
        )

    def lua(self, code: str) -> Any:
        return self.rpc.exec_lua(code)

    def type(self, keys: str) -> None:
        self.rpc.input(keys)

    def text(self) -> str:
        return "\n".join(self.rpc.api.buf_get_lines(0, 0, -1, False)) + "\n"

    def line(self) -> str:
        return str(self.rpc.api.get_current_line())

    def ghost(self) -> str:
        """The ghost text as it is drawn; empty where there is none."""
        namespace = self.rpc.api.create_namespace("fastcoder")
        marks = self.rpc.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
        if not marks:
            return ""
        details = marks[0][3]
        lines = [details["virt_text"], *details.get("virt_lines", ())]
        return "\n".join("".join(chunk[0] for chunk in line) for line in lines)

    def server_text(self) -> str:
        """The server's own copy of the buffer."""
        code = """
            local client, buffer = vim.lsp.get_clients({ bufnr = 0 })[1], vim.api.nvim_get_current_buf()
            local params = { uri = vim.uri_from_bufnr(buffer) }
            return client:request_sync('fastcoder/debug/text', params, 5000, buffer).result.text
        """
        return str(self.lua(code))

    def quit(self) -> None:
        try:
            self.rpc.command("qall!", async_=True)
            self.rpc.close()
        except OSError:
            pass


@pytest.fixture
def neovim(
    server: Server, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Neovim]]:
    """Starts Neovim with a configuration, the file expenses/reports.py, and nothing of the user's."""
    program = find_editor("neovim", "nvim")
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    opened: list[Neovim] = []

    def start(configuration: str) -> Neovim:
        opened.append(Neovim(program, configuration, workspace / "expenses/reports.py", tmp_path))
        return opened[-1]

    yield start
    for editor in opened:
        editor.quit()
    assert_leaves(server)


def open_function(editor: Neovim, typed: str = TYPED) -> None:
    """Type the beginning of a function's body."""
    editor.rpc.funcs.search("largest first")
    editor.type("o<C-u>" + typed)
    wait_for(lambda: editor.line() == typed, "the letters arrive")


def test_ghost_text_appears_and_tab_accepts_it(neovim: Callable[[str], Neovim]) -> None:
    """Typing shows ghost text; Tab puts exactly that text in, and the server sees the same document as the editor."""
    editor = neovim(CONFIGURATION)
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    before, ghost = editor.text(), editor.ghost()
    assert editor.lua("return vim.lsp.get_clients({ bufnr = 0 })[1].offset_encoding") == "utf-8"
    editor.type("<Tab>")
    wait_for(lambda: editor.text() != before, "Tab accepts")
    assert editor.text() == before.replace(TYPED, TYPED + ghost, 1)
    assert editor.server_text() == editor.text()
    assert "Error" not in editor.rpc.command_output("messages")


def test_typing_the_suggested_letters_keeps_the_rest(neovim: Callable[[str], Neovim]) -> None:
    """Each letter of the ghost text that is typed leaves the rest of it; another letter, or the key, takes it away."""
    editor = neovim(CONFIGURATION)
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    ghost = editor.ghost()
    for letter in ghost[:3]:
        typed = editor.line() + letter
        editor.type(letter)
        wait_for(partial(_shows, editor, typed, TYPED + ghost), "the letter arrives and the rest stays")
    editor.type("<C-]>")
    wait_for(lambda: not editor.ghost(), "the key dismisses")


def _shows(editor: Neovim, typed: str, whole: str) -> bool:
    return editor.line() == typed and typed + editor.ghost() == whole


def test_accepting_a_word_leaves_the_rest_to_be_accepted(neovim: Callable[[str], Neovim]) -> None:
    """One word goes in, the rest is shown behind it; leaving insert mode takes it away."""
    editor = neovim(CONFIGURATION)
    open_function(editor)
    wait_for(editor.ghost, "ghost text")
    ghost = editor.ghost()
    editor.type("<M-f>")
    wait_for(lambda: editor.line() != TYPED, "a word goes in")
    word = editor.line().removeprefix(TYPED)
    assert word
    assert ghost.startswith(word)
    wait_for(lambda: editor.ghost() == ghost[len(word) :], "the rest is shown")
    editor.type("<Esc>")
    wait_for(lambda: not editor.ghost(), "no ghost text outside insert mode")


def test_astral_characters_do_not_shift_positions(neovim: Callable[[str], Neovim]) -> None:
    """Neovim counts bytes (UTF-8): ghost text stands right behind characters that take four of them."""
    editor = neovim(CONFIGURATION)
    typed = "    crabs = ['🦀', '𝔘'] + list(expenses)[:"
    open_function(editor, typed)
    wait_for(editor.ghost, "ghost text")
    before, ghost = editor.text(), editor.ghost()
    editor.type("<Tab>")
    wait_for(lambda: editor.text() != before, "Tab accepts")
    assert typed + ghost in editor.text()
    assert editor.server_text() == editor.text()


def test_popup_completion_without_our_lua(neovim: Callable[[str], Neovim]) -> None:
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


def test_a_killed_neovim_leaves_no_server(neovim: Callable[[str], Neovim], server: Server) -> None:
    """SIGKILL gives the editor no chance to say goodbye; the server ends all the same, even while it computes."""
    editor = neovim(CONFIGURATION)
    open_function(editor)
    assert server.processes()
    os.kill(editor.pid, signal.SIGKILL)
    assert_leaves(server)
