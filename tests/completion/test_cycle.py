"""How far a reader has to go: the functions that a keystroke passes through, and who holds a lock."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from fastcoder_lsp.host.control import find_hosts, stop_host
from tests.lsp.raw_client import RawClient, running

URI = "file:///a.py"
SERVE = (sys.executable, "-P", "-m", "tests.completion.traced_process", "serve", "--folder")
PARTS = {
    "handler": [
        "inline_completion",
        "CompletionService.submit",
        "BackendSelector.send",
        "SharedProcessHost.send",
        "Outbox.make",
    ],
    "writer": ["Channel.write"],
    "reader": ["ClientConnection.serve", "LocalHost.send"],
    "scheduler": [
        "Scheduler.turn",
        "Scheduler._run",
        "Client.serve",
        "PacedDecoding.work",
        "Decoding.step",
        "_Borrowed.step",
    ],
    "emitter": ["Client._answer", "ClientConnection.on", "Outbox.make"],
    "listener": [
        "SharedProcessHost.hear",
        "SharedProcessHost._hear_event",
        "SharedProcessHost._tell",
        "_Gate.__call__",
        "CompletionService.on",
        "CompletionService._answered",
        "Waiting.answer",
        "resolve",
    ],
}
DOWN = ("handler", "reader", "scheduler")
UP = ("emitter", "listener")
SOCKET = {"SharedProcessHost.send", "Outbox.make", "ClientConnection.serve", "ClientConnection.on"} | {
    f"SharedProcessHost.{name}" for name in ("hear", "_hear_event", "_tell")
}
"""Functions that only the way through the socket has."""


def test_few_functions_in_one_process() -> None:
    """Without the socket, by the ways that the next test finds."""
    assert len([one for part in DOWN for one in PARTS[part] if one not in SOCKET]) <= 10
    assert len([one for part in UP for one in PARTS[part] if one not in SOCKET]) <= 8


async def test_a_keystroke_passes_through_few_functions() -> None:
    """From the handler to the engine's step and back, by the process that all editors share; all modules count.

    The question passes through four threads. It waits for the writer in an outbox, for the reader in the socket, and
    for the scheduler in its inbox. Each way begins at the function that takes it in. The engine is wrapped in the one
    that lends its single KV cache: that step is the last.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        folder.mkdir(mode=0o700)
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "FASTCODER_CACHE": f"{name}/cache"}
        try:
            async with running(command=(*SERVE, str(folder)), environment=environment) as client:
                await client.initialize()
                client.open(URI, "x = \n")
                for _ in range(1000):
                    if await asked(client, 1):
                        break
                    await asyncio.sleep(0.1)  # the process starts
                for part in PARTS:
                    (folder / part).unlink(missing_ok=True)
                client.change(URI, 2, [{"text": "yy = \n"}])
                assert await asked(client, 2) == "suggested = 1"
                ways = {part: set((folder / part).read_text().split("\n")[:-1]) for part in PARTS}
                await client.leave()
        finally:
            for host in find_hosts([folder]):
                stop_host(host, 10)
        assert {part: [way.split() for way in of] for part, of in ways.items()} == {
            part: [functions] for part, functions in PARTS.items()
        }


async def asked(client: RawClient, version: int) -> str:
    items = await client.inline(URI, 0, 3 + version, triggerKind=2)
    return str(items[0]["insertText"]) if items else ""
