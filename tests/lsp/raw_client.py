"""A client of our own on the bytes of the protocol: it can say what no decent client would, and counts every answer."""

import asyncio
import contextlib
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lsp import forked
from tests.lsp.forked import ForkedServer

Json = dict[str, Any]
SCRIPTED = (sys.executable, "-m", "tests.lsp.scripted_server")
WAIT_S = 300.0 if os.environ.get("FASTCODER_TEST_ARM") else 100.0
"""Where all cores are busy a server takes half a minute to start; on an emulated CPU some ten times as long as else."""


@dataclass(frozen=True)
class Brake:
    """Has a scripted model work slowly, or load, until a file is there: no test then depends on who is quicker.

    `held`: the arguments for a model that makes no step before `release`; `loading`: for one that is not loaded.
    """

    path: Path

    @property
    def held(self) -> tuple[str, ...]:
        return self.steps(60_000)

    @property
    def loading(self) -> tuple[str, ...]:
        return ("--load-ms", "60000", "--until", str(self.path))

    def steps(self, each_ms: int) -> tuple[str, ...]:
        return ("--step-ms", str(each_ms), "--until", str(self.path))

    def release(self) -> None:
        """From now on everything takes no time."""
        self.path.touch()


@dataclass
class RawClient:
    process: Process | ForkedServer
    answers: dict[Any, list[Json]] = field(default_factory=dict)
    answered_at: dict[Any, float] = field(default_factory=dict)
    asked_at: dict[Any, float] = field(default_factory=dict)
    told: list[Json] = field(default_factory=list)
    asked: list[Json] = field(default_factory=list)
    settings: Any = None
    stderr: bytearray = field(default_factory=bytearray)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _ids: int = 0

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any = None) -> int:
        self._ids += 1
        self.asked_at[self._ids] = time.monotonic()
        self.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    async def answer(self, request_id: Any) -> Json:
        await self.until(lambda: request_id in self.answers)
        return self.answers[request_id][0]

    async def call(self, method: str, params: Any = None) -> Any:
        answer = await self.answer(self.ask(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    async def until(self, holds: Any, wait_s: float = WAIT_S) -> None:
        async with asyncio.timeout(wait_s):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def statuses(self) -> list[str]:
        return [message["params"]["state"] for message in self.told if message["method"] == "fastcoder/status"]

    def notices(self) -> list[str]:
        return [message["params"]["message"] for message in self.told if message["method"] == "window/showMessage"]

    async def initialize(self, *, follows_status: bool = True, **more: Any) -> Json:
        capabilities: Json = {"textDocument": {"inlineCompletion": {}}}
        params: Json = {"processId": None, "rootUri": None, "capabilities": capabilities} | more
        if follows_status and isinstance(params["capabilities"], dict):
            experimental = {"fastcoderStatus": True, **params["capabilities"].get("experimental", {})}
            params["capabilities"] = params["capabilities"] | {"experimental": experimental}
        result: Json = await self.call("initialize", params)
        self.notify("initialized", {})
        return result

    def open(self, uri: str, text: str, language: str = "python", version: int = 1) -> None:
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, version: int, changes: Sequence[Json]) -> None:
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    def ask_inline(self, uri: str, line: int, character: int, **context: Any) -> int:
        return self.ask(
            "textDocument/inlineCompletion",
            {
                "textDocument": {"uri": uri},
                "position": {"line": line, "character": character},
                "context": {"triggerKind": 2} | context,
            },
        )

    async def inline(self, uri: str, line: int, character: int, **context: Any) -> list[Json]:
        answer = await self.answer(self.ask_inline(uri, line, character, **context))
        items: list[Json] = answer["result"]["items"]
        return items

    async def text(self, uri: str) -> Json:
        copy: Json = await self.call("fastcoder/debug/text", {"uri": uri})
        return copy

    async def leave(self) -> int:
        await self.call("shutdown")
        self.notify("exit")
        return await asyncio.wait_for(self.process.wait(), WAIT_S)

    async def read(self) -> None:
        assert self.process.stdout is not None
        while header := await self.process.stdout.readline():
            length = int(header.removeprefix(b"Content-Length: "))
            assert await self.process.stdout.readline() == b"\r\n"
            self._take(json.loads(await self.process.stdout.readexactly(length)))
            self._changed.set()
        self._changed.set()

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(2**16):
            self.stderr += data

    def _take(self, message: Json) -> None:
        assert message["jsonrpc"] == "2.0"
        if "method" not in message:
            self.answers.setdefault(message["id"], []).append(message)
            self.answered_at[message["id"]] = time.monotonic()
        elif "id" not in message:
            self.told.append(message)
        else:
            self.asked.append(message)
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": self._result(message)})

    def _result(self, message: Json) -> Any:
        if message["method"] == "workspace/applyEdit":
            return {"applied": True}
        if message["method"] != "workspace/configuration":
            return None
        scopes = [item.get("scopeUri") for item in message["params"]["items"]]
        return [self.settings(scope) if callable(self.settings) else self.settings for scope in scopes]


@contextlib.asynccontextmanager
async def running(
    *arguments: str,
    command: Sequence[str] | None = None,
    environment: dict[str, str] | None = None,
    root: Path = Path(__file__).parents[2],
) -> AsyncIterator[RawClient]:
    """A server with a client at its wire, the scripted one by default; killed at the end if it still runs."""
    process: Process | ForkedServer
    if command is None and environment is None and forked.POSSIBLE:
        process = await forked.start(arguments, limit=2**26)
    else:
        process = await asyncio.create_subprocess_exec(
            *(command or SCRIPTED),
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=root,
            env=environment,
            limit=2**26,
        )
    client = RawClient(process)
    readers = asyncio.gather(client.read(), client.read_errors())
    try:
        yield client
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await readers


@contextlib.asynccontextmanager
async def initialized(*arguments: str, **params: Any) -> AsyncIterator[RawClient]:
    async with running(*arguments) as client:
        await client.initialize(**params)
        yield client
