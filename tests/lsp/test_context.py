"""What a client tells beside its questions: definitions, and what was copied.

Each goes along with a question from the document's next version on. A client may say anything.
"""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lsprotocol import types

from fastcoder_lsp.completion.question import Question
from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Definition, Yank
from fastcoder_lsp.lsp.capabilities import read_client, read_folders
from fastcoder_lsp.lsp.configuration import Configuration
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.lsp.requests.context import (
    LAST_LINE,
    MAX_DEFINITIONS,
    MAX_ENTRIES,
    cursor,
    definitions,
    yanked,
)
from fastcoder_lsp.lsp.requests.documents import did_change, did_open
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import ContentChange, Document
from fastcoder_lsp.workspace.documents import MAX_YANK_CHARACTERS, MAX_YANKS, YANK_TTL_S, Documents
from fastcoder_lsp.workspace.folders import Folders
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.host.scripted import ScriptedHost
from tests.lsp.raw_client import Json, RawClient, running

READ = "import json\n\nx = '🦀'; return foo(x)\n" + "y" * 300 + "\n"
ON: Json = {"context": {"enabled": True}}


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
        item = types.TextDocumentItem(self.uri, "python", 1, READ)
        did_open(self.session, types.DidOpenTextDocumentParams(item))
        self.version = 1

    def types(self, text: str) -> None:
        """Put `text` above everything."""
        self.version += 1
        start = types.Position(0, 0)
        change = types.TextDocumentContentChangePartial(types.Range(start, start), text)
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
        did_change(self.session, types.DidChangeTextDocumentParams(document, [change]))


URI, OTHER = "file:///w/a.py", "file:///w/b.py"
SHOWS = Settings(context_enabled=True)
TEXT = "".join(f"line_{number} = {number}\n" for number in range(50))


def session(
    text: str = TEXT, uri: str = URI, *, path: str = "/w/a.py", language: str = "python", given: Settings = SHOWS
) -> tuple[Session, Documents]:
    documents = Documents()
    documents.open(Document(uri, Path(path), language, 1, text))
    documents.open(Document(OTHER, Path("/w/b.py"), "python", 1, "x = 1\n"))
    made = SimpleNamespace(
        documents=documents,
        folder_of=lambda _: None,
        settings=lambda _: given,
        is_enabled=lambda settings: settings.enabled,
        rules=lambda _: ReadingRules((Path("/w"),), given),
    )
    return cast("Session", made), documents


def copied(first: object = 3, last: object = 3, behind: object = 5, **document: object) -> Json:
    place = {"start": {"line": first, "character": 2}, "end": {"line": last, "character": behind}}
    return {"textDocument": {"uri": URI, "version": 1, **document}, "range": place}


def copies(documents: Documents) -> list[str]:
    return [one.text for one in documents.yanks]


def test_whole_lines_go_along_from_the_next_version_on() -> None:
    of, documents = session()
    before = documents.snapshot(OTHER)
    yanked(of, copied(3, 5, 0))
    assert documents.snapshot(OTHER) is before
    document = documents.get(OTHER)
    assert document is not None
    document.edit(2, [ContentChange("x = 2\n")], cast("Any", None))
    after = documents.snapshot(OTHER)
    assert (after and after.yanks) == (Yank("/w/a.py", 3, "line_3 = 3\nline_4 = 4"),)


def test_the_last_copies_are_kept_the_newest_first() -> None:
    of, documents = session()
    for line in (1, 2, 3, 2):
        yanked(of, copied(line, line))
    assert copies(documents) == ["line_2 = 2", "line_3 = 3"]
    assert len(documents.yanks) == MAX_YANKS
    documents.close(URI)
    assert copies(documents) == ["line_2 = 2", "line_3 = 3"]
    yanked(of, copied(7, 7))
    assert copies(documents) == ["line_2 = 2", "line_3 = 3"], "it is not open any more"


def test_blank_lines_and_positions_behind_the_end_are_left_out() -> None:
    of, documents = session("\n\n  \nvalue = 1\n\n\n")
    yanked(of, copied(0, LAST_LINE))
    assert documents.yanks == (Yank("/w/a.py", 3, "value = 1"),)
    for place in (copied(0, 1), copied(900, 900), copied(LAST_LINE, LAST_LINE)):
        yanked(of, place)
    assert len(documents.yanks) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MAX_YANK_CHARACTERS + 1),
        "x\n" * MAX_YANK_CHARACTERS,
        f"{TEXT}KEY = '-----BEGIN PRIVATE KEY-----\n",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{TEXT}-----END OPENSSH PRIVATE KEY-----\n",
    ],
)
def test_data_and_what_lies_beside_a_key_is_not_taken(text: str) -> None:
    """Lines in the midst of a key tell nothing of it: the document is asked, before they are cut out."""
    of, documents = session(text)
    yanked(of, copied(0, len(text)))
    if "KEY" in text:
        yanked(of, copied(3, 4))
    assert documents.yanks == ()


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        7,
        {},
        {"textDocument": {"uri": URI, "version": 1}},
        copied() | {"textDocument": "x"},
        copied(uri=3),
        *(copied(version=version) for version in ("1", True, 1.0)),
        copied() | {"range": [3, 4]},
        *(copied(first=first) for first in (-1, True)),
        *(copied(last=last) for last in ("3", LAST_LINE + 1, 10**30)),
        copied(first=5, last=3),
        *(copied(behind=behind) for behind in (None, "x" * 1000)),
    ],
)
def test_a_malformed_place_of_a_copy_changes_nothing(params: object, caplog: pytest.LogCaptureFixture) -> None:
    of, documents = session()
    yanked(of, copied())
    with caplog.at_level(logging.WARNING):
        yanked(of, params)
    assert copies(documents) == ["line_3 = 3"]
    assert "ignored fastcoder/yanked" in caplog.text


def test_copies_of_other_versions_and_closed_files_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Without a word: a client may be ahead, and need not know the settings of each folder."""
    with caplog.at_level(logging.WARNING):
        of, documents = session()
        for place in (
            copied(version=0),
            copied(version=2),
            copied(uri="file:///w/closed.py"),
            copied(text="from a register"),
        ):
            yanked(of, place)
        assert copies(documents) == ["line_3 = 3"], "what a client says beside the place is not read"
        cells, cell = session(uri="vscode-notebook-cell:/w/a.py#1")
        yanked(cells, copied(uri="vscode-notebook-cell:/w/a.py#1"))
        assert cell.yanks == ()
        yanked(of, copied(4, 4, version=None))
        assert copies(documents) == ["line_4 = 4", "line_3 = 3"]
    assert not caplog.records


@pytest.mark.parametrize(
    "unwanted",
    [
        {"given": Settings(context_enabled=False)},
        {"given": Settings(context_enabled=True, enabled=False)},
        {"given": Settings(context_enabled=True, languages_exclude=("python",))},
        {"given": Settings(context_enabled=True, read_exclude=("a.py",))},
        {"path": "/w/.env"},
        {"path": "/w/settings", "language": "dotenv"},
    ],
)
def test_nothing_is_taken_where_nothing_is_suggested(unwanted: dict[str, Any]) -> None:
    """An editor may know of a file that it holds secrets where its name does not say so."""
    of, documents = session(**unwanted)
    yanked(of, copied())
    assert documents.yanks == ()


def test_what_was_copied_long_ago_is_forgotten() -> None:
    now_s = 0.0
    documents = Documents(lambda: now_s)
    old, new = Yank("/w/a.py", 0, "old = 1"), Yank("/w/a.py", 1, "new = 1")
    documents.yanked(old)
    documents.yanked(new)
    now_s = YANK_TTL_S - 1
    assert copies(documents) == ["new = 1", "old = 1"]
    documents.yanked(old)
    now_s = YANK_TTL_S
    assert copies(documents) == ["old = 1"]
    now_s = 2 * YANK_TTL_S
    assert copies(documents) == []


def opened(*, shows: bool = True) -> tuple[Session, Document]:
    of, documents = session(given=Settings(context_enabled=shows))
    document = documents.get(URI)
    assert document is not None
    return of, document


def place(uri: object = "file:///w/b.py", line: object = 3, **more: object) -> Json:
    at = {"line": line, "character": 0}
    return {"uri": uri, "range": {"start": at, "end": at}, **more}


def defined(*given: object, uri: object = URI) -> Json:
    return {"textDocument": {"uri": uri, "version": 1}, "definitions": list(given)}


def test_definitions_go_with_the_next_version() -> None:
    of, document = opened()
    before = document.snapshot()
    definitions(of, defined(place(name="put"), place(line=7), place(name="put"), place("file:///w/a.py")))
    assert document.snapshot() is before
    document.edit(2, [ContentChange("x = 2\n")], cast("Any", None))
    assert document.snapshot().definitions == (Definition("put", "/w/b.py", 3), Definition("", "/w/b.py", 7))
    definitions(of, defined())
    document.edit(3, [ContentChange("x = 3\n")], cast("Any", None))
    assert document.snapshot().definitions == ()


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        {},
        {"uri": "file:///w/b.py"},
        *(place(uri=uri) for uri in (None, "untitled:b.py", "http://example.com/b.py", "file:///" + "x" * 100_000)),
        place(uri="jdt://contents/java.base/java.lang/String.class"),
        place(uri="vscode-notebook-cell:/w/b.ipynb#1"),
        *(place(uri=f"file:{path}") for path in ("///w/../secret/b.py", "///w/%2e%2e/secret/b.py", "relative.py")),
        place(uri="file:///w/b\0.py"),
        *(place(line=line) for line in (-1, 10**9, True, "3", 1.5)),
        *(place(name=name) for name in (7, "x" * 10_000)),
        {"uri": "file:///w/b.py", "range": [1, 2]},
    ],
)
def test_what_makes_no_sense_is_left_out(entry: object, caplog: pytest.LogCaptureFixture) -> None:
    of, document = opened()
    with caplog.at_level(logging.WARNING):
        definitions(of, defined(entry, place(name="good")))
    assert document.definitions == (Definition("good", "/w/b.py", 3),)
    (record,) = caplog.records
    assert "1 of 2" in record.getMessage()


@pytest.mark.parametrize(
    "params", [None, [], 7, {}, defined() | {"definitions": {}}, defined(uri=3), {"textDocument": 1}]
)
def test_malformed_definitions_lose_nothing(params: object, caplog: pytest.LogCaptureFixture) -> None:
    of, document = opened()
    definitions(of, defined(place()))
    with caplog.at_level(logging.WARNING):
        definitions(of, params)
    assert len(document.definitions) == 1
    assert "ignored" in caplog.text


def test_definitions_have_bounds() -> None:
    of, document = opened()
    definitions(of, defined(*(place(line=number) for number in range(10_000))))
    assert [one.line for one in document.definitions] == list(range(MAX_DEFINITIONS))
    definitions(of, defined(*[None] * MAX_ENTRIES, place()))
    assert document.definitions == ()
    definitions(of, defined(place(), uri="file:///w/closed.py"))
    hidden, other = opened(shows=False)
    definitions(hidden, defined(place()))
    assert other.definitions == ()


async def test_over_the_wire() -> None:
    """A client may say anything, and every malformed message is named in the log."""
    async with running("--says", "suggested") as client:
        result = await client.initialize(initializationOptions=ON | {"client": {"protectsMachineSettings": True}})
        assert "fastcoderDiagnostics" not in result["capabilities"]["experimental"]
        client.open(URI, "x = ")
        for name, told, odd in (
            ("definitions", defined(place(name="x")), {"definitions": 3}),
            ("yanked", copied(0, 0), copied(version={}) | {"range": 3}),
        ):
            for params in (told, None, [1], odd):
                client.notify(f"fastcoder/{name}", params)
            refused = await client.answer(client.ask(f"fastcoder/{name}", told))
            assert refused["error"]["code"] == -32601
        assert await client.inline(URI, 0, 4)
        for name in ("definitions", "yanked"):
            assert f"ignored fastcoder/{name}".encode() in client.stderr
        assert not any(message["method"] == "window/showMessage" for message in client.told)


REMOTE: Json = {"remote": {"url": "http://127.0.0.1:9/v1", "allow": ["127.0.0.1"]}}


@pytest.mark.parametrize(
    ("options", "of_use"),
    [
        ({"context": {"enabled": False}}, False),
        ({}, True),
        ({"context": {"enabled": True}}, True),
        (REMOTE, False),
        (REMOTE | {"context": {"enabled": True}}, True),
    ],
)
async def test_a_client_knows_from_the_start_whether_it_is_of_use(options: Json, of_use: bool) -> None:
    """By the settings: `auto` sends no code of other files to a server in the model's place."""
    async with running() as client:
        result = await client.initialize(initializationOptions=options)
        assert result["capabilities"]["experimental"] == {"fastcoderDefinitions": of_use, "fastcoderEdits": True}
        await client.until(lambda: contexts(client) == [of_use])


def contexts(client: RawClient) -> list[bool]:
    return [message["params"]["context"] for message in client.told if message["method"] == "fastcoder/status"]


async def test_a_client_is_told_when_that_changes() -> None:
    async with running("--prefill-ms", "10") as client:
        await client.initialize(initializationOptions={"client": {"protectsMachineSettings": True}})
        for wanted in (False, True, False, "auto"):
            settings: Json = {"fastcoder": {"context": {"enabled": wanted}}}
            client.notify("workspace/didChangeConfiguration", {"settings": settings})
            await client.until(lambda: contexts(client)[-1:] == [bool(wanted)])  # noqa: B023
        client.open(URI, "x = ")
        assert await client.inline(URI, 0, 4)
        await client.until(lambda: client.statuses()[-1] == "ready" and not contexts(client)[-1])
        settings = {"fastcoder": {"context": {"enabled": True}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        assert await client.inline(URI, 0, 4)
        await client.until(lambda: client.statuses()[-1] == "ready" and contexts(client)[-1])


def rested(editor: Editor) -> list[str]:
    """The text before each place that was prepared."""
    host = editor.session.service.host
    assert isinstance(host, ScriptedHost)
    return [cast("Question", call[1]).place.before for call in host.calls if call[0] == "expect"]


async def test_the_cursor_is_followed_while_the_user_edits(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    place: Json = {"textDocument": {"uri": editor.uri, "version": 1}, "position": {"line": 2, "character": 17}}
    cursor(editor.session, place)
    assert rested(editor) == [], "a user who only reads needs nothing"
    editor.types("import re\n")
    cursor(editor.session, place)
    cursor(editor.session, place | {"textDocument": {"uri": "file:///closed.py"}})
    assert rested(editor) == [], "of another version, or not open"
    place["textDocument"]["version"] = 2
    cursor(editor.session, place | {"position": {"line": 3, "character": 17}})
    assert rested(editor) == ["import re\nimport json\n\nx = '🦀'; return "]
    cursor(editor.session, place | {"position": {"line": -1, "character": 10**30}})
    assert rested(editor)[1:] == [""]


@pytest.mark.parametrize("params", [None, {}, {"textDocument": {"uri": 3}}, {"position": {"line": 1}}])
async def test_a_malformed_cursor_changes_nothing(
    tmp_path: Path, params: Json | None, caplog: pytest.LogCaptureFixture
) -> None:
    editor = Editor(tmp_path)
    editor.types("x")
    with caplog.at_level(logging.WARNING):
        cursor(editor.session, params and {"textDocument": {"uri": editor.uri}} | params)
    assert rested(editor) == []
    assert "ignored fastcoder/cursor" in caplog.text


@pytest.mark.parametrize("fallback", [True, False])
async def test_a_remote_server_gets_no_text_because_a_cursor_rests(tmp_path: Path, fallback: bool) -> None:
    """Whether the server answers now, or the local model in its place."""
    remote = {"url": "http://127.0.0.1:9/v1", "allow": ["127.0.0.1"], "fallback": fallback}
    editor = Editor(tmp_path, {"remote": remote})
    editor.types("x")
    cursor(editor.session, {"textDocument": {"uri": editor.uri}, "position": {"line": 0, "character": 1}})
    assert rested(editor) == []


async def test_a_cursor_in_an_excluded_document_is_not_followed(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.types("x")
    uri = (tmp_path / ".env").as_uri()
    did_open(editor.session, types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "sh", 1, "KEY=")))
    cursor(editor.session, {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 4}})
    assert rested(editor) == []
