"""`fastcoder/definitions`: where names are defined, told by a client that may say anything."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Definition
from fastcoder_lsp.lsp.requests.context import MAX_DEFINITIONS, MAX_ENTRIES, definitions
from fastcoder_lsp.lsp.session import Session
from fastcoder_lsp.workspace.document import ContentChange, Document
from fastcoder_lsp.workspace.documents import Documents
from tests.lsp.raw_client import Json, RawClient, running

URI = "file:///w/a.py"


def session(*, shows: bool = True) -> tuple[Session, Document]:
    documents, document = Documents(), Document(URI, Path("/w/a.py"), "python", 1, "x = 1\n")
    documents.open(document)
    settings = Settings(context_enabled=shows)
    made = SimpleNamespace(documents=documents, folder_of=lambda _: None, settings=lambda _: settings)
    return cast("Session", made), document


def place(uri: object = "file:///w/b.py", line: object = 3, **more: object) -> Json:
    at = {"line": line, "character": 0}
    return {"uri": uri, "range": {"start": at, "end": at}, **more}


def told(*given: object, uri: object = URI) -> Json:
    return {"textDocument": {"uri": uri, "version": 1}, "definitions": list(given)}


def test_they_go_with_the_next_version() -> None:
    of, document = session()
    before = document.snapshot()
    definitions(of, told(place(name="put"), place(line=7), place(name="put"), place("file:///w/a.py")))
    assert document.snapshot() is before
    document.edit(2, [ContentChange("x = 2\n")], cast("Any", None))
    assert document.snapshot().definitions == (Definition("put", "/w/b.py", 3), Definition("", "/w/b.py", 7))
    definitions(of, told())
    document.edit(3, [ContentChange("x = 3\n")], cast("Any", None))
    assert document.snapshot().definitions == ()


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        {},
        {"uri": "file:///w/b.py"},
        place(uri=None),
        place(uri="untitled:b.py"),
        place(uri="http://example.com/b.py"),
        place(uri="jdt://contents/java.base/java.lang/String.class"),
        place(uri="vscode-notebook-cell:/w/b.ipynb#1"),
        place(uri="file:///w/../secret/b.py"),
        place(uri="file:///w/%2e%2e/secret/b.py"),
        place(uri="file:relative.py"),
        place(uri="file:///w/b\0.py"),
        place(uri="file:///" + "x" * 100_000),
        place(line=-1),
        place(line=10**9),
        place(line=True),
        place(line="3"),
        place(line=1.5),
        place(name=7),
        place(name="x" * 10_000),
        {"uri": "file:///w/b.py", "range": [1, 2]},
    ],
)
def test_what_makes_no_sense_is_left_out(entry: object, caplog: pytest.LogCaptureFixture) -> None:
    of, document = session()
    with caplog.at_level(logging.WARNING):
        definitions(of, told(entry, place(name="good")))
    assert document.definitions == (Definition("good", "/w/b.py", 3),)
    (record,) = caplog.records
    assert "1 of 2" in record.getMessage()


@pytest.mark.parametrize("params", [None, [], 7, {}, told() | {"definitions": {}}, told(uri=3), {"textDocument": 1}])
def test_a_malformed_message_loses_nothing(params: object, caplog: pytest.LogCaptureFixture) -> None:
    of, document = session()
    definitions(of, told(place()))
    with caplog.at_level(logging.WARNING):
        definitions(of, params)
    assert len(document.definitions) == 1
    assert "ignored" in caplog.text


def test_there_are_bounds() -> None:
    of, document = session()
    definitions(of, told(*(place(line=number) for number in range(10_000))))
    assert [one.line for one in document.definitions] == list(range(MAX_DEFINITIONS))
    definitions(of, told(*[None] * MAX_ENTRIES, place()))
    assert document.definitions == ()
    definitions(of, told(place(), uri="file:///w/closed.py"))
    hidden, other = session(shows=False)
    definitions(hidden, told(place()))
    assert other.definitions == ()


async def test_over_the_wire() -> None:
    async with running("--says", "suggested") as client:
        options: Json = {"context": {"enabled": True}}
        result = await client.initialize(initializationOptions=options)
        assert result["capabilities"]["experimental"] == {"fastcoderDefinitions": True, "fastcoderEdits": True}
        client.open(URI, "x = ")
        for params in (told(place(name="x")), None, [1], {"definitions": 3}):
            client.notify("fastcoder/definitions", params)
        assert await client.inline(URI, 0, 4)
        refused = await client.answer(client.ask("fastcoder/definitions", told()))
        assert refused["error"]["code"] == -32601
        assert b"ignored fastcoder/definitions" in client.stderr
        assert not any(message["method"] == "window/showMessage" for message in client.told)


REMOTE: Json = {"remote": {"url": "http://127.0.0.1:9/v1", "allow": ["127.0.0.1"]}}


@pytest.mark.parametrize(
    ("options", "of_use"),
    [
        ({"context": {"enabled": False}}, False),
        ({}, True),
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
