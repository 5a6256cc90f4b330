"""A session from the server's start to its end: a workspace of its own, the real server, the typist.

Owns the server's process, the temporary workspace and a cache folder for what is learnt of it; all go at the end.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from fastcoder_lsp.bench.common.product import Status
from fastcoder_lsp.bench.keystroke.editor import Editor
from fastcoder_lsp.bench.keystroke.records import Played, read_server_work
from fastcoder_lsp.bench.keystroke.subset import Subset
from fastcoder_lsp.bench.keystroke.typist import Typist
from fastcoder_lsp.client.client import Client
from fastcoder_lsp.client.rpc import Params, ServerGoneError
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.config.programs import python_command
from fastcoder_lsp.errors import FastcoderError

SERVER = python_command("fastcoder_lsp.cli.main", "serve")
"""The server that the editors start, from this very installation."""
BUDGET_MS = 400.0
"""What an automatic request may take where the server has no budget: the product's promise."""
NO_BUDGET_MS = 10_000.0
"""A budget of this much is none."""
READY_S = 300.0
QUIET_S = 1.5
"""No index work is announced for so long: there is none."""
OF_A_WORKSPACE = frozenset({"index", "learnt"})
"""What the cache folder holds for one workspace each: a session begins without."""
_SCRATCH = "untitled:before-typing.py"


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
) -> Played:
    """Type `subset` of a history whose tree was `files` before its first step.

    Raises:
        FastcoderError: the server cannot work (no model, an unknown drafter), or ended.
    """
    with tempfile.TemporaryDirectory(prefix="fastcoder-typing-") as folder:
        root, cache = Path(folder).resolve() / "workspace", Path(folder).resolve() / "cache"
        root.mkdir()
        _borrow(cache_folder(), cache)
        environment = {**os.environ, "FASTCODER_CACHE": str(cache)}
        return asyncio.run(_Session(arm, root).run(subset, files, seed, on_key, command, environment))


def _borrow(kept: Path, cache: Path) -> None:
    """A cache folder for one session: models and kernels are those of `kept`, what is learnt of a workspace is new."""
    cache.mkdir()
    for entry in kept.iterdir() if kept.is_dir() else ():
        if entry.name not in OF_A_WORKSPACE:
            (cache / entry.name).symlink_to(entry)


def _budget_ms(stats: Params) -> float:
    """What an automatic request has; the promise where the server sets it no bound."""
    told: float = stats["budget_ms"].get("automatic", NO_BUDGET_MS)
    return told if told < NO_BUDGET_MS else BUDGET_MS


class _Session:
    """A session with one server; made on its event loop's thread."""

    def __init__(self, arm: Arm, root: Path) -> None:
        self._arm, self._root = arm, root
        self._status = Status("starting")
        self._told: dict[int, Params] = {}
        self._indexing = 0
        self._heard = time.monotonic()
        self._gone: ServerGoneError | None = None
        self._client = Client(
            self._on_status, lambda _: None, self._on_gone, on_told=self._on_told, name="fastcoder-lsp bench keystroke"
        )

    async def run(
        self,
        subset: Subset,
        files: Mapping[str, str],
        seed: int,
        on_key: Callable[[int], None],
        command: tuple[str, ...],
        environment: Mapping[str, str],
    ) -> Played:
        """Start, get warm, type, end."""
        options = {"drafter": self._arm.drafter, **self._arm.settings, "client": {"reportsAnswers": True}}
        await self._client.start(command, self._root, options, environment)
        try:
            editor = Editor(self._client, self._root, dict(files))
            try:
                async with asyncio.timeout(READY_S):
                    await self._ready()
            except TimeoutError as error:
                raise FastcoderError(f"the server was not ready after {READY_S:.0f} s") from error
            typist = Typist(self._client, editor, self._told, speed=self._arm.speed, seed=seed, on_key=on_key)
            return await self._typed(typist, subset)
        finally:
            await self._client.stop()

    async def _typed(self, typist: Typist, subset: Subset) -> Played:
        """Type, and watch what it costs the server."""
        process = psutil.Process(self._client.process_id)
        before, cpu, begun = read_server_work(await self._client.stats()), process.cpu_times(), time.perf_counter()
        typing = asyncio.create_task(typist.type(subset))
        while not typing.done():
            await asyncio.wait([typing], timeout=0.5)
            if self._gone is not None or self._status.state == "error":
                typing.cancel()
                await asyncio.wait([typing])
                self._check()
        typing.result()
        spent, stats = process.cpu_times(), await self._client.stats()
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

    async def _ready(self) -> None:
        """Wait until the model is loaded and the index built: what is measured is typing, not the start."""
        text = "def add(first, second):\n    return "
        self._client.open(_SCRATCH, "python", 1, text)
        while self._status.state != "ready":
            await self._client.suggest(_SCRATCH, text, len(text), invoked=True)
            self._check()
            await asyncio.sleep(0.1)
        while self._indexing or time.monotonic() - self._heard < QUIET_S:
            await asyncio.sleep(0.1)
            self._check()
        self._client.close(_SCRATCH)

    def _check(self) -> None:
        """Raise what makes it senseless to go on."""
        if self._gone is not None:
            raise self._gone
        if self._status.state == "error":
            raise FastcoderError(self._status.message, self._status.hint)

    def _on_status(self, status: Status) -> None:
        self._status, self._heard = status, time.monotonic()

    def _on_gone(self, gone: ServerGoneError) -> None:
        self._gone = gone

    def _on_told(self, method: str, params: Params) -> None:
        if method == "fastcoder/answered":
            self._told[params["version"]] = params
        elif method == "$/progress" and "indexing" in str(params["token"]):
            self._heard = time.monotonic()
            self._indexing += {"begin": 1, "end": -1}.get(params["value"]["kind"], 0)
