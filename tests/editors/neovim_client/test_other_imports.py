"""An import is no next edit where another server of the buffer offers it, by a code action of its own."""

from pathlib import Path
from typing import Any

import pytest

from tests.editors.neovim import Neovim
from tests.editors.neovim_client.scripted import Scripted, wait_for

Json = dict[str, Any]
OTHER = """
_G.proposes_edits = true
vim.lsp.config('other', {{ cmd = dofile('{here}/another_server.lua')('utf-16'), filetypes = {{ 'python' }} }})
vim.lsp.enable('other')
"""
NAME = "format_money"
TEXT = f"crab = '🦀', {NAME}(1)\n"
BEFORE = TEXT[: TEXT.index(NAME)]
IMPORT = f"from shop import {NAME}\n"


def range_at(column: int) -> Json:
    """The name's range, with a column as an encoding counts it."""
    return {"start": {"line": 0, "character": column}, "end": {"line": 0, "character": column + len(NAME)}}


IN_UTF_16 = range_at(len(BEFORE.encode("utf-16-le")) // 2)
PROPOSES = """
    local name, text, range = ...
    local top = { line = 0, character = 0 }
    scripted.edits = function(params)
      return { { text = text, range = { start = top, ['end'] = top }, textDocument = params.textDocument } }
    end
    scripted.imports = { { name = name, range = range } }
"""


def opened(neovim: Scripted, *actions: Json, more: str = "") -> Neovim:
    """Neovim with both servers, after a change: ours proposes an import, and the other one offers code actions."""
    editor = neovim(TEXT, more=OTHER.format(here=Path(__file__).parent.parent))
    wait_for(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0, name = 'other' })") == 1, "both are there")
    editor.lua(PROPOSES, NAME, IMPORT, range_at(len(BEFORE.encode())))
    editor.lua("another.actions = ... " + more, list(actions))
    editor.type("A #<Esc>")
    wait_for(lambda: asked(editor), "the other server is asked")
    return editor


def asked(editor: Neovim) -> list[Json]:
    found: list[Json] = editor.lua("return another.asked")
    return found


def is_shown(editor: Neovim) -> bool:
    """Whether our edit is shown by now, or soon after."""
    waits = "return vim.wait(600, function() return require('fastcoder').is_edit_visible() end)"
    return bool(editor.lua(waits))


def fix(title: str, *texts: str, kind: str = "quickfix", **more: object) -> Json:
    edits = [{"newText": text, "range": IN_UTF_16} for text in texts]
    edit = {"edit": {"documentChanges": [{"textDocument": {"uri": "file:///w/a.py"}, "edits": edits}]}}
    return {"title": title, "kind": kind, **(edit if texts else {}), **more}


IMPORTS = {
    "an edit": fix("Add", IMPORT),
    "a longer list": fix('Update import from "shop"', f", {NAME}"),
    "an edit by its document": fix("Add") | {"edit": {"changes": {"file:///w/a.py": [{"newText": IMPORT}]}}},
    "a title": fix(f"Import `shop::{NAME}`", data=1),
    "all imports, to be resolved": fix("Add all missing imports", kind="source.addMissingImports.ts", data=1),
    "all imports": fix("Add all missing imports", IMPORT, kind="source.addMissingImports"),
}


@pytest.mark.parametrize("how", IMPORTS)
def test_what_another_server_offers_is_left_to_it_unless_one_asks_by_key(neovim: Scripted, how: str) -> None:
    editor = opened(neovim, fix("Disable this check", "  # noqa"), IMPORTS[how])
    assert not is_shown(editor)
    assert asked(editor)[0]["range"] == IN_UTF_16
    assert asked(editor)[0]["context"]["only"] == ["quickfix", "source.addMissingImports"]
    editor.lua("another.asked = {}")
    editor.rpc.command("FastCoder edit")
    assert is_shown(editor)
    assert asked(editor) == []
    assert editor.messages() == ""


OTHERS = {
    "another name": fix("Add import", "from shop import Price\n"),
    "another change": fix(f"Create function {NAME}", f"def {NAME}(): ...\n"),
    "nothing to import": fix("Add all missing imports", kind="source.addMissingImports"),
    "a disabled one": fix("Add", IMPORT, disabled={"reason": "no"}),
    "nonsense": {"title": "Import", "kind": 7, "edit": {"changes": 1, "documentChanges": [1, {"edits": [1]}]}},
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_code_actions_hold_nothing_back(neovim: Scripted, what: str) -> None:
    editor = opened(neovim, OTHERS[what])
    wait_for(lambda: is_shown(editor), "the edit is shown")
    assert editor.messages() == ""


def test_a_server_is_asked_again_once_it_has_reported_the_name(neovim: Scripted) -> None:
    reports = """
        local import = unpack(another.actions)
        another.actions = function(params)
          if #params.context.diagnostics > 0 then
            return { import }
          end
          another.report(params.textDocument.uri, { { message = 'undefined name', range = params.range } })
          return {}
        end
    """
    editor = opened(neovim, IMPORTS["an edit"], more=reports)
    assert not is_shown(editor)
    assert [one["message"] for one in asked(editor)[-1]["context"]["diagnostics"]] == ["undefined name"]


def test_a_server_that_does_not_answer_is_not_waited_for(neovim: Scripted) -> None:
    editor = opened(neovim, IMPORTS["an edit"], more="another.hold = true")
    wait_for(lambda: is_shown(editor), "the edit is shown")
