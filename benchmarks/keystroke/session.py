"""A session from the server's start to its end: a workspace of its own, the real server, the typist."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.common.server import SERVER, Server, fresh_workspace
from benchmarks.keystroke import hands
from benchmarks.keystroke.editor import Editor
from benchmarks.keystroke.records import Played, read_server_work
from benchmarks.keystroke.subset import Subset
from benchmarks.keystroke.typist import Typist
from fastcoder_lsp.client.rpc import Params
from fastcoder_lsp.errors import FastcoderError

BUDGET_MS = 400.0
"""What an automatic request may take where the server has no budget: the product's promise."""
NO_BUDGET_MS = 10_000.0
"""A budget of this much is none."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What is compared: a drafter at a speed; `settings` of the server beside it, as an editor would send them."""

    name: str
    drafter: str
    speed: float
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_ablation: bool = False


def play(
    arm: Arm,
    subset: Subset,
    files: Mapping[str, str],
    *,
    seed: int,
    on_key: Callable[[int], None],
    command: tuple[str, ...] = SERVER,
    taker: hands.Taker = hands.TAB,
) -> Played:
    """Type `subset` of a history whose tree was `files` before its first step.

    Raises:
        FastcoderError: the server cannot work (no model, an unknown drafter), or ended.
    """

    async def session() -> Played:
        server = Server("keystroke")
        await server.start(command, root, {"drafter": arm.drafter, **arm.settings}, environment)
        try:
            editor = Editor(server.client, root, dict(files))
            await server.ready()
            typist = Typist(server.client, editor, server.told, speed=arm.speed, seed=seed, on_key=on_key, taker=taker)
            return await _typed(server, typist, subset)
        finally:
            await server.client.stop()

    with fresh_workspace() as (root, environment):
        return asyncio.run(session())


async def _typed(server: Server, typist: Typist, subset: Subset) -> Played:
    """Type, and watch what it costs the server."""
    client = server.client
    process = psutil.Process(client.process_id)
    before, cpu, begun = read_server_work(await client.stats()), process.cpu_times(), time.perf_counter()
    typing = asyncio.create_task(typist.type(subset))
    while not typing.done():
        await asyncio.wait([typing], timeout=0.5)
        try:
            server.check()
        except FastcoderError:
            typing.cancel()
            await asyncio.wait([typing])
            raise
    typing.result()
    spent, stats = process.cpu_times(), await client.stats()
    account = typist.account
    return Played(
        requests=tuple(account.requests),
        work=(before, *account.work, read_server_work(stats)),
        typed=account.typed,
        saved=account.saved,
        accepts=account.accepts,
        budget_ms=_budget_ms(stats),
        cpu_s=spent.user + spent.system - cpu.user - cpu.system,
        wall_s=time.perf_counter() - begun,
        memory_bytes=stats["memory"]["resident_bytes"],
        server={"model": stats["model"], "engine": stats["engine"]},
    )


def _budget_ms(stats: Params) -> float:
    """What an automatic request has; the promise where the server sets it no bound."""
    told: float = stats["budget_ms"].get("automatic", NO_BUDGET_MS)
    return told if told < NO_BUDGET_MS else BUDGET_MS
