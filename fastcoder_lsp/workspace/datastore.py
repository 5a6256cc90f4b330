"""The datastore of one workspace's drafters: its live indexes (D_r) and the corpora of common code (D_c).

It starts once a tokenizer is known (`start`); earlier changes are kept. Callers never wait for it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.background import each_once
from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.live_index import IndexProgress, LiveIndex
from fastcoder_lsp.workspace.paths import path_of
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.shared_stores import SharedIndex, SharedStores, group_nested
from fastcoder_lsp.workspace.watch import Changed

log = logging.getLogger(__name__)

_MAX_KEYS = 1000


@dataclass(frozen=True, slots=True)
class _TokenizerStores:
    """The stores of one tokenizer: an index for each group of folders, in the workspace's order."""

    encoder: Tokenizer
    common: CommonCode
    installed: Installed
    indexes: Mapping[tuple[Path, ...], SharedIndex]


class Datastore:
    """A workspace's live indexes and the corpora of common code, as drafters read them.

    `report` receives the indexes' progress, `notice` messages for the user, and `changed` what may have changed on the
    disk (see `LiveIndex`), all from any thread.
    """

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        stores: SharedStores,
        report: Callable[[IndexProgress], None] = lambda _progress: None,
        notice: Callable[[str], None] = log.warning,
        texts: OpenTexts | None = None,
        changed: Changed = lambda _files, _folders: None,
    ) -> None:
        self._changed = changed
        self._folders, self._stores, self._report, self._notice = dict(folders), stores, report, each_once(notice)
        self._lock = threading.Lock()
        self._texts = texts or OpenTexts()
        self._keys: dict[str, str] = {}
        self._shapes: dict[TableShape, None] = {}
        self._started: _TokenizerStores | None = None
        self._progress: dict[SharedIndex, IndexProgress] = {}
        self._stopped = False

    def start(self, encoder: Tokenizer) -> None:
        """Start with a model's tokenizer, or switch to another one. Returns at once."""
        with self._lock:
            old = self._started
            if self._stopped or (old is not None and old.encoder.identity == encoder.identity):
                return
            installed = Installed(self._folders, self._notice)
            if old is not None:
                self._leave(old)
            self._started = _TokenizerStores(encoder, self._stores.join(encoder, installed), installed, {})
            self._open_indexes()
            for shape in self._shapes:
                self._started.common.frozen(shape)

    def stop(self, wait_s: float = 60.0) -> None:
        """Leave the stores; threads that have not ended after `wait_s` end with the process, without harm."""
        with self._lock:
            started, self._started, self._stopped = self._started, None, True
        if started is None:
            return
        threads, end = self._leave(started), time.monotonic() + wait_s
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def document_changed(self, path: Path, text: str) -> None:
        """Put an open document's text, with line feeds as line ends. Takes microseconds."""
        # The lock prevents `start` from missing this text, or reporting an older one after it.
        with self._lock:
            self._texts.put(path, text)
            for index in self._indexes():
                index.document_changed(path, text)

    def document_closed(self, path: Path) -> None:
        """The document was closed: the disk holds again."""
        with self._lock:
            self._texts.remove(path)
            for index in self._indexes():
                index.document_closed(path)

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Files on the disk changed, as a client reports them."""
        paths = list(paths)
        for index in self._live():
            index.inbox.files_changed(paths)

    def follows(self) -> bool:
        """Whether `changed` receives all changes of the folders' files."""
        live = self._live()
        return bool(live) and all(index.follows() for index in live)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Replace the folders and their settings."""
        with self._lock:
            if folders == self._folders:
                return
            self._folders = dict(folders)
            if self._started is not None:
                self._open_indexes()

    def pin(self, document: str) -> Pinned:
        """The present state for a decode in the document with this URI, whose own text is searched first."""
        started = self._started
        if started is None:
            return Pinned(frozen=self._frozen)
        snapshots = [snapshot for index in self._live() for snapshot in index.pin()]
        common = [store.pin() for store in started.common.stores(started.installed)]
        return Pinned(
            repository=Searcher(snapshots, self._key_of(document)) if snapshots else None,
            corpus=Searcher(common) if common else None,
            generation=tuple(snapshot.generation for snapshot in (*snapshots, *common)),
            frozen=self._frozen,
        )

    def _frozen(self, shape: TableShape) -> FrozenTable | None:
        if shape not in self._shapes:
            with self._lock:
                self._shapes[shape] = None
        started = self._started
        return None if started is None else started.common.frozen(shape)

    def settle(self, timeout_s: float) -> bool:
        """Wait until all reported changes can be found and the corpora are ready; for tests and benchmarks."""
        started = self._started
        if started is None:
            return False
        started.common.wait(timeout_s)
        return all(index.inbox.settle(timeout_s) for index in self._live())

    def _key_of(self, document: str) -> str:
        """The document's key in the stores, cached because a decode must not wait for a slow disk."""
        known = self._keys.get(document)
        if known is None:
            path = path_of(document)
            known = str(resolved(path)) if path is not None else ""
            if len(self._keys) >= _MAX_KEYS:
                self._keys.clear()
            self._keys[document] = known
        return known

    def _indexes(self) -> tuple[SharedIndex, ...]:
        return () if (started := self._started) is None else tuple(started.indexes.values())

    def _live(self) -> list[LiveIndex]:
        return [index for shared in self._indexes() if (index := shared.live) is not None]

    def _open_indexes(self) -> None:
        """Open an index for each group of folders; indexes whose folders stay are kept."""
        assert self._started is not None, "there is no tokenizer yet"
        started, before, indexes = self._started, dict(self._started.indexes), dict[tuple[Path, ...], SharedIndex]()
        for group in group_nested(self._folders):
            roots = tuple(group)
            kept = next((of for of in before if not set(of).isdisjoint(roots)), None)
            if kept is not None:
                indexes[roots] = before.pop(kept)
                indexes[roots].change(group)
            else:
                indexes[roots] = self._open_index(group, started.encoder)
        for index in before.values():
            index.close()
            self._progress.pop(index, None)
        self._started = _TokenizerStores(started.encoder, started.common, started.installed, indexes)

    def _open_index(self, folders: Mapping[Path, Settings], encoder: Tokenizer) -> SharedIndex:
        index = SharedIndex(self._stores, folders, encoder, self._on_progress, self._notice, self._changed, self._texts)
        for path, text in self._texts.copy().items():
            index.document_changed(path, text)
        return index

    def _on_progress(self, index: SharedIndex, progress: IndexProgress) -> None:
        self._progress[index] = progress
        every = tuple(self._progress.values())
        building = any(one.building for one in every)
        self._report(IndexProgress(building, sum(one.done for one in every), sum(one.total for one in every)))

    def _leave(self, started: _TokenizerStores) -> list[threading.Thread]:
        endings = [self._stores.leave(started.common, started.installed)]
        for index in started.indexes.values():
            endings.append(index.close())
            self._progress.pop(index, None)
        return [thread for thread in endings if thread is not None]
