"""The server's copy of a document equals the client's, and files renamed or closed at the worst moment lose nothing."""

import asyncio
import json
import random
from typing import Any

import pytest

from fastcoder_lsp.workspace.document import Encoding, Position
from tests.lsp.raw_client import Json, RawClient, initialized, running
from tests.workspace.test_documents import NaiveClient, width

CHARACTERS = "a b \n \r \r\n \f \v \x1c \x85 \u2028 \u2029 é 中 😀 👩‍👩‍👧 e\u0301 <|fim_prefix|> <|endoftext|> \t \0"
ALPHABET = (" ", *CHARACTERS.split(" "), "def f(x):\n    return x\n")


def position_in(text: str, offset: int, encoding: Encoding) -> Position | None:
    """Where a client says that `offset` lies; None inside of a line end, which no position names."""
    naive = NaiveClient(text)
    for line, (start, end) in enumerate(naive.lines()):
        if start <= offset <= end:
            return Position(line, sum(width(character, encoding) for character in text[start:offset]))
    return None


def as_json(position: Position) -> Json:
    return {"line": position.line, "character": position.character}


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_two_thousand_random_edits_keep_the_copies_equal(encoding: Encoding) -> None:
    random_ = random.Random(encoding.value)
    uri, text, version = "file:///project/a.py", "x = 1\r\ny = 2\n", 1
    async with running() as client:
        result = await client.initialize(capabilities={"general": {"positionEncodings": [encoding.value]}})
        assert result["capabilities"]["positionEncoding"] == encoding.value
        client.open(uri, text)
        for number in range(2000):
            changes: list[Json] = []
            for _ in range(random_.choice([1, 1, 1, 2, 3])):
                new = "".join(random_.choices(ALPHABET, k=random_.choice([0, 1, 1, 2, 5])))
                start = random_.randrange(len(text) + 1)
                end = min(len(text), start + random_.choice([0, 0, 0, 1, 3, 30]))
                places = [position_in(text, offset, encoding) for offset in (start, end)]
                if random_.random() < 0.01 or len(text) > 2000 or None in places:
                    text = new if random_.random() < 0.5 or len(text) > 2000 else text + new
                    changes.append({"text": text})
                else:
                    text = text[:start] + new + text[end:]
                    first, last = (as_json(place) for place in places if place is not None)
                    changes.append({"range": {"start": first, "end": last}, "text": new})
            version += 1
            client.change(uri, version, changes)
            if number % 20 == 0 or number == 1999:
                assert await client.text(uri) == {"version": version, "text": text}


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-32", "utf-8", "utf-16"], "utf-32"),
        (["utf-16"], "utf-16"),
        (["latin-1", "utf-8"], "utf-8"),
        (["latin-1"], "utf-16"),
        ([], "utf-16"),
        (None, "utf-16"),
    ],
)
async def test_the_clients_first_encoding_is_taken(offered: list[str] | None, taken: str) -> None:
    async with running() as client:
        result = await client.initialize(capabilities={"general": {"positionEncodings": offered}})
        assert result["capabilities"]["positionEncoding"] == taken


A, B = "file:///project/a.py", "file:///project/b.py"
CHANGE: Json = {"textDocument": {"uri": A, "version": 2}, "contentChanges": [{"text": "x = "}]}
PLACE: Json = {"line": 0, "character": 4}


def lost_change(kind: str) -> bytes:
    """A message with a change of `A` that no server can read."""
    params = CHANGE | ({"contentChanges": [{"range": {"start": PLACE}, "text": 5}]} if kind == "wrong types" else {})
    if kind == "of a document out of sight":
        del params["textDocument"]
    body = json.dumps({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": params}).encode()
    return body[:-1] if kind == "cut" else body


@pytest.mark.parametrize(
    ("kind", "other"), [("cut", True), ("wrong types", True), ("of a document out of sight", False)]
)
async def test_nothing_is_suggested_from_a_stale_copy(kind: str, other: bool) -> None:
    async def explained(uri: str) -> str:
        client.ask_inline(uri, 0, 4)
        return str((await client.call("fastcoder/why", {"textDocument": {"uri": uri}}))["text"])

    async with initialized() as client:
        for uri in (A, B):
            client.open(uri, "x = ")
        body = lost_change(kind)
        client.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        assert "open it again" in await explained(A)
        assert ("open it again" in await explained(B)) != other
        client.change(A, 3, [{"range": {"start": PLACE, "end": PLACE}, "text": "1"}])
        assert "open it again" in await explained(A)


OUTSIDE: tuple[tuple[Any, Any, str], ...] = (
    ((0, 99), (0, 99), "ab!\ncd"),
    ((99, 0), (99, 0), "ab\ncd!"),
    ((1, 2**31 - 1), (2**31 - 1, 2**31 - 1), "ab\ncd!"),
    ((0, 0), (2**32 - 1, 2**32 - 1), "!"),
    ((0, -5), (0, 0), "!ab\ncd"),
    ((-1, 0), (-1, 0), "!ab\ncd"),
    ((1, 1), (0, 1), "a!d"),
    ((0, 1.0), (0, 1.0), "a!b\ncd"),
    ((0, 1e300), (0, 1e300), "ab!\ncd"),
)
"""Start and end of an edit → the text after it."""


async def test_positions_outside_the_document_mean_the_nearest_inside() -> None:
    async with initialized() as client:
        found = []
        for number, (start, end, _) in enumerate(OUTSIDE):
            uri = f"untitled:{number}"
            client.open(uri, "ab\ncd")
            span = {"start": {"line": start[0], "character": start[1]}, "end": {"line": end[0], "character": end[1]}}
            client.change(uri, 2, [{"range": span, "text": "!"}])
            found.append((start, end, (await client.text(uri))["text"]))
        assert found == list(OUTSIDE)
        client.change("untitled:0", 3, [{"range": None, "text": "new"}])  # some clients' way to say "no range"
        assert (await client.text("untitled:0"))["text"] == "new"
        for text, line, character, expected in (("", 0, 0, 0), ("x = 1\n", 1, 0, 1), ("x = 1\n", 7, 7, 1)):
            uri = f"untitled:{line} {character}"
            client.open(uri, text)
            [item] = await client.inline(uri, line, character)
            at = {"line": expected, "character": 0}
            assert item["range"] == {"start": at, "end": at}


async def test_a_position_inside_a_character_means_its_start() -> None:
    """A client that counts wrongly cannot split a surrogate pair, nor a UTF-8 sequence."""
    for encoding, inside in (("utf-16", 1), ("utf-8", 1), ("utf-8", 3)):
        async with initialized(capabilities={"general": {"positionEncodings": [encoding]}}) as client:
            client.open("untitled:1", "😀")
            place = {"line": 0, "character": inside}
            client.change("untitled:1", 2, [{"range": {"start": place, "end": place}, "text": "!"}])
            assert (await client.text("untitled:1"))["text"] == "!😀"


async def test_an_unopened_document_is_never_read_from_the_disk(tmp_path: Any) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = ")
    async with initialized(rootUri=tmp_path.as_uri()) as client:
        assert await client.inline(file.as_uri(), 0, 4) == []
        client.change(file.as_uri(), 2, [{"text": "y = "}])
        assert "error" in await client.answer(client.ask("fastcoder/debug/text", {"uri": file.as_uri()}))


def notebook(*cells: tuple[str, int, str]) -> Json:
    return {
        "notebookDocument": {
            "uri": "file:///project/n.ipynb",
            "notebookType": "jupyter-notebook",
            "version": 1,
            "cells": [{"kind": kind, "document": uri} for uri, kind, _ in cells],
        },
        "cellTextDocuments": [
            {"uri": uri, "languageId": "python", "version": 1, "text": text} for uri, _, text in cells
        ],
    }


async def test_the_cells_of_a_notebook_are_documents() -> None:
    first, second, third = (f"vscode-notebook-cell:/project/n.ipynb#{name}" for name in "abc")
    async with running() as client:
        result = await client.initialize(capabilities={"notebookDocument": {"synchronization": {}}})
        assert result["capabilities"]["notebookDocumentSync"]["notebookSelector"]
        client.notify("notebookDocument/didOpen", notebook((first, 2, "import os\n"), (second, 2, "os.")))
        assert (await client.text(second))["text"] == "os."
        assert await client.inline(second, 0, 3)
        place = {"line": 0, "character": 3}
        change = {"range": {"start": place, "end": place}, "text": "path"}
        added = {"uri": third, "languageId": "python", "version": 1, "text": "third"}
        cells = {
            "structure": {
                "array": {"start": 1, "deleteCount": 0, "cells": [{"kind": 2, "document": third}]},
                "didOpen": [added],
            },
            "textContent": [{"document": {"uri": second, "version": 2}, "changes": [change]}],
        }
        identifier = {"uri": "file:///project/n.ipynb", "version": 2}
        client.notify("notebookDocument/didChange", {"notebookDocument": identifier, "change": {"cells": cells}})
        assert await client.text(second) == {"version": 2, "text": "os.path"}
        assert (await client.text(third))["text"] == "third"
        closed = [{"uri": uri} for uri in (first, second, third)]
        client.notify("notebookDocument/didClose", {"notebookDocument": identifier, "cellTextDocuments": closed})
        stats = await client.call("fastcoder/stats")
        assert stats["open_documents"] == 0


async def renamed(client: RawClient, old: str, new: str) -> None:
    """As editors rename an open file: close, open, and tell."""
    text = (await client.text(old))["text"]
    client.notify("textDocument/didClose", {"textDocument": {"uri": old}})
    client.open(new, text)
    client.notify("workspace/didRenameFiles", {"files": [{"oldUri": old, "newUri": new}]})


async def test_a_renamed_document_keeps_its_suggestions() -> None:
    old, new, after = "file:///project/a.py", "file:///project/b.py", {"line": 0, "character": 4}
    async with initialized() as client:
        client.open(old, "x = ")
        [item] = await client.inline(old, 0, 4)
        await renamed(client, old, new)
        client.change(new, 2, [{"range": {"start": after, "end": after}, "text": item["insertText"][0]}])
        [rest] = await client.inline(new, 0, 5)
        assert rest["insertText"] == item["insertText"][1:]
        assert (await client.call("fastcoder/stats"))["requests"]["typed_through"] == 1
        known = [1]
        for away_s in (1.2, 6.0, 30.0):  # the server, which may stand still, waits a second for it to come back
            client.notify("textDocument/didClose", {"textDocument": {"uri": new}})
            await asyncio.sleep(away_s)
            client.open(new, "x = ")
            await client.inline(new, 0, 4)
            known.append((await client.call("fastcoder/stats"))["requests"]["typed_through"])
            if known[-1] == known[-2]:
                break
        assert known[-1] == known[-2]


URI, OTHER = "file:///project/a.py", "file:///project/b.py"
CLOSE = {"textDocument": {"uri": URI}}
RENAME = {"files": [{"oldUri": URI, "newUri": OTHER}]}


async def goes_on(client: RawClient, uri: str) -> None:
    assert await client.inline(uri, 0, 4)
    assert await client.leave() == 0
    assert b"Traceback" not in client.stderr
    assert b"internal" not in client.stderr.lower()


async def test_a_request_for_a_document_that_is_not_open() -> None:
    async with initialized() as client:
        client.notify("textDocument/didClose", CLOSE)
        client.notify("workspace/didRenameFiles", RENAME)
        client.open(URI, "x = ")
        await goes_on(client, URI)


async def test_everything_at_once() -> None:
    async with initialized("--step-ms", "5", "--load-ms", "300") as client:
        client.open(URI, "x = ")
        asked = []
        for version in range(20):
            old, new = (URI, OTHER) if version % 2 == 0 else (OTHER, URI)
            asked.append(client.ask_inline(old, 0, 4))
            client.notify("workspace/didRenameFiles", {"files": [{"oldUri": old, "newUri": new}]})
            client.notify("textDocument/didClose", {"textDocument": {"uri": old}})
            client.open(new, "x = ")
        for number in asked:
            assert "error" not in await client.answer(number)
        await goes_on(client, URI)
        assert all(len(client.answers[number]) == 1 for number in asked)
