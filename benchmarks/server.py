"""A real server over stdio for one workspace: which command starts it, with which settings, and when it is ready.

Owns the server's process, the temporary workspace and a cache folder for what is learnt of it; all go at the end.
"""

import asyncio
import json
import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Reported
from benchmarks.product import Status
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.client.client import LanguageClient, Params, ServerGoneError
from fastcoder_lsp.config import SettingsLayer, cache_folder, resolve
from fastcoder_lsp.config.environment import python_command
from fastcoder_lsp.errors import FastcoderError, UsageError

SERVER = python_command("fastcoder_lsp.cli.main", "serve")
"""The server that the editors start, from this very installation."""
READY_S = 300.0
QUIET_S = 1.5
"""No index work is announced for so long: there is none."""
OF_A_WORKSPACE = frozenset({"index", "learnt"})
"""Parts of the cache folder that belong to one workspace: a session begins without them."""
_SCRATCH = "untitled:before-typing.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(Reported):
    model: str = option("as the setting `model`", "auto")
    engine: str = option("as the setting `engine`", "auto")
    set: list[str] = option(
        "a setting of the server, such as budget.automatic_ms=200; may be given again", [], metavar="NAME=VALUE"
    )
    server: str | None = option(
        "ask another server, such as 'OLD/.venv/bin/fastcoder-lsp serve'; the reference stays this checkout's",
        None,
        metavar="COMMAND",
    )
    here: Path | None = None

    def command(self) -> tuple[str, ...]:
        """The command that starts it; a relative path of the program starts from the folder `here`."""
        command = tuple(shlex.split(self.server)) if self.server is not None else SERVER
        if not command:
            raise UsageError("--server names no program", "Example: --server 'OLD/.venv/bin/fastcoder-lsp serve'")
        program, *rest = command
        return (str(self.here / program) if self.here is not None and os.sep in program else program, *rest)

    def settings(self, *more: str) -> dict[str, Any]:
        """The settings that --model, --engine, --set and `more` (NAME=VALUE) ask for.

        Raises:
            UsageError: the server would not take one of them.
        """
        settings: dict[str, Any] = {"model": self.model, "engine": self.engine}
        for pair in (*self.set, *more):
            name, equals, value = pair.partition("=")
            if not equals:
                raise UsageError(f"a setting is NAME=VALUE, not {pair}")
            settings[name] = _value(value)
        _, problems = resolve([SettingsLayer("--set", settings, trusted=True)])
        if problems:
            raise UsageError(str(problems[0]), "See docs/settings.md.")
        return settings


@contextmanager
def fresh_workspace() -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty workspace folder, and an environment in which nothing is learnt of it."""
    # The shared process outlives its server for a while, and keeps what it has learnt when the folder is being removed.
    with tempfile.TemporaryDirectory(prefix="fastcoder-typing-", ignore_cleanup_errors=True) as folder:
        root, cache = Path(folder).resolve() / "workspace", Path(folder).resolve() / "cache"
        root.mkdir()
        _borrow(cache_folder(), cache)
        yield root, {**os.environ, "FASTCODER_CACHE": str(cache)}


class BenchmarkServer:
    """A server of one workspace, and what it tells; made on its event loop's thread.

    Attributes:
        told: version → what it told of its answer.
    """

    def __init__(self, benchmark: str) -> None:
        self.told: dict[int, Params] = {}
        self._status = Status("starting")
        self._indexing = 0
        self._heard = time.monotonic()
        self._gone: ServerGoneError | None = None
        self.client = LanguageClient(
            self._on_status,
            lambda _: None,
            self._on_gone,
            on_told=self._on_told,
            name=f"fastcoder-lsp bench {benchmark}",
        )

    async def start(
        self, command: Sequence[str], root: Path, settings: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        options = {**settings, "client": {"reportsAnswers": True}}
        await self.client.start(command, root, options, environment)

    async def ready(self) -> None:
        """Wait until the model is loaded and the index built: what is measured is typing, not the start.

        Raises:
            FastcoderError: the server cannot work (no model, an unknown drafter), or ended.
        """
        try:
            async with asyncio.timeout(READY_S):
                await self._ready()
        except TimeoutError as error:
            raise FastcoderError(f"the server was not ready after {READY_S:.0f} s") from error

    def check(self) -> None:
        """Raise what makes it senseless to go on."""
        if self._gone is not None:
            raise self._gone
        if self._status.state == "error":
            raise FastcoderError(self._status.message, self._status.hint)

    async def _ready(self) -> None:
        text = "def add(first, second):\n    return "
        self.client.open(_SCRATCH, "python", 1, text)
        while self._status.state != "ready":
            await self.client.suggest(_SCRATCH, text, len(text), invoked=True)
            self.check()
            await asyncio.sleep(0.1)
        while self._indexing or time.monotonic() - self._heard < QUIET_S:
            await asyncio.sleep(0.1)
            self.check()
        self.client.close(_SCRATCH)

    def _on_status(self, status: Status) -> None:
        self._status, self._heard = status, time.monotonic()

    def _on_gone(self, gone: ServerGoneError) -> None:
        self._gone = gone

    def _on_told(self, method: str, params: Params) -> None:
        if method == "fastcoder/answered":
            self.told[params["version"]] = params
        elif method == "$/progress" and "indexing" in str(params["token"]):
            self._heard = time.monotonic()
            self._indexing += {"begin": 1, "end": -1}.get(params["value"]["kind"], 0)


def _borrow(kept: Path, cache: Path) -> None:
    """A cache folder for one session: models and kernels are those of `kept`, what is learnt of a workspace is new."""
    cache.mkdir()
    for entry in kept.iterdir() if kept.is_dir() else ():
        if entry.name not in OF_A_WORKSPACE:
            (cache / entry.name).symlink_to(entry)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
