"""The live index of a workspace: its folders' stores, kept up to date with the disk and the editor.

Other threads put messages into its inbox. Two threads work on the stores. The first ("index") takes changes, so that an
edit can be found within milliseconds. It leaves long work to the second ("index-background"): opening stores, the scan
of the folders, sealing, merging, following another process. If the disk fails a write, the inbox stays bounded, the
work is retried later, and what is stored can still be searched.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.background import RetryPolicy, SleepDetector, lower_priority
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.inbox import BURST, ChangeBatch, Inbox
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.regular import walk
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.watch import EXCLUDE_FILE, NOISY_FOLDERS, Watcher

log = logging.getLogger(__name__)

MAX_IMMEDIATE = 32  # changed files that the first thread stores itself; it leaves more to the second
_PAUSE_FACTOR = 4  # after storing files, the first thread takes only documents for this many times as long


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The progress of an index in files; `building` while files are still being examined."""

    building: bool
    done: int = 0
    total: int = 0


class LiveIndex:
    """The stores of a workspace's folders, kept up to date with the disk and the editor.

    Without `watching`, only its users report changes.
    """

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        encoder: Tokenizer,
        cache: Path,
        *,
        watching: bool = True,
    ) -> None:
        self.inbox = Inbox(folders)
        self._encoder, self._cache = encoder, cache
        self.progress: IndexProgress | None = None
        self._watcher = Watcher(self.inbox.files_changed, self.inbox.notice) if watching else None
        self._intake: Intake | None = None  # by the newest rules; written under the inbox's lock
        self._stores: Mapping[Path, Store] = {}  # replaced as a whole
        self._retry, self._retries = RetryPolicy(cache, self.inbox.notice), dict[Store, RetryPolicy]()
        self._sealed: dict[Store, int] = {}
        self._first, self._second = (
            threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
            for run, name in ((self._follow_changes, "index"), (self._work, "index-background"))
        )

    def start(self) -> None:
        """Start the second thread, which starts the first once the stores are open."""
        self._second.start()

    def stop(self) -> None:
        """End both threads and close the stores."""
        self.inbox.stop()
        for thread in (self._second, self._first):
            if thread.is_alive():
                thread.join()
        if self._watcher is not None:
            self._watcher.close()
        for store in self.stores():
            _close(store)

    def stores(self) -> tuple[Store, ...]:
        """The stores that are open now."""
        return tuple(self._stores.values())

    def pin(self) -> tuple[StoreSnapshot, ...]:
        """The present state of every folder's store, for a `Searcher`."""
        return tuple(store.pin() for store in self.stores())

    def follows(self) -> bool:
        """Whether users hear of all changes: the watcher reports them, or scans find them."""
        return self._watcher is not None and self._first.is_alive() and self._second.is_alive()

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception:
            log.exception("the index has stopped")
            self.inbox.notice("A bug stopped the index of this workspace (see the log). Suggestions continue.")

    def _tell_changed(self, files: Sequence[Path], folders: Sequence[Path]) -> None:
        for user in self.inbox.users():
            user.changed(files, folders)

    # In the first thread ----------------------------------------------------------------------------------------------

    def _follow_changes(self) -> None:
        encoder, ruled = ChunkedEncoder(self._encoder), None
        while (batch := self.inbox.take()) is not None:
            if batch.requested is not None and batch.requested is not ruled:
                ruled = batch.requested
                self._restrict(ruled)
            began = time.monotonic()
            self._store_changes(batch, encoder)
            if batch.paths or batch.folders:
                # A file that is written without end must not be read without end.
                self.inbox.pause(_PAUSE_FACTOR * (time.monotonic() - began))

    def _restrict(self, requested: Mapping[Path, Settings]) -> None:
        """Follow newly requested rules in the stores that are open, whatever the second thread is doing."""
        folders = {resolved(root): settings for root, settings in requested.items()}
        stores = {root: store for root, store in self._stores.items() if root in folders}
        intake = Intake({root: folders[root] for root in stores}, stores)
        with self.inbox.lock:
            if self.inbox.requested is requested:
                self._intake = intake

    def _store_changes(self, batch: ChangeBatch, encoder: ChunkedEncoder) -> None:
        intake = self._intake
        assert intake is not None, "the stores are not open"
        for path, text in batch.documents.items():
            if text is None:
                intake.drop_overlay(path)
            else:
                intake.overlay(path, text, encoder)
        paths = dict.fromkeys((*batch.paths, *intake.below(batch.folders)))
        walks = (walk(folder, lambda path: path.name not in NOISY_FOLDERS) for folder in batch.folders)
        for path in chain.from_iterable(walks):
            if len(paths) > BURST:
                break
            # They may have appeared before their folder was watched.
            paths[path] = None
        ruled = any(path.name in IGNORE_FILES or path.parts[-3:] == EXCLUDE_FILE for path in paths)
        if paths or batch.folders:
            self._tell_changed(tuple(paths), tuple(self._stores) if ruled else batch.folders)
        if len(paths) <= MAX_IMMEDIATE:
            intake.store_few(paths, encoder)
        else:
            self.inbox.queue(paths)
        self.inbox.count_changes(len(paths))
        if ruled:
            self.inbox.rescan()

    # In the second thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        lower_priority()
        encoder, wake = ChunkedEncoder(self._encoder), SleepDetector()
        while not self.inbox.stopping:
            wake.begin()
            due = self.inbox.next_round(may_try=self._retry.may_try())
            if wake.slept():  # meanwhile other machines or systems may have written
                self.inbox.rescan(at_once=False)
            if not due:
                continue
            try:
                self._run_round(encoder)
            except OSError as error:
                self._retry.failed(error)
            else:
                self._retry.succeeded()

    def _run_round(self, encoder: ChunkedEncoder) -> None:
        inbox, watcher = self.inbox, self._watcher
        if (requested := inbox.requested) is not None:
            self._open(requested)
            if inbox.interrupted():
                return
        if self._take_over():
            inbox.rescan()
        if watcher is not None and watcher.repair():
            inbox.rescan(at_once=False)
        if watcher is not None and watcher.incomplete() and inbox.is_scan_old():
            inbox.rescan()
        if inbox.take_scan():
            self._scan(encoder)
        self._store_queued(encoder)
        self._tidy()

    def _open(self, requested: Mapping[Path, Settings]) -> None:
        """Open the stores of these folders, by their rules, and close others."""
        folders = {resolved(root): settings for root, settings in requested.items()}
        before, stores = self._stores, dict[Path, Store]()
        for root, settings in folders.items():
            place = store_folder(self._cache, root, self._encoder.identity, settings)
            if root in before and before[root].folder == place:
                stores[root] = before[root]
            else:
                # A reader also works on a disk that cannot be written; `take_over` does the rest.
                stores[root] = Store.open(place, self._encoder.identity, str(root), self.inbox.notice, reader=True)
        of = stores.values()
        self._retries = {store: self._retries.get(store) or RetryPolicy(self._cache, self.inbox.notice) for store in of}
        self._sealed = {store: done for store, done in self._sealed.items() if store in self._retries}
        self._stores = stores
        intake = Intake(folders, stores, self.inbox.notice)
        with self.inbox.lock:
            if self.inbox.opened(requested):
                self._intake = intake
        if self._intake is not None and self._first.ident is None:
            self._first.start()
        for root, store in before.items():
            if self._watcher is not None and root not in folders:
                self._watcher.unwatch(root)
            if stores.get(root) is not store:
                _close(store)
        for root in folders:
            if self._watcher is not None:
                self._watcher.watch(root)

    def _take_over(self) -> bool:
        """Become the writer of stores that have none; returns whether everything must be scanned because of it."""
        taken = False
        for store, retry in self._retries.items():
            if store.writable or retry.may_try():
                try:
                    taken |= store.reclaim() or store.take_over()
                except OSError as error:
                    retry.failed(error)
                else:
                    retry.succeeded()
        return taken

    def _scan(self, encoder: ChunkedEncoder) -> None:
        """Scan every file that may be read. Stores that another process writes are left to it."""
        self._tell_changed((), tuple(self._stores))
        began_s, done = time.thread_time(), False
        try:
            if self._watcher is not None:
                self._watcher.retry()
            done = self._scan_all(encoder)
        finally:
            self.inbox.end_scan(time.thread_time() - began_s, done=done)

    def _scan_all(self, encoder: ChunkedEncoder) -> bool:
        intake = self._intake
        if intake is None or not any(store.writable for store in self.stores()):
            return True
        self._report(0, 0, building=True)
        paths = []
        for path in intake.files():
            if self.inbox.interrupted():
                return False
            paths.append(path)
        intake.remove_others(paths)
        self._store_files(intake, paths, encoder)
        if self.inbox.interrupted():
            return False
        for store in self.stores():
            store.mark_complete()
        self._report(len(paths), len(paths), building=False)
        return True

    def _store_queued(self, encoder: ChunkedEncoder) -> None:
        many = self.inbox.take_queued()
        intake = self._intake
        if many and intake is not None:
            try:
                self._store_files(intake, many, encoder)
            except OSError:
                self.inbox.queue(many)
                raise

    def _store_files(self, intake: Intake, paths: Sequence[Path], encoder: ChunkedEncoder) -> None:
        if not paths:
            return
        try:
            progress = partial(self._report, building=True)
            for path in intake.store_all(paths, encoder, progress, self.inbox.interrupted):
                self.inbox.files_changed((path,))
        finally:
            self._report(len(paths), len(paths), building=False)

    def _report(self, done: int, total: int, *, building: bool) -> None:
        self.progress = IndexProgress(building, done, total)
        for user in self.inbox.users():
            user.progressed()

    def _tidy(self) -> None:
        """Follow other processes; seal and merge."""
        for store in self.stores():
            own = store.in_memory() if not store.writable else []
            if store.follow():
                # Two processes may have read different texts: read the disk again.
                self.inbox.files_changed(map(Path, own))
            generation = store.pin().generation
            if store.writable and generation != self._sealed.get(store):
                store.seal()
                while store.merge(self.inbox.has_urgent_work):
                    pass
                # Not the generation after it: files saved meanwhile must be sealed too.
                self._sealed[store] = generation


def _close(store: Store) -> None:
    """Close a store; log a failed last write."""
    try:
        store.close()
    except OSError as error:
        log.warning("%s could not be brought up to date at the end: %s", store.folder, error)
