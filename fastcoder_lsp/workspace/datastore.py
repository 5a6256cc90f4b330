"""What drafters draft from: the workspace's live index (D_r) and the corpora of common code (D_c), as one thing.

Owns when each of them begins, and which corpora are active: the standard library of the running Python, what is
installed in the workspace, and every corpus that the user built; and the tables that are counted from them. Begins only
when a tokenizer is known (`start`); what is told before is not lost. Nobody who calls it ever waits for it.
"""

import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.draft.corpus_tables import table_of
from fastcoder_lsp.draft.frozen_table import FrozenTable, TableShape
from fastcoder_lsp.draft.store import Pinned
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.index.chunks import Encoder
from fastcoder_lsp.index.corpus import Corpora
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace import corpus_files
from fastcoder_lsp.workspace.live_index import IndexProgress, LiveIndex
from fastcoder_lsp.workspace.priority import lower_priority
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.trouble import Trouble, each_once
from fastcoder_lsp.workspace.uris import path_of

log = logging.getLogger(__name__)

STANDARD_LIBRARY = f"python-{sys.version_info.major}.{sys.version_info.minor}"
_DEPENDENCIES = "installed-"
_RETRY_S = 10.0
_MOST_KEYS = 1000


def is_common(corpus: str) -> bool:
    """Whether a corpus is common code, which the frozen tables count, and not what one workspace has installed."""
    return not corpus.startswith(_DEPENDENCIES)


class Datastore:
    """The workspace's live index and the corpora of common code, as one thing that drafters read.

    Args:
        folders: the workspace's folders with their settings.
        cache: the program's cache folder.
        report: told of the live index's progress, by any thread.
        notice: told what a person should know, by any thread.
        live: False for one question: nothing is watched, and of what is installed in the workspace, which takes minutes
            to read, only what has been read before is drafted from.
    """

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        cache: Path,
        report: Callable[[IndexProgress], None] = lambda _progress: None,
        notice: Callable[[str], None] = log.warning,
        *,
        live: bool = True,
    ) -> None:
        self._folders, self._cache, self._report, self._notice = dict(folders), cache, report, each_once(notice)
        self._watching = live
        self._lock = threading.Lock()
        self._open_texts: dict[Path, str] = {}
        self._keys: dict[str, str] = {}
        self._live: LiveIndex | None = None
        self._identity = ""
        self._corpora: tuple[Store, ...] = ()
        self._common: tuple[Store, ...] = ()
        self._tables: dict[TableShape, FrozenTable | None] = {}
        self._stopping = threading.Event()
        self._builder: threading.Thread | None = None

    def start(self, encoder: Encoder) -> None:
        """Begin with a model's tokenizer, or go on with another one. Returns at once, unless it was another."""
        with self._lock:
            if self._identity == encoder.identity or self._stopping.is_set():
                return
            old, self._identity, self._corpora, self._common = self._live, encoder.identity, (), ()
            self._tables = dict.fromkeys(self._tables)
            self._live = LiveIndex(
                self._folders, encoder, self._cache, self._report, self._notice, watching=self._watching
            )
            for path, text in self._open_texts.items():
                self._live.document_changed(path, text)
            self._live.start()
            folders = self._folders
            build = partial(self._build, encoder, folders)
            self._builder = threading.Thread(target=build, name="corpora", daemon=True)
            self._builder.start()
        if old is not None:
            old.stop()

    def stop(self, wait_s: float = 60.0) -> None:
        """End all threads and close the stores; what has not ended after `wait_s` ends with the process, unharmed."""
        self._stopping.set()
        with self._lock:
            live, builder = self._live, self._builder
            self._live = None
        threads = [builder] if builder is not None else []
        if live is not None:
            threads.append(threading.Thread(target=live.stop, name="index-end", daemon=True))
            threads[-1].start()
        end = time.monotonic() + wait_s
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text; line ends are line feeds. Costs microseconds."""
        # Under the lock, so that `start` neither misses a text nor tells an older one after it.
        with self._lock:
            self._open_texts[path] = text
            if self._live is not None:
                self._live.document_changed(path, text)

    def document_closed(self, path: Path) -> None:
        """A document was closed: the disk's text holds again."""
        with self._lock:
            self._open_texts.pop(path, None)
            if self._live is not None:
                self._live.document_closed(path)

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Files on the disk that appeared, changed or went, as a client tells them."""
        live = self._live
        if live is not None:
            live.files_changed(paths)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Other folders, or other settings for them."""
        with self._lock:
            if folders == self._folders:
                return
            self._folders = dict(folders)
            if self._live is not None:
                self._live.change(folders)

    def pin(self, document: str) -> Pinned:
        """The present state, for a decode in the document with this URI, whose own text is searched first."""
        live, corpora = self._live, self._corpora
        snapshots = live.pin() if live is not None else ()
        common = [store.pin() for store in corpora]
        return Pinned(
            repository=Searcher(snapshots, self._key_of(document)) if snapshots else None,
            corpus=Searcher(common) if common else None,
            generation=tuple(snapshot.generation for snapshot in (*snapshots, *common)),
            frozen=self._frozen,
        )

    def _key_of(self, document: str) -> str:
        """Under which key the stores have it; remembered, for a slow disk is not to be asked at every decode."""
        known = self._keys.get(document)
        if known is None:
            path = path_of(document)
            known = str(resolved(path)) if path is not None else ""
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[document] = known
        return known

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was told can be found and the corpora are there; for tests and benchmarks."""
        builder, live = self._builder, self._live
        if builder is not None:
            builder.join(timeout_s)
        return live is not None and live.settle(timeout_s)

    def _frozen(self, shape: TableShape) -> FrozenTable | None:
        """The corpora's table; the first question for a shape has it made, once the corpora are there."""
        with self._lock:
            if shape not in self._tables:
                self._tables[shape] = None
                if self._builder is not None and not self._stopping.is_set():
                    before = self._builder
                    self._builder = threading.Thread(target=self._count, args=(before,), name="tables", daemon=True)
                    self._builder.start()
            return self._tables[shape]

    def _count(self, before: threading.Thread | None = None) -> None:
        """Make the tables that were asked for and are not there, after the thread `before`."""
        if before is not None:
            lower_priority()
            before.join()
        with self._lock:
            corpora, identity = self._common, self._identity
            wanted = [shape for shape, table in self._tables.items() if table is None]
        for shape in wanted:
            if self._stopping.is_set():
                return
            try:
                table = table_of([store.pin() for store in corpora], self._cache, identity, shape)
            except OSError as error:
                log.warning("a table of common code could not be made: %s", error)
                return
            with self._lock:
                if self._identity == identity:
                    self._tables[shape] = table

    def _build(self, encoder: Encoder, folders: Mapping[Path, Settings]) -> None:
        """Build what is missing, once for all times, and open all corpora of the tokenizer; later, where it fails."""
        lower_priority()
        trouble = Trouble(self._cache, self._notice)
        while not self._stopped(encoder):
            try:
                self._build_all(encoder, folders)
                self._count()
            except (OSError, FastcoderError) as error:
                trouble.met(error if isinstance(error, OSError) else OSError(str(error)))
            else:
                return
            while not trouble.may_try() and not self._stopped(encoder):
                self._stopping.wait(1.0)

    def _build_all(self, encoder: Encoder, folders: Mapping[Path, Settings]) -> None:
        corpora = Corpora(self._cache)
        self._open(corpora, encoder, folders)
        for name, sources, texts in _always(folders):
            wanted = self._watching or is_common(name)
            missing = wanted and not _is_built(corpora, name, sources, encoder)
            while missing and not self._stopped(encoder):
                if corpora.build(name, sources, texts(), encoder, should_stop=lambda: self._stopped(encoder)):
                    break
                # Another process is at it.
                self._stopping.wait(_RETRY_S)
                missing = not _is_built(corpora, name, sources, encoder)
            if wanted:
                self._open(corpora, encoder, folders)

    def _open(self, corpora: Corpora, encoder: Encoder, folders: Mapping[Path, Settings]) -> None:
        """Open every corpus of the tokenizer; of installed code only this workspace's."""
        own = {name for name, _, _ in _always(folders)}
        names = [info.name for info in corpora.infos() if info.identity == encoder.identity]
        wanted = [name for name in names if name in own or is_common(name)]
        stores = {name: corpora.open(name, encoder.identity) for name in wanted}
        with self._lock:
            if not self._stopped(encoder):
                self._corpora = tuple(stores.values())
                self._common = tuple(store for name, store in stores.items() if is_common(name))

    def _stopped(self, encoder: Encoder) -> bool:
        return self._stopping.is_set() or self._identity != encoder.identity


def _always(
    folders: Mapping[Path, Settings],
) -> Iterator[tuple[str, tuple[str, ...], Callable[[], corpus_files.Texts]]]:
    """Name, sources and texts of the corpora that are always there."""
    yield STANDARD_LIBRARY, ("the standard library",), corpus_files.standard_library
    for root, settings in folders.items():
        installed = corpus_files.installed(root) if settings.index_dependencies else ()
        if installed:
            name = _DEPENDENCIES + hashlib.sha256(os.fsencode(resolved(root))).hexdigest()[:16]
            stamps = tuple(f"{folder} at {corpus_files.modified_ns(folder)}" for folder in installed)
            yield name, stamps, partial(corpus_files.dependencies, [root])


def _is_built(corpora: Corpora, name: str, sources: tuple[str, ...], encoder: Encoder) -> bool:
    return any((i.name, i.identity, i.sources) == (name, encoder.identity, sources) for i in corpora.infos())
