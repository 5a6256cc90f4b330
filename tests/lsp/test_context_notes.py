"""`fastcoder/diagnostics` and the user's changes: what a client tells and does, on its way into a question."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lsprotocol import types

from fastcoder_lsp.core import CompletionRequest, Diagnostic, Snapshot
from fastcoder_lsp.core.bounds import MOST_DIAGNOSTICS
from fastcoder_lsp.lsp.capabilities import read_client, read_folders
from fastcoder_lsp.lsp.configuration import Configuration
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.lsp.requests.ask import question_at_start
from fastcoder_lsp.lsp.requests.context import MAX_ENTRIES, MAX_MESSAGE, diagnostics
from fastcoder_lsp.lsp.requests.documents import did_change, did_open
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.folders import Folders
from tests.host.scripted import ScriptedHost
from tests.lsp.raw_client import Json, running

TEXT = "import json\n\nx = '🦀'; return foo(x)\n" + "y" * 300 + "\n"
ON: Json = {"context": {"enabled": True, "diagnostics": True, "edits": True}}


class Editor:
    """A session as the server has it, and an editor's messages to it."""

    def __init__(self, folder: Path, options: Json = ON) -> None:
        self.uri = (folder / "a.py").as_uri()
        endpoint = cast("Endpoint", SimpleNamespace(notify=lambda *_: None, ask=lambda *_: None))
        self.configuration = Configuration({})
        self.configuration.set_initial(options)
        params = {"workspaceFolders": [{"uri": folder.as_uri(), "name": "w"}]}
        folders = Folders(read_folders(params))
        self.session = Session(endpoint, read_client(params), self.configuration, folders, ScriptedHost)
        item = types.TextDocumentItem(self.uri, "python", 1, TEXT)
        did_open(self.session, types.DidOpenTextDocumentParams(item))
        self.version = 1

    def types(self, text: str) -> None:
        """Put `text` above everything."""
        self.version += 1
        start = types.Position(0, 0)
        change = types.TextDocumentContentChangePartial(types.Range(start, start), text)
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
        did_change(self.session, types.DidChangeTextDocumentParams(document, [change]))

    def tells(self, *given: object, version: object = 1, uri: object = None) -> None:
        document = {"uri": uri or self.uri, "version": version}
        diagnostics(self.session, {"textDocument": document, "diagnostics": list(given)})

    def asks(self) -> Snapshot:
        request = question_at_start(self.session, self.uri)
        assert isinstance(request, CompletionRequest)
        return request.snapshot


def one(line: object = 2, message: object = "undefined name 'foo'", character: object = 17, **more: object) -> Json:
    at = {"line": line, "character": character}
    return {"range": {"start": at, "end": at}, "message": message, **more}


SOURCE = "x = '🦀'; return foo(x)"


async def test_they_go_with_the_next_version(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    before = editor.asks()
    editor.tells(one(severity=1))
    assert editor.asks() is before
    editor.types("import re\n")
    after = editor.asks()
    assert after.diagnostics == (Diagnostic(2, 1, "undefined name 'foo'", SOURCE),)
    assert [(one.path, one.line, one.old, one.new) for one in after.changes] == [("a.py", 0, "", "import re\n")]
    editor.tells(version=2)
    editor.types("\n")
    assert editor.asks().diagnostics == ()


@pytest.mark.parametrize(
    ("options", "carried"),
    [
        ({}, (False, False)),
        ({"enabled": False, "diagnostics": True, "edits": True}, (False, False)),
        ({"diagnostics": True}, (True, False)),
        ({"edits": True}, (False, True)),
    ],
)
async def test_each_has_a_setting_of_its_own(tmp_path: Path, options: Json, carried: tuple[bool, bool]) -> None:
    editor = Editor(tmp_path, {"context": options, "edits": {"analogy": False}})
    editor.tells(one(severity=1))
    editor.types("import re\n")
    snapshot = editor.asks()
    assert (bool(snapshot.diagnostics), bool(snapshot.changes)) == carried


async def test_what_is_switched_off_is_gone(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.tells(one(severity=1))
    editor.configuration.set_initial({"context": {"enabled": True}})
    editor.session.refresh()
    editor.types("import re\n")
    assert (editor.asks().diagnostics, editor.asks().changes) == ((), ())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (one(severity=2, source="pyright", code=3), (2, "undefined name 'foo'")),
        (one(), (2, "undefined name 'foo'")),
        (one(severity=4, tags=[2, 1]), (4, "undefined name 'foo'")),
        (one(severity=1, message="a\n  b\t" + "c" * 5_000), (1, "a b " + "c" * (MAX_MESSAGE - 4))),
        (one(severity=4), ()),
        (one(severity=3), ()),
        (one(message=" "), ()),
        (one(line=1), ()),
        (one(line=3), ()),
        (one(line=999_999), ()),
        *((value, None) for value in (None, 7, "x", [1], {"message": "x"}, {"range": 3, "message": "x"})),
        *((one(line=line), None) for line in (-1, 1.5, True, "2", 10**12, None)),
        *((one(character=character), None) for character in (-1, None, "0")),
        *((one(severity=severity), None) for severity in (0, 5, "1", True)),
        *((one(message=message), None) for message in (None, 7, ["x"])),
        (one(tags=1), None),
    ],
)
async def test_what_is_kept_of_a_diagnostic(
    tmp_path: Path, given: object, kept: tuple[int, str] | tuple[()] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """None: malformed, and named in the log; (): of no use. A line is known by the server's own copy."""
    editor = Editor(tmp_path)
    with caplog.at_level(logging.WARNING):
        editor.tells(given, one(line=0, severity=1, message="last"))
    editor.types("\n")
    found = [(each.severity, each.message) for each in editor.asks().diagnostics]
    assert found == [*([kept] if kept else []), (1, "last")]
    assert ("ignored 1 of 2" in caplog.text) is (kept is None)


@pytest.mark.parametrize(
    "params",
    [None, [], 7, {}, {"textDocument": {"uri": 3, "version": 1}, "diagnostics": []}, {"textDocument": {"uri": "URI"}}],
)
async def test_a_malformed_message_changes_nothing(
    tmp_path: Path, params: Any, caplog: pytest.LogCaptureFixture
) -> None:
    editor = Editor(tmp_path)
    editor.tells(one(severity=1))
    with caplog.at_level(logging.WARNING):
        diagnostics(editor.session, params)
    assert "ignored fastcoder/diagnostics" in caplog.text
    for version, uri in ((0, None), (2, None), (1, "file:///closed.py")):
        editor.tells(version=version, uri=uri)
    editor.types("\n")
    assert len(editor.asks().diagnostics) == 1


async def test_there_are_bounds(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.tells(*(one(message=f"number {number}") for number in range(10_000)), version=None)
    editor.types("\n")
    assert [one.message for one in editor.asks().diagnostics] == [f"number {n}" for n in range(MOST_DIAGNOSTICS)]
    editor.tells(*[None] * MAX_ENTRIES, one(), version=None)
    for number in range(200):
        editor.types(f"{'z' * number} = {number}\n" if number % 20 else "long = 1\n" * 500)
    snapshot = editor.asks()
    assert snapshot.diagnostics == ()
    assert sum(len(each.old) + len(each.new) for each in snapshot.changes) <= 20_000


async def test_over_the_wire() -> None:
    """A client knows from the start whether diagnostics are of use, and by the status when that changes."""
    async with running("--says", "suggested") as client:
        result = await client.initialize(initializationOptions=ON | {"client": {"protectsMachineSettings": True}})
        assert result["capabilities"]["experimental"]["fastcoderDiagnostics"] is True
        client.open("file:///w/a.py", "x = ")
        told: Json = {"textDocument": {"uri": "file:///w/a.py", "version": 1}, "diagnostics": [one(line=0)]}
        for params in (told, None, [1], {"diagnostics": 3}):
            client.notify("fastcoder/diagnostics", params)
        assert await client.inline("file:///w/a.py", 0, 4)
        refused = await client.answer(client.ask("fastcoder/diagnostics", told))
        assert refused["error"]["code"] == -32601

        def statuses() -> list[bool]:
            methods = (message for message in client.told if message["method"] == "fastcoder/status")
            return [message["params"].get("diagnostics", False) for message in methods]

        assert statuses()[-1]
        settings: Json = {"fastcoder": {"context": {"enabled": True, "diagnostics": False}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        await client.until(lambda: not statuses()[-1])
