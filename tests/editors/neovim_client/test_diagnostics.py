"""The diagnostics of a buffer's other servers and linters are sent to ours, in the protocol's form."""

from typing import Any

import pytest

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, settle, wait_for

SETUP = "_G.wants_diagnostics = {wanted} require('fastcoder.diagnostics').IDLE_MS = 30"
TEXT = "first = 1\nx = '🦀'; store = far\n" + "\n" * 30 + "last\n"


def opened(neovim: Scripted, *, wanted: str = "true") -> Neovim:
    return neovim(TEXT, more=SETUP.format(wanted=wanted), encoding="utf-16")


def told(editor: Neovim) -> list[dict[str, Any]]:
    notified: list[dict[str, Any]] = editor.lua("return scripted.notified")
    return [one["params"] for one in notified if one["method"] == "fastcoder/diagnostics"]


def reports(editor: Neovim, *given: dict[str, object]) -> None:
    editor.lua("vim.diagnostic.set(vim.api.nvim_create_namespace('linter'), 0, ...)", list(given))


def one(row: int, **more: object) -> dict[str, object]:
    return {"lnum": row, "col": 0, "message": f"at {row}", "severity": 1} | more


def test_the_nearest_come_first_in_the_units_of_our_server(neovim: Scripted) -> None:
    editor = opened(neovim)
    at = len("x = '🦀'; ".encode())
    far = one(1, col=at, end_col=at + 5, message="x" * 9_000, severity=2)
    reports(editor, one(32), far, one(0, severity=4, _tags={"unnecessary": True}))
    wait_for(lambda: told(editor) and told(editor)[-1]["diagnostics"], "they are told")
    message = told(editor)[-1]
    assert message["textDocument"]["uri"] == editor.lua("return vim.uri_from_bufnr(0)")
    assert message["textDocument"]["version"] == editor.lua("return vim.lsp.util.buf_versions[0 + vim.fn.bufnr()]")
    unused, second, last = message["diagnostics"]
    assert (unused["tags"], unused["severity"], last["message"]) == ([1], 4, "at 32")
    assert second["range"] == {"start": {"line": 1, "character": 10}, "end": {"line": 1, "character": 15}}
    assert (second["severity"], len(second["message"])) == (2, 500)


def test_nothing_is_told_twice_or_of_an_older_text(neovim: Scripted) -> None:
    editor = opened(neovim)
    reports(editor, one(0))
    wait_for(lambda: told(editor) and told(editor)[-1]["diagnostics"], "it is told")
    count = len(told(editor))
    reports(editor, one(0))
    settle(editor)
    assert len(told(editor)) == count
    editor.lua("require('fastcoder.diagnostics').IDLE_MS = 300")
    reports(editor, one(1))
    editor.type("ix")
    settle(editor)
    editor.lua("vim.wait(400)")
    assert len(told(editor)) == count, "another report follows the key"
    reports(editor, *(one(row) for row in range(30)))
    wait_for(lambda: len(told(editor)) > count, "it is told")
    assert len(told(editor)[-1]["diagnostics"]) == 16


@pytest.mark.parametrize(("wanted", "switch"), [("false", ""), ("true", "vim.b.fastcoder = false")])
def test_nothing_is_told_where_it_is_of_no_use(neovim: Scripted, wanted: str, switch: str) -> None:
    editor = opened(neovim, wanted=wanted)
    editor.lua(f"{switch} scripted.notified = {{}}")
    reports(editor, one(0))
    editor.lua("vim.wait(200)")
    settle(editor)
    assert told(editor) == []
