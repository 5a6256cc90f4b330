"""A host in this process: one model and one set of stores, for every front that opens it.

Owns the scheduler and its thread, the settings by which the model is loaded, and each front's client and workspace. The
process that all editors share is this behind a socket; with `host.enabled = false` the server uses it directly.
"""

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from fastcoder_lsp.completion.protocol import (
    Command,
    DocumentChanged,
    DocumentClosed,
    FilesChanged,
    HostFacts,
    HostListener,
    Indexing,
    Notice,
    Reload,
    Turn,
    Use,
)
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Progress
from fastcoder_lsp.host.made_from import front_part, model_part
from fastcoder_lsp.host.workspace import FrontWorkspace
from fastcoder_lsp.runtime.load import wants_datastore
from fastcoder_lsp.runtime.parts import Model, Runtime, WorkspaceView
from fastcoder_lsp.scheduling.scheduler import Scheduler
from fastcoder_lsp.workspace.open_texts import OpenTexts
from fastcoder_lsp.workspace.shared_stores import SharedStores

if TYPE_CHECKING:
    from fastcoder_lsp.workspace.live_index import IndexProgress

LoadModel = Callable[[Settings, Progress], Model]
"""Loads what fronts share; called in the scheduler's thread."""
MakeRuntime = Callable[[Model, Settings, WorkspaceView, str], Runtime]
"""Makes what a front has of it, by its settings, its workspace and its name; called in the scheduler's thread."""


class ModelServer:
    """The model, its scheduler and the stores, which all fronts share.

    Args:
        load: loads the model.
        make: makes a front's part of it.
        settings: the model is loaded by them, until a front wants another one.
        cache: the program's cache folder.
        alone: whether all of it ends with its one front.
    """

    def __init__(
        self, load: LoadModel, make: MakeRuntime, settings: Settings, cache: Path, *, alone: bool = False
    ) -> None:
        self._load, self._settings, self._alone = load, settings, alone
        self._lock = threading.Lock()
        self._names = (f"front-{number}" for number in itertools.count(1))
        self._fronts: dict[LocalHost, None] = {}
        self.make, self.stores = make, SharedStores(cache)
        self.scheduler: Scheduler[Model] = Scheduler(self._loading(settings))
        self._thread = threading.Thread(target=self.scheduler.run, name="fastcoder-scheduler", daemon=True)
        self._thread.start()

    def open(
        self,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts | None = None,
    ) -> "LocalHost":
        """A place for one more front (`OpenHost`)."""
        with self._lock:
            front = LocalHost(self, next(self._names), listener, settings, folders, texts)
            self._fronts[front] = None
        self.want(settings)
        return front

    def want(self, settings: Settings) -> None:
        """A front's settings: where they are of another model, that one is loaded for all, from the next question on.

        Fronts of a shared process are told apart by these settings before they come to it.
        """
        with self._lock:
            before, self._settings = self._settings, settings
        if model_part(settings) != model_part(before):
            self.reload()

    def reload(self) -> None:
        """Load the model anew."""
        self.scheduler.use(self._loading(self._settings))

    def _loading(self, settings: Settings) -> Callable[[Progress], Model]:
        # One front's drafter, which the model may not suit, is its own: it must not keep the model from others.
        shared = settings if self._alone else replace(settings, drafter=Settings().drafter)
        return partial(self._load, shared)

    def fronts(self) -> int:
        """How many there are."""
        return len(self._fronts)

    def probe(self, reply: Callable[[], object]) -> None:
        """Have the worker call `reply` between two pieces of work; at once where it works for nobody."""
        with self._lock:
            front = next(iter(self._fronts), None)
        if front is None:
            reply()
        else:
            front.between_pieces(reply)

    def leave(self, front: "LocalHost", wait_s: float) -> None:
        """A front is gone."""
        with self._lock:
            self._fronts.pop(front, None)
        if self._alone:
            self.close(wait_s)

    def close(self, wait_s: float) -> None:
        """End within a piece of work, and give the model's memory back; waits at most so long for it."""
        self.scheduler.close()
        self._thread.join(wait_s)


class LocalHost:
    """One front's host (`ModelHost`): its client of the scheduler, and its workspace.

    Args:
        server: the model that it shares.
        name: no other front has it.
        listener: the front.
        settings: of the model, and of this front's part of it.
        folders: of its workspace, with their settings.
        texts: of its open documents; None: there are none.
    """

    def __init__(
        self,
        server: ModelServer,
        name: str,
        listener: HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts | None = None,
    ) -> None:
        self._server, self._name, self._listener, self._settings = server, name, listener, settings
        self._process = psutil.Process()
        self._workspace = FrontWorkspace(folders, server.stores, texts or OpenTexts(), self._indexing, self._notice)
        self._client = server.scheduler.join(listener, self._make, enabled=settings.enabled)

    def send(self, command: Command) -> None:
        """Pass it on: files to the workspace, questions to the scheduler, a reload to the model that all share."""
        match command:
            case Use(settings, folders):
                self._use(settings, folders)
            case Reload():
                self._server.reload()
            case DocumentChanged(path, text):
                self._workspace.document_changed(path, text)
            case DocumentClosed(path):
                self._workspace.document_closed(path)
            case FilesChanged(paths):
                self._workspace.files_changed(paths)
            case _:
                self._client.send(command)

    def between_pieces(self, call: Callable[[], object]) -> None:
        """Something for the scheduler's thread, between two pieces of work."""
        self._client.post(self._client, lambda: _call(call))

    def facts(self) -> HostFacts:
        """The facts at this moment."""
        info, budgets, loaded = self._client.info(), self._client.budgets, self._client.model.loaded
        return HostFacts(
            model=info.model if info else "",
            engine=info.name if info else "",
            budget_ms=budgets.by_kind() if budgets else {},
            resident_bytes=self._process.memory_info().rss,
            process_id=self._process.pid,
            fronts=self._server.fronts(),
            turn=self._turn(),
            context=loaded.runtime.prompts.options.context_tokens > 0 if loaded is not None else None,
        )

    def close(self, wait_s: float) -> None:
        """The front is done, and its share is free; waits at most so long for what ends with it."""
        end = time.monotonic() + wait_s
        self._client.leave()
        self._server.leave(self, wait_s / 2)
        self._workspace.close(max(0.0, end - time.monotonic()))

    def _use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        before, self._settings = self._settings, settings
        self._workspace.change(folders)
        if model_part(settings) != model_part(before):
            self._server.want(settings)
        elif front_part(settings) != front_part(before):
            self._server.scheduler.refit(self._client, self._make)

    def _turn(self) -> Turn:
        served = self._server.scheduler.turn_of()
        if served is None or self._client.request is None:
            return ""
        return "own" if served is self._client else "other"

    def _make(self, model: Model) -> Runtime:
        """In the scheduler's thread: this front's part of the model, and with its tokenizer the datastore."""
        settings = self._settings
        around = self._workspace.surroundings(drafted_from=wants_datastore(settings))
        runtime = self._server.make(model, settings, around, self._name)
        self._workspace.begin(runtime.tokenizer)
        return runtime

    def _indexing(self, progress: "IndexProgress") -> None:
        self._listener(Indexing(progress.done, progress.total, progress.building))

    def _notice(self, text: str) -> None:
        self._listener(Notice(text))


def _call(call: Callable[[], object]) -> None:
    call()


def open_alone(
    load: LoadModel,
    make: MakeRuntime,
    listener: HostListener,
    settings: Settings,
    folders: Mapping[Path, Settings],
    texts: OpenTexts,
) -> LocalHost:
    """A host of one front, which ends with it (`OpenHost` but for the first two)."""
    return ModelServer(load, make, settings, cache_folder(), alone=True).open(listener, settings, folders, texts)
