"""The datastore of one workspace's drafters: its live indexes (D_r) and the corpora of common code (D_c).

It starts once a tokenizer is known (`start`); earlier changes are kept. Callers never wait for it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.draft.base import Pinned
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.background import each_once
from fastcoder_lsp.workspace.common_code import CommonCode, Installed
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.inbox import IndexUser
from fastcoder_lsp.workspace.languages import family_of, is_known, language_of
from fastcoder_lsp.workspace.live_index import IndexProgress, LiveIndex
from fastcoder_lsp.workspace.paths import path_of
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.shared_stores import SharedStores
from fastcoder_lsp.workspace.watch import Changed

log = logging.getLogger(__name__)

_MAX_KEYS = 1000


@dataclass(frozen=True, slots=True)
class _TokenizerStores:
    """The stores of one tokenizer: an index for each group of nested folders, in the workspace's order."""

    encoder: Tokenizer
    common: CommonCode
    installed: Installed
    indexes: tuple[LiveIndex, ...]


class Datastore:
    """A workspace's live indexes and the corpora of common code, as drafters read them.

    `report` receives the indexes' progress, `notice` messages for the user, and `changed` what may have changed on the
    disk (see `IndexUser`), all from any thread. `texts` has the open documents' texts, with line feeds as line ends.
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
        self._folders, self._stores, self._report, self._notice = dict(folders), stores, report, each_once(notice)
        self._user = IndexUser(texts or OpenTexts(), self._report_progress, self._notice, changed)
        self._lock = threading.RLock()
        self._keys: dict[str, str] = {}
        self._shapes: dict[TableShape, None] = {}
        self._started: _TokenizerStores | None = None
        self._stopped = False

    def start(self, encoder: Tokenizer) -> None:
        """Start with a model's tokenizer, or switch to another one. Returns at once."""
        with self._lock:
            old = self._started
            if self._stopped or (old is not None and old.encoder.identity == encoder.identity):
                return
            installed = Installed(self._folders, self._notice)
            if old is not None:
                self._stores.leave(old.common, old.installed)
            self._started = _TokenizerStores(encoder, self._stores.join(encoder, installed), installed, ())
            self._open_indexes()
            for shape in self._shapes:
                self._started.common.frozen(shape)

    def stop(self, wait_s: float = 60.0) -> None:
        """Leave the stores; threads that have not ended after `wait_s` end with the process, without harm."""
        with self._lock:
            started, self._started, self._stopped = self._started, None, True
        if started is None:
            return
        end, builder = time.monotonic() + wait_s, self._stores.leave(started.common, started.installed)
        _, endings = self._stores.use_indexes(self._user, started.encoder, {})
        for thread in (*endings, *((builder,) if builder is not None else ())):
            thread.join(max(0.0, end - time.monotonic()))

    def document_changed(self, path: Path) -> None:
        """An open document has another text. Takes microseconds."""
        # The lock prevents an index that is being opened from missing it.
        with self._lock:
            for index in self._indexes():
                index.inbox.document_changed(self._user, path)

    def document_closed(self, path: Path) -> None:
        """The document was closed: the disk holds again."""
        with self._lock:
            for index in self._indexes():
                index.inbox.document_closed(self._user, path)

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Files on the disk changed, as a client reports them."""
        paths = list(paths)
        for index in self._indexes():
            index.inbox.files_changed(paths)

    def follows(self) -> bool:
        """Whether `changed` receives all changes of the folders' files."""
        indexes = self._indexes()
        return bool(indexes) and all(index.follows() for index in indexes)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Replace the folders and their settings."""
        with self._lock:
            if folders == self._folders:
                return
            self._folders = dict(folders)
            if self._started is not None:
                self._open_indexes()

    def pin(self, document: str) -> Pinned:
        """The present state for a decode in the document with this URI, whose own text is searched first.

        Common code is that of its language; a document in an unknown one has all.
        """
        started = self._started
        if started is None:
            return Pinned(frozen=self._frozen)
        path = path_of(document)
        family = family_of(language_of(path)) if path is not None and is_known(path) else ""
        snapshots = [snapshot for index in started.indexes for snapshot in index.pin()]
        common = [store.pin() for store in started.common.stores(started.installed, family)]
        return Pinned(
            repository=Searcher(snapshots, self._key_of(document)) if snapshots else None,
            corpus=Searcher(common) if common else None,
            generation=tuple(snapshot.generation for snapshot in (*snapshots, *common)),
            frozen=partial(self._frozen, family=family),
        )

    def _frozen(self, shape: TableShape, family: str = "") -> FrozenTable | None:
        if shape not in self._shapes:
            with self._lock:
                self._shapes[shape] = None
        started = self._started
        table = None if started is None else started.common.frozen(shape)
        return table if started is not None and started.common.covers(family) else None

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all reported changes can be found and the corpora are ready; for tests and benchmarks."""
        started = self._started
        if started is None:
            return False
        started.common.wait(timeout_s)
        return all(index.inbox.wait_idle(timeout_s) for index in self._indexes())

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

    def _open_indexes(self) -> None:
        assert self._started is not None, "there is no tokenizer yet"
        indexes, _ = self._stores.use_indexes(self._user, self._started.encoder, self._folders)
        self._started = replace(self._started, indexes=indexes)
        self._report_progress()

    def _indexes(self) -> tuple[LiveIndex, ...]:
        return () if (started := self._started) is None else started.indexes

    def _report_progress(self) -> None:
        with self._lock:
            every = [index.progress for index in self._indexes() if index.progress is not None]
            if every:
                building = any(one.building for one in every)
                self._report(IndexProgress(building, sum(one.done for one in every), sum(one.total for one in every)))
