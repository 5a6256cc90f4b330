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


async def test_a_keystroke_passes_through_few_functions() -> None:
    """From the method's handler to the engine's step, by the process that all editors share; all modules count.

    The command waits in an outbox for the connection's thread, and the question in the inbox of the scheduler's: a
    reader goes on from there. The engine is wrapped in the one that lends its single KV cache: that step is the last.
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
                (folder / "server").unlink(missing_ok=True)
                (folder / "host").unlink(missing_ok=True)
                client.change(URI, 2, [{"text": "yy = \n"}])
                assert await asked(client, 2) == "suggested = 1"
                await client.leave()
        finally:
            for host in find_hosts([folder]):
                stop_host(host, 10)
        server, host_ = (set((folder / side).read_text().split("\n")[:-1]) for side in ("server", "host"))
        (server_way,), (host_way,) = server, host_
        assert server_way.split() == [
            "inline_completion",
            "CompletionService.submit",
            "BackendSelector.send",
            "SharedProcessHost.send",
            "Outbox.make",
        ]
        assert host_way.split() == [
            "Scheduler.turn",
            "Client.serve",
            "LocalGeneration.work",
            "Decoding.step",
            "_Borrowed.step",
        ]


async def asked(client: RawClient, version: int) -> str:
    items = await client.inline(URI, 0, 3 + version, triggerKind=2)
    return str(items[0]["insertText"]) if items else ""
