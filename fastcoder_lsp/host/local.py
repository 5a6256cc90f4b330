"""A model server in this process: one model and one set of stores for all of its fronts.

The shared process runs it behind a socket; with `host.enabled = false` the language server uses it directly.
"""

import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.completion.status import failure
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Progress
from fastcoder_lsp.host.address import front_part, model_part
from fastcoder_lsp.host.elsewhere import ElsewhereSearches
from fastcoder_lsp.host.workspace import FrontWorkspace
from fastcoder_lsp.runtime.load import wants_datastore
from fastcoder_lsp.runtime.parts import Model, Runtime, Successor, WorkspaceView
from fastcoder_lsp.scheduling.client import Arrival
from fastcoder_lsp.scheduling.model import LocalModel
from fastcoder_lsp.scheduling.scheduler import ModelChange, Scheduler
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.shared_stores import SharedStores

SHOWN_EVERY_S = 1.0  # between two reports of the same stage
READING_S = 5.0  # bound on the reading of a folder that `Load.near` asks for
LoadModel = Callable[[Settings, Progress], Model]  # loads the model that fronts share; called in the scheduler's thread
MakeRuntime = Callable[[Model, Settings, WorkspaceView, str], Runtime]
"""Makes a front's runtime from its settings, workspace and name; called in the scheduler's thread."""


class ModelServer:
    """The model, its scheduler and the stores, shared by all fronts.

    The model is loaded with `settings` until a front wants another one. `alone`: the server ends with its only front.
    """

    def __init__(
        self, load: LoadModel, make: MakeRuntime, settings: Settings, cache: Path, *, alone: bool = False
    ) -> None:
        self._load, self._settings, self._alone = load, settings, alone
        self._lock = threading.Lock()
        self._names = (f"front-{number}" for number in itertools.count(1))
        self._fronts: dict[LocalHost, protocol.HostListener] = {}
        self.make, self.stores = make, SharedStores(cache)
        self._successor: Successor | None = None
        self.succession = protocol.Succession()
        self.scheduler: Scheduler[Model] = Scheduler(
            # The engine has threads of its own; only those that read folders work beside it for long.
            self._loading(settings),
            cpu=lambda: time.process_time() - self.stores.cpu.seconds,
        )
        self._thread = threading.Thread(target=self.scheduler.run, name="fastcoder-scheduler", daemon=True)
        self._thread.start()

    def open(
        self,
        listener: protocol.HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts | None = None,
    ) -> "LocalHost":
        """Open a host for one more front (`OpenHost`)."""
        with self._lock:
            front = LocalHost(self, next(self._names), listener, settings, folders, texts)
            self._fronts[front] = listener
        self.want(settings)
        if self.succession.following:
            listener(self.succession)
        return front

    def want(self, settings: Settings) -> None:
        """Take a front's settings: another model than the loaded one is loaded for all from the next question on."""
        with self._lock:
            before, self._settings = self._settings, settings
        if model_part(settings) != model_part(before):
            self.reload()

    def reload(self) -> None:
        """Reload the model."""
        with self._lock:
            self.scheduler.use(self._loading(self._settings))
        self._follow(protocol.Succession())

    def _loading(self, settings: Settings) -> Callable[[Progress], Model]:
        # A front's drafter may not fit the model; that must not keep the model from other fronts.
        shared = settings if self._alone else replace(settings, drafter=Settings().drafter)
        return partial(self._load_and_tell, shared)

    def _load_and_tell(self, settings: Settings, progress: Progress) -> Model:
        model = self._load(settings, progress)
        self._announce(model)
        self._successor = model.successor
        if model.successor is None:
            self._follow(protocol.Succession(answering=model.info.model if self.succession.following else ""))
        else:
            arguments = model.info.model, model.successor
            threading.Thread(target=self._succeed, args=arguments, name="fastcoder-successor", daemon=True).start()
        return model

    def _announce(self, model: Model) -> None:
        if model.news:
            self._tell(model.news)

    def _succeed(self, answering: str, successor: Successor) -> None:
        """Prepare the following model in its own thread, and let it take over between requests; ends if unloaded."""
        shown_s, stopped = -math.inf, successor.stopped

        def tell(what: str, percent: int | None) -> None:
            nonlocal shown_s
            now, told = time.monotonic(), protocol.Succession(answering, successor.name, what, percent)
            if what.partition(":")[0] == self.succession.what.partition(":")[0] and now - shown_s < SHOWN_EVERY_S:
                return
            shown_s = now
            if not stopped.is_set():
                self._follow(told)

        try:
            model = successor.make(tell)
        except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions; this model goes on
            if not stopped.is_set():
                why = failure(f"{successor.name} cannot be prepared", error)
                self._tell(f"{successor.name} cannot take over: {why.message}. {answering} goes on. {why.hint}".strip())
            self._end(successor)
            return
        handover = _Handover(model, successor)
        with self._lock:
            if not stopped.is_set():
                change = ModelChange(handover.take, self._took_over) if model is not None else None
                self.scheduler.succeed(self._loading(self._settings), change)
        stopped.wait()
        handover.drop()
        if not handover.taken:
            self._end(successor)

    def _end(self, successor: Successor) -> None:
        if self._successor is successor:
            self._follow(protocol.Succession())

    def _took_over(self, model: Model) -> None:
        self._announce(model)
        self._follow(protocol.Succession(answering=model.info.model))

    def _follow(self, succession: protocol.Succession) -> None:
        if succession != self.succession:
            self.succession = succession
            for listener in tuple(self._fronts.values()):
                listener(succession)

    def _tell(self, text: str) -> None:
        for listener in tuple(self._fronts.values()):
            listener(protocol.Notice(text))

    def fronts(self) -> int:
        """The number of fronts."""
        return len(self._fronts)

    def probe(self, reply: Callable[[], None]) -> None:
        """Let the worker call `reply` between two pieces of work, or at once if it is idle."""
        with self._lock:
            front = next(iter(self._fronts), None)
        if front is None:
            reply()
        else:
            front.between_pieces(reply)

    def leave(self, front: "LocalHost", wait_s: float) -> None:
        """Remove a front."""
        with self._lock:
            self._fronts.pop(front, None)
        if self._alone:
            self.close(wait_s)

    def close(self, wait_s: float) -> None:
        """End after the current piece of work, and free the model; waits at most `wait_s`."""
        self.scheduler.close()
        self._thread.join(wait_s)


class _Handover:
    """A loaded model on its way to the scheduler: taken there once, or closed; None: the scheduler loads it."""

    def __init__(self, model: Model | None, successor: Successor) -> None:
        self._model, self._successor, self._lock = model, successor, threading.Lock()
        self.taken = False

    def take(self) -> Model | None:
        with self._lock:
            self.taken = not self._successor.stopped.is_set()
            return self._successor.settled(self._model) if self.taken and self._model is not None else None

    def drop(self) -> None:
        with self._lock:
            model, self._model = self._model, None
        if model is not None and not self.taken:
            model.close()


class LocalHost:
    """One front's host (`ModelHost`), by its unique `name`: its client of the scheduler, and its workspace."""

    def __init__(
        self,
        server: ModelServer,
        name: str,
        listener: protocol.HostListener,
        settings: Settings,
        folders: Mapping[Path, Settings],
        texts: OpenTexts | None = None,
    ) -> None:
        self._server, self._name, self._settings = server, name, settings
        self._process = psutil.Process()
        texts = texts or OpenTexts()
        self._workspace = FrontWorkspace(
            folders,
            server.stores,
            texts,
            lambda progress: listener(protocol.Indexing(progress.done, progress.total, progress.building)),
            lambda text: listener(protocol.Notice(text)),
        )
        self._elsewhere = ElsewhereSearches(self._workspace.files_at, texts, listener)
        self._client = server.scheduler.join(listener, self._make, enabled=settings.enabled)

    def send(self, command: protocol.Command) -> None:
        """Pass a command to the scheduler's inbox, or to the owner of the files or of the settings."""
        if isinstance(command, protocol.SearchElsewhere):
            self._elsewhere.begin(command)
        elif command.target == "files":
            self._workspace.follow(command)
        elif command.target == "settings":
            self._set(command)
        elif isinstance(command, protocol.Load) and command.near is not None and self.facts().context:
            self.between_pieces(partial(self._read_near, command.near, protocol.Load(command.ticket)))
        else:
            self._client.inbox(Arrival(self._client, command))

    def between_pieces(self, call: Callable[[], None]) -> None:
        """Call a function in the scheduler's thread between two pieces of work."""
        self._client.inbox(Arrival(self._client, call))

    def facts(self) -> protocol.HostFacts:
        """The facts at this moment."""
        info, budgets, loaded = self._client.info(), self._client.budgets, self._client.model.loaded
        return protocol.HostFacts(
            model=info.model if info else "",
            engine=info.name if info else "",
            budget_ms=budgets.by_kind() if budgets else {},
            resident_bytes=self._process.memory_info().rss,
            process_id=self._process.pid,
            fronts=self._server.fronts(),
            turn=self._turn(),
            index_cpu_s=self._server.stores.cpu.seconds,
            succession=self._server.succession.text,
            context=loaded.runtime.prompts.options.context_tokens > 0 if isinstance(loaded, LocalModel) else None,
        )

    def close(self, wait_s: float) -> None:
        """Free the front's resources; waits at most `wait_s`."""
        end = time.monotonic() + wait_s
        self._client.leave()
        self._server.leave(self, wait_s / 2)
        self._workspace.close(max(0.0, end - time.monotonic()))

    def _read_near(self, path: Path, command: protocol.Load) -> None:
        """Handle a command once the code around a path is read, or after `READING_S`; nothing else waits for it."""
        words = self._workspace.words_at(path)

        def wait() -> None:
            if words is not None:
                words.wait_idle(READING_S)
            self.send(command)

        threading.Thread(target=wait, name="fastcoder-reading", daemon=True).start()

    def _set(self, command: protocol.Command) -> None:
        if isinstance(command, protocol.Use):
            self._use(command.settings, command.folders)
        elif isinstance(command, protocol.Enable):
            self._client.switch(enabled=command.enabled)
        else:
            self._server.reload()

    def _use(self, settings: Settings, folders: Mapping[Path, Settings]) -> None:
        before, self._settings = self._settings, settings
        self._workspace.change(folders)
        if model_part(settings) != model_part(before):
            self._server.want(settings)
        elif front_part(settings) != front_part(before):
            self._server.scheduler.refit(self._client, self._make)

    def _turn(self) -> protocol.Turn:
        served = self._server.scheduler.turn_of()
        if served is None or self._client.request is None:
            return ""
        return "own" if served is self._client else "other"

    def _make(self, model: Model) -> Runtime:
        """Make this front's runtime, and start its datastore with the tokenizer; in the scheduler's thread."""
        runtime = self._server.make(model, self._settings, self._around(), self._name)
        model.once_drafting(partial(self._workspace.begin, runtime.tokenizer))
        return runtime

    def _around(self) -> WorkspaceView:
        return self._workspace.surroundings(drafted_from=wants_datastore(self._settings))


def open_alone(
    load: LoadModel,
    make: MakeRuntime,
    listener: protocol.HostListener,
    settings: Settings,
    folders: Mapping[Path, Settings],
    texts: OpenTexts,
) -> LocalHost:
    """Open a model server that ends with its only front (`OpenHost`, except for the first two arguments)."""
    return ModelServer(load, make, settings, cache_folder(), alone=True).open(listener, settings, folders, texts)
