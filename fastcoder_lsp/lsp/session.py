"""One client's session: its documents, folders, settings, and the service that answers it.

Owns the state that the handlers share, and what happens to all of it when settings or folders change. Lives on the
event loop's thread; the scheduler's changes it only through `call_soon_threadsafe`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.completion.host import HostListener
from fastcoder_lsp.completion.service import CompletionService
from fastcoder_lsp.completion.status import Status
from fastcoder_lsp.config import Problem, Settings, cache_folder
from fastcoder_lsp.core import Late, Progress
from fastcoder_lsp.lsp.capabilities import offers_popup
from fastcoder_lsp.lsp.client import Client
from fastcoder_lsp.lsp.closed import ClosedDocuments
from fastcoder_lsp.lsp.configuration import Configuration
from fastcoder_lsp.lsp.endpoint import Endpoint
from fastcoder_lsp.lsp.late import tell_late
from fastcoder_lsp.lsp.logs import configure_logging
from fastcoder_lsp.lsp.outcomes import Outcomes
from fastcoder_lsp.lsp.registration import Registrar
from fastcoder_lsp.lsp.status import Reporter
from fastcoder_lsp.lsp.traces import Traces
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.parts import Runtime, Surroundings
from fastcoder_lsp.scheduling.direct import DirectHost
from fastcoder_lsp.workspace.accepts import Accepts
from fastcoder_lsp.workspace.documents import Documents
from fastcoder_lsp.workspace.folders import Folder, Folders
from fastcoder_lsp.workspace.rules import ReadingRules
from fastcoder_lsp.workspace.uris import path_of

if TYPE_CHECKING:
    from fastcoder_lsp.workspace.datastore import Datastore
    from fastcoder_lsp.workspace.live_index import IndexProgress

logger = logging.getLogger(__name__)

Load = Callable[[Settings, Progress, Surroundings], Runtime]
"""Makes a model ready."""
SHUTDOWN_S = 1.0
"""What the worker gets to stop in order; an editor kills a server that takes longer than two seconds."""


class Session:
    """What the server knows of one client.

    Args:
        endpoint: the connection.
        client: what the client can do.
        configuration: holds the layers that are known at the start.
        folders: the workspace's folders.
        load: makes a model ready, as settings say; called in the service's worker.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: Client,
        configuration: Configuration,
        folders: Folders,
        load: Load,
    ) -> None:
        self.endpoint = endpoint
        self.client = client
        self.configuration = configuration
        self.folders = folders
        self.documents = Documents()
        self.accepts = Accepts()
        self.traces = Traces()
        self.reporter = Reporter(endpoint)
        self.outcomes = Outcomes(self.reporter)
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._rules: dict[str | None, ReadingRules] = {}
        self._open_texts: dict[Path, str] = {}
        self._closed_documents = ClosedDocuments(self._loop, self._drop)
        self._switched: bool | None = None
        self._closed = False
        self._reported: set[Problem] = set()
        self._resolve()
        self._running = self.settings()
        self._datastore: Datastore | None = None
        self.registrar = Registrar(endpoint, client, popup=offers_popup(client, popup=self.wants_popup()))
        self.service = CompletionService(
            self._open_host,
            self._on_status,
            enabled=self._running.enabled,
            on_late=self._on_late,
        )

    def _open_host(self, listener: HostListener) -> DirectHost:
        load = partial(self._load_all, self._running)
        self._host = DirectHost(listener, load, enabled=self._running.enabled)
        return self._host

    def settings(self, folder: Folder | None = None) -> Settings:
        """The settings that hold in a folder; without one, the session's."""
        return self.configuration.settings(folder)

    def wants_popup(self) -> bool:
        """Whether the settings ask, in any folder, for suggestions in the completion menu too."""
        return any(self.settings(folder).popup_enabled for folder in (None, *self.folders))

    def folder_of(self, uri: str) -> Folder | None:
        """The workspace folder that holds a document."""
        return self.folders.holding(path_of(uri))

    def rules(self, folder: Folder | None) -> ReadingRules:
        """What may be read in a folder."""
        return self._rules.get(folder.uri if folder else None, self._rules[None])

    # What changes everything --------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Settings, settings files or folders may have changed: work out what holds now, and act on it."""
        self._resolve()
        settings = self.settings()
        if _runtime_part(settings) != _runtime_part(self._running):
            self._host.load_runtime = partial(self._load_all, settings)
            self.service.reload()
        if settings.enabled != self._running.enabled:
            self._switched = None
            self.service.set_enabled(settings.enabled)
        self._running = settings
        if self._datastore is not None:
            self._datastore.change(self._folder_settings())
        self.registrar.offer_popup(wanted=self.wants_popup())

    def toggle(self) -> bool:
        """Switch completion off or on again, until the settings say something new; whether it is on now."""
        self._switched = not (self._running.enabled if self._switched is None else self._switched)
        self.service.set_enabled(self._switched)
        return self._switched

    def completes(self, settings: Settings) -> bool:
        """Whether there is completion under these settings, the user's own switch being stronger."""
        return settings.enabled if self._switched is None else self._switched

    def reload(self) -> None:
        """Read settings files anew and load the model again at the next request."""
        self.refresh()
        self._host.load_runtime = partial(self._load_all, self._running)
        self.service.reload()

    def close(self) -> None:
        """The session ends; the service may take a moment to stop."""
        self._closed = True
        self._closed_documents.stop()
        self.service.shutdown(wait_s=SHUTDOWN_S / 2)
        if self._datastore is not None:
            self._datastore.stop(wait_s=SHUTDOWN_S / 2)

    # Documents that come and go -----------------------------------------------------------------------------------

    def document_opened(self, uri: str, text: str) -> None:
        """If a document with this text has just been closed, it was renamed: what is kept for it goes along."""
        self.document_changed(uri)
        old = self._closed_documents.opened(uri, text)
        if old is not None and old != uri:
            self._rename(old, uri)

    def document_changed(self, uri: str) -> None:
        """The datastore and the context follow what is typed; a notebook's cells are no files."""
        document = self.documents.get(uri)
        path = path_of(uri) if uri.startswith("file:") else None
        if document is None or path is None:
            return
        self._open_texts[path] = document.clean_text
        if self._datastore is not None:
            self._datastore.document_changed(path, document.clean_text)

    def files_changed(self, uris: Iterable[str]) -> None:
        """Files on the disk that the client has seen change."""
        if self._datastore is not None:
            self._datastore.files_changed([path for uri in uris if (path := path_of(uri)) is not None])

    def document_closed(self, uri: str, text: str) -> None:
        """Drop what is kept for it, unless it turns out to be renamed."""
        self.accepts.closed(uri)
        self.traces.forget(uri)
        path = path_of(uri) if uri.startswith("file:") else None
        if path is not None:
            self._open_texts.pop(path, None)
            if self._datastore is not None:
                self._datastore.document_closed(path)
        self._closed_documents.closed(uri, text)

    def document_renamed(self, old: str, new: str) -> None:
        """The client says so: what is kept goes along, or would have gone already."""
        self._closed_documents.keep(old)
        self._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        self.outcomes.reasons.rename(old, new)
        self.service.document_renamed(old, new)

    def _drop(self, uri: str) -> None:
        self.outcomes.reasons.forget(uri)
        self.service.document_closed(uri)

    # ------------------------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        new = [problem for problem in self.configuration.resolve(self.folders) if problem not in self._reported]
        if new:
            self._reported.update(new)
            self.reporter.notice("settings that were not taken:\n" + "\n".join(map(str, new)))
        settings = self.settings()
        configure_logging(settings.log_file, settings.log_level)
        roots = self.folders.paths()
        rules: dict[str | None, ReadingRules] = {None: ReadingRules(roots, settings)}
        rules |= {folder.uri: ReadingRules(roots, self.settings(folder)) for folder in self.folders}
        self._rules = rules  # at once: the worker looks into it

    def _folder_settings(self) -> dict[Path, Settings]:
        return {folder.path: self.settings(folder) for folder in self.folders}

    def _load_all(self, settings: Settings, progress: Progress) -> Runtime:
        """In the scheduler's thread: the model, and with its tokenizer the datastore, if anybody drafts from it."""
        # Late, as below, because it brings a compiler along.
        from fastcoder_lsp.draft.registry import reads_datastore  # noqa: PLC0415

        store, wanted = self._datastore, settings.index_enabled and reads_datastore(settings.drafter)
        if store is not None and not wanted:
            self._soon(partial(self._close_datastore, store))
            store = None
        elif store is None and wanted:
            from fastcoder_lsp.workspace.datastore import Datastore  # noqa: PLC0415
            from fastcoder_lsp.workspace.shared_stores import SharedStores  # noqa: PLC0415

            store = Datastore(self._folder_settings(), SharedStores(cache_folder()), self._on_indexing, self._on_notice)
        context = RepositoryContext(self._readable, lambda: dict(self._open_texts))
        around = Surroundings(None if store is None else store.pin, self._workspace(), context)
        runtime = self._load(settings, progress, around)
        if store is not None:
            store.start(runtime.tokenizer)
            self._soon(partial(self._open_datastore, store))
        return runtime

    def _readable(self, path: Path) -> ReadableFolder | None:
        """From the scheduler's thread: where code for the prompt may come from, and by which rules."""
        folder = self.folders.holding(path)
        if folder is None or not self.settings(folder).context_enabled:
            return None
        return ReadableFolder(folder.path, self.rules(folder))

    def _workspace(self) -> str:
        """The name under which is kept what is learnt of this workspace."""
        return "\n".join(sorted(map(str, self.folders.paths())))

    def _open_datastore(self, store: "Datastore") -> None:
        """From now on the datastore is told of everything; what was open before is told now."""
        if self._closed:
            store.stop(wait_s=0)
        elif self._datastore is not store:
            if self._datastore is not None:  # two loads before the loop came to the first one's: the later one drafts
                self._datastore.stop(wait_s=0)
            self._datastore = store
            store.change(self._folder_settings())
            for document in self.documents:
                self.document_changed(document.uri)

    def _close_datastore(self, store: "Datastore") -> None:
        """Nobody drafts from it any longer; its threads end by themselves."""
        if self._datastore is store:
            self._datastore = None
            store.stop(wait_s=0)

    def _on_indexing(self, progress: "IndexProgress") -> None:
        """Report the index's progress; called by any thread."""
        self._soon(partial(self.reporter.indexing, progress.done, progress.total, building=progress.building))

    def _on_notice(self, text: str) -> None:
        """Report what a person should know; called by any thread."""
        self._soon(partial(self.reporter.notice, text))

    def _on_late(self, late: Late) -> None:
        """Tell the client of a late suggestion; called by the service's worker."""
        self._soon(partial(tell_late, self.endpoint, self.client, self.documents, late))

    def _on_status(self, status: Status) -> None:
        """Report the status; called by any thread."""
        self._soon(partial(self.reporter.status, status))

    def _soon(self, call: Callable[[], object]) -> None:
        """From any thread: on the event loop. Once that is closed there is nobody to tell or to draft for."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


def _runtime_part(settings: Settings) -> tuple[object, ...]:
    """What a loaded model was made from."""
    return (
        settings.model,
        settings.engine,
        settings.threads,
        settings.context_tokens,
        settings.memory_kv_mb,
        settings.drafter,
        settings.index_enabled,
        settings.context_enabled,
    )
