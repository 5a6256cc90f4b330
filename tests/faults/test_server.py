"""The real server with a model that cannot be loaded: it lives, says why and what to do, and answers everything."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults.stranger import Stranger
from tests.lsp.raw_client import RawClient, running

SERVE = (sys.executable, "-m", "fastcoder_lsp.cli.main", "serve", "--engine", "cpu-fp32")
WAIT_S = 200.0


async def answer(client: RawClient, file: Path, line: int) -> list[Any]:
    """What is suggested at the beginning of a line."""
    asked = client.ask_inline(file.as_uri(), line, 0)
    await client.until(lambda: asked in client.answers, WAIT_S)
    result = client.answers[asked][0]["result"]
    items: list[Any] = result["items"]
    return items


async def test_a_model_that_cannot_be_loaded_and_then_can(stranger: Stranger) -> None:
    """The status says what is wrong with which file, the answer is empty with that reason; mended, it is loaded."""
    path = stranger.model / "tokenizer.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    command = (*SERVE, "--model", str(stranger.model))
    async with running(command=command, environment=dict(stranger.variables())) as client:
        await client.initialize(initializationOptions={"drafter": "none"})
        client.open(stranger.file.as_uri(), stranger.file.read_text(encoding="utf-8"))
        assert await answer(client, stranger.file, 0) == []
        statuses = [message["params"] for message in client.told if message["method"] == "fastcoder/status"]
        told = next(status for status in statuses if status["state"] == "error")
        assert str(path) in told["message"]
        assert "model pull" in json.dumps(told)
        why = await client.call("fastcoder/why", {"textDocument": {"uri": stranger.file.as_uri()}})
        assert str(path) in why["text"]

        path.write_text(whole, encoding="utf-8")
        items: list[Any] = []
        until = time.monotonic() + WAIT_S
        while not items and time.monotonic() < until:  # it is tried again some seconds after it failed
            await asyncio.sleep(0.5)
            items = await answer(client, stranger.file, 0)
        assert items[0]["insertText"] == "max()"
        assert await client.leave() == 0
        assert b"Traceback" not in client.stderr
