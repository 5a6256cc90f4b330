"""Real servers of two editors share one process with a real model, which is killed and stopped while they type."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

import fastcoder_lsp
from fastcoder_lsp.host.control import find_hosts, stop_host
from fastcoder_lsp.model import ModelFiles
from tests.lsp.raw_client import RawClient, running

SERVE = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main", "serve")
LOADED_S = 240.0
STOPPED_S = 20.0


@pytest.mark.ci
@pytest.mark.model
async def test_two_editors_share_one_model_and_survive_its_end(llama_model: ModelFiles) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # A copy: what is installed must not change while servers and processes of it run.
        package = Path(fastcoder_lsp.__file__).parent
        shutil.copytree(
            package, Path(folder) / "installed" / package.name, ignore=shutil.ignore_patterns("__pycache__")
        )
        environment = os.environ | {"XDG_RUNTIME_DIR": folder, "PYTHONPATH": f"{folder}/installed"}
        options: dict[str, Any] = {
            "host.enabled": True,
            "host.linger_s": 2,
            "model": "wheels:smollm2",
            "budget.automatic_ms": 20_000,
            "index.enabled": False,
        }
        try:
            async with (
                running(command=SERVE, environment=environment) as one,
                running(command=SERVE, environment=environment) as other,
            ):
                for client, name in ((one, "a"), (other, "b")):
                    await client.initialize(initializationOptions=options)
                    client.open(f"file:///{name}.py", "def add(a, b):\n    return \n")
                await typed(one, "file:///a.py", 1)
                await typed(other, "file:///b.py", 1)
                first = await host_of(one)
                assert first == await host_of(other)
                shared = {"process_id": first, "fronts": 2, "turn": None}
                await other.until(lambda: last_status(other)["host"] == shared)
                assert psutil.Process(one.process.pid).memory_info().rss < 90e6
                version = 1
                for _ in range(2):
                    os.kill(await host_of(one), signal.SIGKILL)
                    version = keys(one, other, version)
                    await typed(one, "file:///a.py", version)
                    await typed(other, "file:///b.py", version)
                second = await host_of(one)
                assert second == await host_of(other) != first
                stopped = psutil.Process(second)
                stopped.suspend()
                version = keys(one, other, version)
                await asyncio.sleep(STOPPED_S)
                stopped.resume()
                await typed(one, "file:///a.py", version)
                await typed(other, "file:///b.py", version)
                assert second == await host_of(one) == await host_of(other)
                for client in (one, other):
                    await client.until(lambda client=client: len(client.answers) == client._ids)
                    assert all(len(answers) == 1 and "error" not in answers[0] for answers in client.answers.values())
                    assert await client.leave() == 0
        finally:
            for host in find_hosts([Path(folder) / "fastcoder-lsp"]):
                stop_host(host, 10)


def last_status(client: RawClient) -> dict[str, Any]:
    told = [message["params"] for message in client.told if message["method"] == "fastcoder/status"]
    status: dict[str, Any] = told[-1]
    return status


def keys(one: RawClient, other: RawClient, version: int) -> int:
    for client, name in ((one, "a"), (other, "b")):
        for key in range(4):
            version += 1
            at = len("    return ") + key
            client.change(f"file:///{name}.py", version, [insertion(1, at, "a")])
            client.ask_inline(f"file:///{name}.py", 1, at + 1)
    return version + 1


def insertion(line: int, character: int, text: str) -> dict[str, Any]:
    at = {"line": line, "character": character}
    return {"range": {"start": at, "end": at}, "text": text}


async def typed(client: RawClient, uri: str, version: int) -> None:
    """Ask until there is text, at a place that nothing was said of before."""
    client.change(uri, version, [{"text": f"def add{version}(a, b):\n    return \n"}])
    for _ in range(100):
        asked = client.ask_inline(uri, 1, len("    return "), triggerKind=1)
        await client.until(lambda asked=asked: asked in client.answers, LOADED_S)
        if client.answers[asked][0]["result"]["items"]:
            return
        await asyncio.sleep(0.2)
    raise AssertionError((client.told[-5:], bytes(client.stderr[-2000:])))


async def host_of(client: RawClient) -> int:
    host = (await client.call("fastcoder/stats"))["host"]
    assert host["shared"]
    process_id = host["process_id"]
    assert isinstance(process_id, int)
    return process_id
