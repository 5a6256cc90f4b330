"""The life of a server: what it answers before, between and after, what it imports, and how it ends."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.lsp.wire import now_ms, set_arrival, waited_ms
from tests.lsp.raw_client import SCRIPTED, WAIT_S, Brake, Json, RawClient, initialized, running

URI = "untitled:Untitled-1"


async def ended(client: RawClient) -> int:
    return await asyncio.wait_for(client.process.wait(), WAIT_S)


async def test_nothing_is_answered_before_initialize() -> None:
    async with running() as client:
        assert (await client.answer(client.ask_inline(URI, 0, 0)))["error"]["code"] == -32002
        assert (await client.answer(client.ask("no/such")))["error"]["code"] == -32002
        client.open(URI, "x")
        await client.initialize()
        assert (await client.answer(client.ask("fastcoder/debug/text", {"uri": URI})))["error"]["code"] == -32602


async def test_a_second_initialize_and_unknown_methods_are_refused() -> None:
    async with initialized() as client:
        assert (await client.answer(client.ask("initialize", {})))["error"]["code"] == -32600
        assert (await client.answer(client.ask("textDocument/hover", {})))["error"]["code"] == -32601
        assert (await client.answer(client.ask("$/unknown")))["error"]["code"] == -32601
        client.notify("$/setTrace", {"value": "verbose"})
        client.notify("no/such/notification", [1, 2])
        assert await client.leave() == 0


async def test_after_shutdown_requests_are_refused_and_exit_ends_well(brake: Brake) -> None:
    async with initialized(*brake.held) as client:
        client.open(URI, "x = ")
        still_open = client.ask_inline(URI, 0, 4)
        await client.until(lambda: "thinking" in client.statuses())
        await client.call("shutdown")
        assert (await client.answer(still_open))["error"]["code"] == -32800
        assert (await client.answer(client.ask_inline(URI, 0, 4)))["error"]["code"] == -32600
        client.notify("exit")
        assert await ended(client) == 0


async def test_an_answer_that_comes_after_shutdown_is_dropped() -> None:
    async with initialized(capabilities={"workspace": {"configuration": True}}) as client:
        assert await client.leave() == 0
        assert client.asked
    assert b"Traceback" not in client.stderr


async def test_exit_without_shutdown_is_an_error() -> None:
    async with initialized() as client:
        client.notify("exit")
        assert await ended(client) == 1


@pytest.mark.parametrize("initialized", [True, False])
async def test_a_server_ends_with_its_input(initialized: bool) -> None:
    async with running("--step-ms", "60000") as client:
        if initialized:
            await client.initialize()
            client.open(URI, "x = ")
            client.ask_inline(URI, 0, 4)
            await client.until(lambda: "thinking" in client.statuses())
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert await ended(client) == 1


async def test_a_server_ends_when_its_output_is_not_read() -> None:
    async with running(command=SCRIPTED) as client:
        await client.initialize()
        transport = client.process._transport  # type: ignore[union-attr]
        transport.get_pipe_transport(1).close()
        for _ in range(100):  # an answer that was written just before the end was closed is no news to the server
            with contextlib.suppress(ConnectionError):
                client.ask("fastcoder/stats")
            await asyncio.sleep(0.1)
            if client.process.returncode is not None:
                break
        assert await ended(client) == 1


async def test_a_server_ends_with_its_clients_process() -> None:
    """An editor that dies while a child of its keeps the pipes open is noticed by its process id."""
    editor = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    async with initialized(processId=editor.pid) as client:
        assert await client.call("fastcoder/stats")
        editor.kill()
        await editor.wait()
        assert await ended(client) == 1


async def test_a_client_that_cannot_be_seen_is_not_taken_for_dead() -> None:
    """In a container the client's process id means nothing: the server stays."""
    async with initialized(processId=2**22 + 7) as client:
        await asyncio.sleep(0.1)
        assert await client.call("fastcoder/stats")
        assert await client.leave() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_a_server_ends_on_a_signal() -> None:
    async with initialized() as client:
        client.process.send_signal(signal.SIGTERM)
        assert await ended(client) == 1


@pytest.mark.ci
@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_server_with_unread_answers_ends_with_its_input() -> None:
    root = Path(__file__).parents[2]
    process = subprocess.Popen([*SCRIPTED], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def send(message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    send({"id": 0, "method": "initialize", "params": {"capabilities": {}}})
    for request_id in range(1, 500):
        send({"id": request_id, "method": "fastcoder/stats"})
    stdin.close()
    try:
        assert process.wait(WAIT_S) == 1
    finally:
        process.kill()
        stdout.close()
        process.wait()


@pytest.mark.ci
async def test_odd_initialize_params_keep_no_client_out() -> None:
    odd: tuple[Json | None, ...] = (
        None,
        {},
        {"processId": "x", "capabilities": 5, "workspaceFolders": [5, {"uri": 7}], "clientInfo": []},
        {"capabilities": {"textDocument": {"completion": {"completionItemKind": {"valueSet": [99]}}}}},
        {"capabilities": {"general": {"positionEncodings": [{}, "utf-8"]}}, "rootPath": "/a b/%41#?"},
        {"capabilities": {"workspace": {"configuration": "yes"}}, "trace": "loud", "locale": 5},
    )
    for params in odd:
        async with running() as client:
            assert (await client.call("initialize", params))["capabilities"]["inlineCompletionProvider"] == {}
            client.notify("initialized", {})
            client.open(URI, "x = ")
            assert await client.inline(URI, 0, 4)


HEAVY = {"numba", "numpy", "llvmlite", "torch", "transformers", "tokenizers", "safetensors", "watchdog"}
OURS = {"draft", "engine", "index", "kernels", "model", "prompt", "runtime", "scheduling", "tokenizer"}


async def _complete(server: tuple[str, ...], root: Path) -> str:
    document = {"uri": (root / "a.py").as_uri(), "languageId": "python", "version": 1, "text": "value = other\n"}
    async with running(command=server) as client:
        folders = [{"uri": root.as_uri(), "name": "project"}]
        capabilities: dict[str, Any] = {"textDocument": {"inlineCompletion": {}}}
        params = {"processId": None, "capabilities": capabilities, "workspaceFolders": folders}
        await client.call("initialize", params)
        client.notify("initialized", {})
        client.notify("textDocument/didOpen", {"textDocument": document})
        where = {"textDocument": {"uri": document["uri"]}, "position": {"line": 0, "character": 13}}
        answer = await client.call("textDocument/inlineCompletion", where | {"context": {"triggerKind": 1}})
        await client.call("shutdown")
        client.notify("exit")
        await asyncio.wait_for(client.process.wait(), 30)
    return str(answer["items"][0]["insertText"])


def test_a_front_from_start_to_end_imports_nothing_that_computes(tmp_path: Path) -> None:
    imported = tmp_path / "imported"
    server = (sys.executable, "-m", "tests.lsp.light_server", str(imported))
    assert asyncio.run(_complete(server, tmp_path))
    modules = imported.read_text(encoding="utf-8").split()
    assert "fastcoder_lsp.completion.service" in modules
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert not OURS & {name.split(".")[1] for name in modules if name.startswith("fastcoder_lsp.")}


def test_each_handler_knows_when_its_own_message_came_in() -> None:
    waits: list[float] = []

    async def handle() -> None:
        waits.append(waited_ms())

    async def receive() -> None:
        set_arrival(now_ms() - 5000)
        first = asyncio.create_task(handle())
        set_arrival(now_ms())
        await asyncio.gather(first, asyncio.create_task(handle()))

    asyncio.run(receive())
    assert waits[0] >= 5000 > waits[1]


def test_no_time_is_waited_without_a_message() -> None:
    assert waited_ms() == 0

    async def receive() -> float:
        set_arrival(now_ms() + 5000)
        return waited_ms()

    assert asyncio.run(receive()) == 0
