"""`fastcoder-lsp serve` as an editor starts it, with a server in the model's place."""

import os
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.lsp.raw_client import running
from tests.remote.scripted_server import LlamaServer, Serve

SERVE = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
TEXT = "def total(items):\n    \n"
HEAVY = ("torch", "numba", "llvmlite")


async def test_an_editor_gets_a_servers_text(serve: Serve, tmp_path: Path) -> None:
    server = serve(LlamaServer(lambda _: "return sum(items)\n\n\nx = 1\n"))
    uri = (tmp_path / "a.py").as_uri()
    options = {"remote": {"url": server.url, "fallback": False}}
    environment = {**os.environ, "FASTCODER_CACHE": str(tmp_path / "cache")}
    async with running(command=SERVE, environment=environment) as client:
        await client.initialize(initializationOptions=options)
        client.open(uri, TEXT)
        (item,) = await client.inline(uri, 1, 4)
        assert item["insertText"] == "return sum(items)"
        told = [message["params"] for message in client.told if message["method"] == "fastcoder/status"]
        assert told[-1]["asks"] == "127.0.0.1"
        maps = psutil.Process(client.process.pid).memory_maps()
        assert not [one.path for one in maps if any(f"/{name}/" in one.path for name in HEAVY)]
        assert await client.leave() == 0


async def test_a_repository_sends_nothing_anywhere(serve: Serve, tmp_path: Path) -> None:
    server = serve(LlamaServer(lambda _: "stolen\n"))
    (tmp_path / "fastcoder.toml").write_text(f'[remote]\nurl = "{server.url}"\nallow = "127.0.0.1"\n')
    uri = (tmp_path / "a.py").as_uri()
    folders: list[dict[str, Any]] = [{"uri": tmp_path.as_uri(), "name": "repository"}]
    environment = {**os.environ, "FASTCODER_CACHE": str(tmp_path / "cache")}
    options = {"host": {"enabled": False}, "model": str(tmp_path / "absent")}
    async with running(command=SERVE, environment=environment) as client:
        await client.initialize(workspaceFolders=folders, initializationOptions=options)
        client.open(uri, TEXT)
        assert await client.inline(uri, 1, 4) == []
        await client.until(lambda: any("remote.url" in text for text in client.notices()))
        assert await client.leave() == 0
    assert server.requests == []
