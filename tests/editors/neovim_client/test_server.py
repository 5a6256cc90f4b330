"""The server as the plugin sees it: its options, its status, its folders, its death."""

from pathlib import Path

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import (
    BEHIND_LINE,
    Scripted,
    notices,
    offer,
    requests,
    settle,
    type_and_wait,
    wait_for,
)


def messages(editor: Neovim) -> str:
    return str(editor.lua("return vim.api.nvim_exec2('messages', { output = true }).output"))


def test_wrong_options_are_named(neovim: Scripted) -> None:
    editor = neovim()
    for options, name in (
        ("{ autos = true }", "autos"),
        ("{ keys = { acept = '<Tab>' } }", "acept"),
        ("{ restarts = -1 }", "restarts"),
        ("{ keys = { accept = 3 } }", "keys.accept"),
    ):
        problem = editor.lua(f"return select(2, pcall(require('fastcoder').setup, {options}))")
        assert name in str(problem), problem
    assert editor.lua("return require('fastcoder.config').options.keys.accept") == "<Tab>"
    assert editor.lua("return require('fastcoder.config').options.restarts") == 4


def test_the_log_shows_no_line_of_other_servers(neovim: Scripted, tmp_path: Path) -> None:
    editor = neovim()
    kept, ours = tmp_path / "lsp.log", '[ERROR] rpc "fastcoder-lsp" "stderr" "ours"'
    kept.write_text(f'[ERROR] rpc "pyright" "stderr" "theirs"\n{ours}\n')
    editor.lua("local kept = ...; vim.lsp.log.get_filename = function() return kept end", str(kept))
    editor.lua("vim.cmd('FastCoder log')")
    assert editor.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, true)") == [ours]


def test_a_snooze_counts_down_in_the_statusline(neovim: Scripted) -> None:
    editor = neovim()
    told = {"state": "ready", "percent": None, "message": "", "hint": "", "snoozed": 12, "notes": ["snoozed"]}
    editor.lua("scripted.tell('fastcoder/status', ...)", told)
    wait_for(lambda: editor.status() == "fastcoder 12 min", "it is told")
    offer(editor, "wanted")
    type_and_wait(editor, "ix", "wanted")
    editor.lua("vim.cmd('FastCoder snooze 5')")
    wait_for(lambda: editor.ghost() == "", "what is shown is taken away")
    [sent] = requests(editor, "workspace/executeCommand")
    assert sent["params"] == {"command": "fastcoder.snooze", "arguments": [5]}
    editor.lua("vim.cmd('FastCoder snooze soon')")
    assert "number of minutes" in messages(editor)


def test_status_for_the_statusline(neovim: Scripted) -> None:
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


def test_the_status_names_the_server_in_place_of_the_model(neovim: Scripted) -> None:
    editor = neovim()

    def said(state: str, asks: str | None) -> str:
        told = {"state": state, "percent": None, "message": "", "hint": "", "host": None, "asks": asks}
        editor.lua("scripted.tell('fastcoder/status', ...)", told)
        asked = f"local of = require('fastcoder').status() return of.state == '{state}' and (of.asks or '') == ..."
        wait_for(lambda: editor.lua(asked, asks or ""), "it is told")
        return str(editor.lua("return vim.api.nvim_exec2('FastCoder status', { output = true }).output"))

    assert said("ready", "models.example").endswith("ready: code around the cursor is sent to models.example")
    assert "models.example" not in said("error", "models.example")
    assert said("thinking", None).endswith("thinking")


def test_a_server_that_keeps_dying_is_left_alone(neovim: Scripted) -> None:
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


def tell(editor: Neovim, state: str, percent: int | None = None, message: str = "", hint: str = "") -> None:
    told = {"state": state, "percent": percent, "message": message, "hint": hint}
    editor.lua("scripted.tell('fastcoder/status', ...)", told)


def test_loading_and_what_is_wrong_are_shown(neovim: Scripted) -> None:
    editor = neovim()
    tell(editor, "loading", 40, "reading weights")
    wait_for(lambda: editor.lua(BEHIND_LINE) == [[0, "eol", " fastcoder: 40% reading weights"]], "it is said")
    editor.type("iabc")
    settle(editor)
    assert editor.lua(BEHIND_LINE)
    assert not notices(editor)
    tell(editor, "ready")
    wait_for(lambda: not editor.lua(BEHIND_LINE), "it goes")
    tell(editor, "error", None, "There is no model.", "Run fastcoder-lsp model pull.")
    wait_for(lambda: "model pull" in notices(editor), "what to do")
    editor.type("def")
    settle(editor)
    assert editor.line() == "abcdef"
    assert notices(editor) == "fastcoder: There is no model. Run fastcoder-lsp model pull."
    editor.type("<Esc>")
    assert "There is no model." in editor.lua("return vim.api.nvim_exec2('FastCoder status', { output = true }).output")


def test_no_server_has_its_reason(neovim: Scripted) -> None:
    """A buffer without a name has no file type, and so no server."""
    editor = neovim()
    editor.rpc.command("enew")
    said = editor.lua("return require('fastcoder.server').why_absent(0)")
    assert "no file type" in said
    editor.rpc.command("FastCoder stop")
    assert ":FastCoder restart" in editor.lua("return require('fastcoder.server').why_absent(0)")
