"""Whatever bytes arrive, nothing but well-formed messages comes back, and the process lives."""

import asyncio
import io
import json
import random
from typing import Any

import pytest

from fastcoder_lsp.lsp.wire import LongMessage, changed_document, read_bodies
from tests.lsp.raw_client import Brake, Json, RawClient, initialized

URI = "file:///project/a.py"
KNOWN_METHODS = (
    *("initialize", "initialized", "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose"),
    *("textDocument/didSave", "textDocument/inlineCompletion", "textDocument/completion", "workspace/executeCommand"),
    *("notebookDocument/didOpen", "notebookDocument/didChange", "notebookDocument/didClose", "$/cancelRequest"),
    *("workspace/didChangeConfiguration", "workspace/didChangeWorkspaceFolders", "workspace/didRenameFiles"),
    *("workspace/didChangeWatchedFiles", "fastcoder/stats", "fastcoder/debug/text", "no/such", ""),
)


async def assert_alive(client: RawClient) -> None:
    uri = f"untitled:{random.random()}"
    client.open(uri, "x = ")
    assert await client.inline(uri, 0, 4)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


BROKEN_HEADERS = (
    b"\r\n",
    b"\r\n\r\n\r\n",
    b"hello\r\n\r\n",
    b"Content-Length: nonsense\r\n\r\n",
    b"Content-Length: -5\r\n\r\n",
    b"Content-Length: 99999999999999999999\r\n\r\n",
    b"Content-Length: 999999999999\r\n\r\n",
    b"Content-Length\r\n\r\n",
    b"Content-Type: application/json\r\n\r\n",
    b"\x00\xff\xfe\n\n",
    b"x" * 100_000 + b"\n",
    b'{"jsonrpc":"2.0","id":1,"method":"fastcoder/stats"}\n',
)


async def test_broken_headers_are_skipped() -> None:
    async with initialized() as client:
        for garbage in BROKEN_HEADERS:
            client.send_bytes(garbage)
            await assert_alive(client)


class Endless(io.RawIOBase):
    """Bytes, some of them repeated millions of times and never held."""

    def __init__(self, *parts: tuple[bytes, int]) -> None:
        self._parts = [(part, count * len(part)) for part, count in parts]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._parts and not self._parts[0][1]:
            self._parts.pop(0)
        if not self._parts:
            return 0
        part, left = self._parts[0]
        size = min(len(buffer), left)
        at = -left % len(part)
        buffer[:size] = (part * (size // len(part) + 2))[at : at + size]
        self._parts[0] = part, left - size
        return size


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


ASKED, LONG = b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}', 260_000
LONG_MESSAGES: tuple[tuple[bytes, bytes, int | str | None], ...] = (
    (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"text":"', b'"}}', 7),
    (b'{"params":{"id":3,"text":"', b'"},"method":"m","id":"seven"}', "seven"),
    (b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"id":3,"text":"', b'"}}', None),
    (b'{"jsonrpc":"2.0","id":7,"result":{"text":"', b'"}}', None),
    (b'{"method":"m","text":"', rb'\"id\":5"}', None),
    (b"", b"", None),
)


@pytest.mark.parametrize(("first", "last", "request_id"), LONG_MESSAGES)
def test_a_long_message_is_skipped_and_its_request_known(
    first: bytes, last: bytes, request_id: int | str | None
) -> None:
    length = len(first) + 1000 * LONG + len(last)
    header = b"Content-Length: %d\r\n\r\n" % length
    stream = Endless((header + first, 1), (b"x" * 1000, LONG), (last + frame(ASKED), 1))
    long, after = read_bodies(io.BufferedReader(stream))
    assert isinstance(long, LongMessage)
    assert (long.length, long.request_id, after) == (length, request_id, ASKED)


LOST_CHANGES: tuple[tuple[bytes, str | None], ...] = (
    (b'{"method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///a","version":2},"x', "file:///a"),
    (rb'{"method":"textDocument\/didChange","params":{"textDocument":{"uri":"file:\/\/\/\u00e9"}', "file:///é"),
    (
        rb'"text":"{\"uri\":\"file:///b\"}"}],"textDocument":{"uri":"file:///a"}},"method" : "textDocument/didOpen"',
        "file:///a",
    ),
    (b'{"method":"textDocument/didChange","params":{"contentChanges":[{"text":"xxx', ""),
    (b'{"method":"notebookDocument/didChange","params":{"uri":"file:///n","more":{"uri":"file:///c"', ""),
    (b'{"method":"textDocument/didChange","params":{"textDocument":{"uri":"\xff\xff"}}', ""),
    (b'{"method":"textDocument/didSave","params":{"textDocument":{"uri":"file:///a"}', None),
    (rb'{"id":1,"result":{"text":"\"method\":\"textDocument/didChange\""', None),
    (b"{]", None),
)


@pytest.mark.parametrize(("lost", "uri"), LOST_CHANGES)
def test_the_document_of_a_lost_change_is_known(lost: bytes, uri: str | None) -> None:
    assert changed_document(lost) == uri


@pytest.mark.parametrize("length", [b"9" * 11, b"9" * 30, b"9" * 5000, b"1e9", b"-5", b"0x10", b"", b"5 5", b"\xb2"])
def test_a_header_behind_an_unread_body_is_found(length: bytes, caplog: pytest.LogCaptureFixture) -> None:
    bodies = (b'{"text":"' + b"x" * size + b'"}' for size in range(4000, 4100, 7))
    for body in (ASKED, b"[" + b" " * 9000 + b"]", *bodies):
        stream = io.BytesIO(b"Content-Length: " + length + b"\r\n\r\n" + body + frame(ASKED) + frame(ASKED))
        assert list(read_bodies(stream)) == [ASKED, ASKED]
    assert "Content-Length" in caplog.text


async def test_after_a_long_message_the_server_answers() -> None:
    async with initialized() as client:
        assert client.process.stdin is not None
        first = b'{"jsonrpc":"2.0","id":"long","method":"fastcoder/stats","params":{"x":"'
        client.send_bytes(b"Content-Length: %d\r\n\r\n" % (len(first) + 257_000_000 + 3) + first)
        for _ in range(257):
            client.send_bytes(b"x" * 1_000_000)
            await client.process.stdin.drain()
        client.send_bytes(b'"}}')
        assert "257 MB" in (await client.answer("long"))["error"]["message"]
        await assert_alive(client)
        assert await client.leave() == 0
    assert b"257 MB" in client.stderr


async def test_headers_in_other_spellings_are_read() -> None:
    async with initialized() as client:
        for number, header in enumerate(
            (
                b"content-length: %d\r\n\r\n",
                b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
                b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
                b"CONTENT-LENGTH :  %d \r\n\r\n",
                b"Content-Length: %d\n\n",
            )
        ):
            body = json.dumps({"jsonrpc": "2.0", "id": f"header {number}", "method": "fastcoder/stats"}).encode()
            client.send_bytes(header % len(body) + body)
            assert "result" in await client.answer(f"header {number}")


NO_MESSAGES = (
    (b"{", -32700),
    (b"", -32700),
    (b"\xff\xfe", -32700),
    (b"[" * 100_000, -32700),
    (b"9" * 10_000, -32700),
    (b"[]", -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]', -32600),
    (b"null", -32600),
    (b"5", -32600),
    (b"{}", -32600),
    (b'{"jsonrpc":"1.0","method":"initialized"}', -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"fastcoder/stats"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"fastcoder/stats"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"fastcoder/stats"}', -32600),
    (b'{"jsonrpc":"2.0","method":5}', -32600),
)


async def test_what_is_no_message_is_refused_without_an_id() -> None:
    """A parse error, or an invalid request, with id null, as JSON-RPC has it."""
    async with initialized() as client:
        for body, code in NO_MESSAGES:
            client.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert (await client.answer(None))["error"]["code"] == code, body[:80]
            del client.answers[None]
        await assert_alive(client)


WRONG_PARAMS: tuple[tuple[str, Any], ...] = (
    ("textDocument/inlineCompletion", None),
    ("textDocument/inlineCompletion", []),
    ("textDocument/inlineCompletion", {"textDocument": {"uri": 5}}),
    ("textDocument/inlineCompletion", {"textDocument": {"uri": "a"}, "position": {"line": "x", "character": {}}}),
    ("textDocument/completion", {"position": None}),
    ("workspace/executeCommand", {"command": []}),
    ("workspace/executeCommand", {"command": "rm"}),
    ("fastcoder/debug/text", {"uri": ["a"]}),
    ("fastcoder/debug/text", "a"),
)


async def test_wrong_params_are_an_error_with_the_requests_id() -> None:
    async with initialized() as client:
        for method, params in WRONG_PARAMS:
            assert (await client.answer(client.ask(method, params)))["error"]["code"] == -32602, (method, params)
        await assert_alive(client)


async def test_an_id_that_is_open_is_not_taken_twice(brake: Brake) -> None:
    async with initialized(*brake.held) as client:
        client.open(URI, "x = ")
        request: Json = {
            "jsonrpc": "2.0",
            "id": "twice",
            "method": "textDocument/inlineCompletion",
            "params": {
                "textDocument": {"uri": URI},
                "position": {"line": 0, "character": 4},
                "context": {"triggerKind": 2},
            },
        }
        client.send(request)
        client.send(request)
        client.notify("$/cancelRequest", {"id": "twice"})
        await client.until(lambda: len(client.answers.get("twice", [])) == 2)
        assert [answer["error"]["code"] for answer in client.answers["twice"]] == [-32600, -32800]


async def test_odd_cancels_do_nothing() -> None:
    odd: tuple[Any, ...] = (None, {}, {"id": None}, {"id": "never"}, {"id": 10**30}, {"id": []}, [], "x")
    async with initialized() as client:
        for params in odd:
            client.notify("$/cancelRequest", params)
        await assert_alive(client)


async def test_answers_to_nothing_are_dropped() -> None:
    async with initialized() as client:
        odd: tuple[Any, ...] = (1, 99, "x", None, True, [], 1.5)
        for answer_id in odd:
            client.send({"jsonrpc": "2.0", "id": answer_id, "result": None})
            client.send({"jsonrpc": "2.0", "id": answer_id, "error": "not even an object"})
        client.send({"jsonrpc": "2.0"})
        await assert_alive(client)


def mutated(random_: random.Random, value: Any, depth: int = 0) -> Any:
    """`value` with something in it replaced, dropped, or nested deeper."""
    odd: tuple[Any, ...] = (
        None,
        True,
        -1,
        2**31,
        2**64,
        1.5,
        "",
        "\ud800",
        "😀" * 50,
        [],
        {},
        [[]],
        {"uri": URI},
        "file://[",
        0,
    )
    if random_.random() < 0.15 or depth > 6:
        return random_.choice(odd)
    if isinstance(value, dict):
        kept = {key: mutated(random_, inner, depth + 1) for key, inner in value.items() if random_.random() > 0.1}
        return kept | (
            {random_.choice(["uri", "id", "x", "range"]): random_.choice(odd)} if random_.random() < 0.1 else {}
        )
    if isinstance(value, list):
        return [mutated(random_, inner, depth + 1) for inner in value] * random_.choice([1, 1, 1, 0, 2])
    return value


SPAN = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
GOOD_PARAMS: tuple[Json, ...] = (
    {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": "x = 1\n"}},
    {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"range": SPAN, "text": "y"}, {"text": "z"}]},
    {"textDocument": {"uri": URI}, "position": SPAN["start"], "context": {"triggerKind": 2}},
    {
        "textDocument": {"uri": URI},
        "position": SPAN["end"],
        "context": {"triggerKind": 1, "selectedCompletionInfo": {"range": SPAN, "text": "yes"}},
    },
    {"settings": {"fastcoder": {"popup": {"enabled": True}}}},
    {"event": {"added": [{"uri": "file:///nowhere", "name": "n"}], "removed": []}},
    {"files": [{"oldUri": URI, "newUri": "file:///project/b.py"}]},
    {"changes": [{"uri": URI, "type": 2}]},
    {"command": "fastcoder.accepted", "arguments": [1]},
    {
        "notebookDocument": {
            "uri": "file:///project/n.ipynb",
            "notebookType": "jupyter",
            "version": 1,
            "cells": [{"kind": 2, "document": "cell:1"}],
        },
        "cellTextDocuments": [{"uri": "cell:1", "languageId": "python", "version": 1, "text": "a"}],
    },
    {
        "notebookDocument": {"uri": "file:///project/n.ipynb", "version": 2},
        "change": {"cells": {"structure": {"array": {"start": 5, "deleteCount": 9}}}},
    },
    {"id": 1},
)


@pytest.mark.parametrize("seed", range(4))
async def test_a_thousand_mutated_messages_cost_nothing(seed: int) -> None:
    random_ = random.Random(seed)
    async with initialized() as client:
        sent = set()
        for number in range(1000):
            method = random_.choice(KNOWN_METHODS)
            message = {"jsonrpc": "2.0", "method": method, "params": mutated(random_, random_.choice(GOOD_PARAMS))}
            if random_.random() < 0.6:
                message["id"] = f"fuzz {number}"
                sent.add(message["id"])
            client.send(message)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await client.until(lambda: sent <= client.answers.keys())
        for answers in (client.answers[request_id] for request_id in sent):
            assert len(answers) == 1
            if "error" in answers[0]:
                assert isinstance(answers[0]["error"]["code"], int)
                assert isinstance(answers[0]["error"]["message"], str)
                assert answers[0]["error"]["code"] != -32603  # no bug of ours was met
        await assert_alive(client)
        assert await client.leave() == 0
    assert b"Traceback" not in client.stderr
