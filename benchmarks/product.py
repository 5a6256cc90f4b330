"""The parts of the server that benchmarks use, which only this module imports, and a real server over stdio.

Benchmarks import engine, drafters, decoding and prompt directly.
"""

import asyncio
import json
import math
import os
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Reported
from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.client.client import LanguageClient, Params, ServerGoneError
from fastcoder_lsp.completion.question import place_of
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Settings, SettingsLayer, cache_folder, resolve
from fastcoder_lsp.config.environment import python_command
from fastcoder_lsp.core import CompletionRequest, at_once
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.edits.values import EditAnswer, EditQuestion
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.observe import Spans
from fastcoder_lsp.prompt import Prompt
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.costs import measure as measure_costs
from fastcoder_lsp.runtime.edit_model import EditRuntime, load_edit_model
from fastcoder_lsp.runtime.load import load_runtime
from fastcoder_lsp.runtime.parts import ALONE, Runtime, WorkspaceView
from fastcoder_lsp.runtime.smaller_models import SmallerModels
from fastcoder_lsp.scheduling.budget import LatencyEstimator
from fastcoder_lsp.scheduling.edits import EditGeneration
from fastcoder_lsp.scheduling.generation import begin
from fastcoder_lsp.workspace.rules import ReadingRules

__all__ = ["SmallerModels", "measure_costs"]

INDEXING_S = 600.0
"""A question waits so long for the folder to be looked through."""
_MEMORY_MB = 1 << 20


class FullAnswer:
    """The server's own answer to a request, however long it takes: its prompt, its decoding, its post-processing.

    Args:
        settings: of the server, as an editor would send them.
        root: the workspace folder, whose other files are context where the settings ask for it.
        open_texts: path → unsaved text of the documents that are open in it.
    """

    def __init__(
        self, settings: Mapping[str, Any], root: Path | None = None, open_texts: Callable[[], Mapping[Path, str]] = dict
    ) -> None:
        resolved, _ = resolve([SettingsLayer("bench", dict(settings), trusted=True)])
        around = ALONE
        if root is not None and resolved.context_enabled:
            folder = ReadableFolder(root, ReadingRules((root,), resolved))
            around = WorkspaceView(context=RepositoryContext(lambda _path: folder, open_texts, INDEXING_S))
        self._runtime = load_runtime(resolved, lambda _share, _what: None, around)
        self.engine_name = self._runtime.info.name
        self.max_tokens = self._runtime.limits.max_tokens

    def prompt(self, request: CompletionRequest) -> Prompt:
        """The prompt of a request, which depends on the earlier requests for the same document."""
        return at_once(self._runtime.prompts.build(request.snapshot, request.offset))

    def text(self, request: CompletionRequest) -> str:
        return _suggest(self._runtime, request)

    def forget(self, uri: str) -> None:
        """Let the prompts of a document depend on nothing before."""
        self._runtime.prompts.forget(uri)

    def close(self) -> None:
        self._runtime.close()


def _suggest(runtime: Runtime, request: CompletionRequest) -> str:
    place = place_of(request)
    estimator = LatencyEstimator(runtime.costs, _milliseconds)
    generation = at_once(begin(runtime, estimator, _milliseconds, request, place, ()))
    while not generation.finished:
        generation.work(math.inf)
    rest = generation.made().rest(place)
    return rest.text if rest is not None else ""


def _milliseconds() -> float:
    return time.monotonic() * 1e3


def smaller_models(names: Sequence[str], model: BenchModel, kind: str, context: int) -> SmallerModels:
    """Smaller models that draft for `model`, loaded when a drafter first asks for them; `names`: as `draft.models`."""
    named = tuple(names)
    settings = Settings(engine=kind, context_tokens=context, draft_models=named, draft_memory_mb=_MEMORY_MB)
    return SmallerModels(settings, model.cache, model.tokenizer, lambda _share, _what: None)


class LocalEdits:
    """A local edit model, asked as the server asks it; nothing else runs. `ms`: of each answer."""

    def __init__(self, runtime: EditRuntime) -> None:
        self._runtime, self.ms = runtime, list[float]()
        self._latency = LatencyEstimator(runtime.model.costs, _milliseconds)

    @classmethod
    def load(cls, name: str) -> "LocalEdits":
        """The model that `edits.model` would name; raises FastcoderError for none."""
        settings, _ = resolve([SettingsLayer("bench", {"edits.model": name}, trusted=True)])
        model = load_edit_model(settings, threading.Event())
        return cls(EditRuntime(model, Slots(model.engines, "bench"), model.make_drafter()))

    def answer(self, question: EditQuestion) -> EditAnswer:
        """The answer to a question; without edits where the model cannot be asked."""
        model, started, spans = self._runtime.model, _milliseconds(), Spans()
        prompt = model.format.prompt(question, model.limits())
        tokens = () if prompt is None else tuple(prompt.encode(model.tokenizer))
        if prompt is None or len(tokens) > model.engines.info.context // 2:
            return EditAnswer()
        generation = EditGeneration(self._runtime, self._latency, _milliseconds, question, prompt, tokens, spans)
        while not generation.finished:
            generation.do_piece()
        self.ms.append(_milliseconds() - started)
        return generation.answer()


SERVER = python_command("fastcoder_lsp.cli.main", "serve")
"""The server that the editors start, from this very installation."""
READY_S = 300.0
QUIET_S = 1.5
"""No index work is announced for so long: there is none."""
OF_A_WORKSPACE = frozenset({"index", "learnt"})
"""Parts of the cache folder that belong to one workspace: a session begins without them."""
_SCRATCH = "untitled:before-typing.py"
_ASKED = "def add(first, second):\n    return "


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
        """The settings that --model, --engine, --set and `more` (NAME=VALUE) ask for; UsageError for a wrong one."""
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
        kept = cache_folder()
        root.mkdir()
        cache.mkdir()
        for entry in kept.iterdir() if kept.is_dir() else ():
            if entry.name not in OF_A_WORKSPACE:
                (cache / entry.name).symlink_to(entry)
        yield root, {**os.environ, "FASTCODER_CACHE": str(cache)}


class BenchmarkServer:
    """A server of one workspace, and what it tells; made on its event loop's thread."""

    def __init__(self, benchmark: str) -> None:
        self.told: dict[int, Params] = {}
        """Version → what it told of its answer."""
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
        """Wait until the model is loaded and the index built; raises FastcoderError where the server cannot work."""
        try:
            async with asyncio.timeout(READY_S):
                await self._ready()
        except TimeoutError as error:
            raise FastcoderError(f"the server was not ready after {READY_S:.0f} s") from error

    def check(self) -> None:
        """Raise the error that the server ended with, or told."""
        if self._gone is not None:
            raise self._gone
        if self._status.state == "error":
            raise FastcoderError(self._status.message, self._status.hint)

    async def _ready(self) -> None:
        self.client.open(_SCRATCH, "python", 1, _ASKED)
        while self._status.state != "ready":
            await self.client.suggest(_SCRATCH, _ASKED, len(_ASKED), invoked=True)
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


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
