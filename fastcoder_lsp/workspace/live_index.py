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
from fastcoder_lsp.workspace.background import RetryPolicy, SleepDetector, ThreadTimes, lower_priority
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.inbox import BURST, ChangeBatch, Inbox
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.regular import walk
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.watch import EXCLUDE_FILE, NOISY_FOLDERS, Watcher

log = logging.getLogger(__name__)

MAX_IMMEDIATE = 32  # changed files that the first thread stores itself; it leaves more to the second
_WAIT_S = 1.0  # a stopped index ends within milliseconds, unless the disk hangs
_PAUSE_FACTOR = 4  # after storing files, the first thread takes only documents for this many times as long


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The progress of an index in files; `building` while files are still being examined."""

    building: bool
    done: int = 0
    total: int = 0


class LiveIndex:
    """The stores of some folders, kept up to date with the disk and the editors of its users.

    Without `watching`, only its users report changes. It begins after `before`, earlier indexes that end now and may
    have the same folders' stores and watches, but waits only `_WAIT_S` for them. Its threads tell `cpu` their time.
    """

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        encoder: Tokenizer,
        cache: Path,
        *,
        watching: bool = True,
        before: Sequence[threading.Thread] = (),
        cpu: ThreadTimes | None = None,
    ) -> None:
        self.inbox, self._cpu = Inbox(), cpu or ThreadTimes()
        self._folders, self._encoder, self._cache, self._before = dict(folders), encoder, cache, before
        self.progress: IndexProgress | None = None
        self._watcher = Watcher(self.inbox.files_changed, self.inbox.notice) if watching else None
        self._stores: Mapping[Path, Store] = {}
        self._intake: Intake | None = None  # None until the stores are open
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
        encoder = ChunkedEncoder(self._encoder)
        while (batch := self.inbox.take()) is not None:
            began = time.monotonic()
            self._store_changes(batch, encoder)
            self._cpu.tell()
            if batch.paths or batch.folders:
                # A file that is written without end must not be read without end.
                self.inbox.pause(_PAUSE_FACTOR * (time.monotonic() - began))

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
        encoder, wake, end = ChunkedEncoder(self._encoder), SleepDetector(), time.monotonic() + _WAIT_S
        for thread in self._before:
            thread.join(max(0.0, end - time.monotonic()))
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
            self._cpu.tell()

    def _run_round(self, encoder: ChunkedEncoder) -> None:
        inbox, watcher = self.inbox, self._watcher
        intake = self._intake or self._open()
        if self._take_over():
            inbox.rescan()
        if watcher is not None and watcher.repair():
            inbox.rescan(at_once=False)
        if watcher is not None and watcher.incomplete() and inbox.is_scan_old():
            inbox.rescan()
        if inbox.take_scan():
            self._scan(intake, encoder)
        self._store_queued(intake, encoder)
        self._tidy()

    def _open(self) -> Intake:
        """Open the stores of the folders, by their rules."""
        folders = {resolved(root): settings for root, settings in self._folders.items()}
        identity, notice, stores = self._encoder.identity, self.inbox.notice, dict[Path, Store]()
        for root, settings in folders.items():
            place = store_folder(self._cache, root, identity, settings)
            # A reader also works on a disk that cannot be written; `take_over` does the rest.
            stores[root] = store = Store.open(place, identity, str(root), notice, reader=True)
            self._retries[store] = RetryPolicy(self._cache, notice)
        self._stores, intake = stores, Intake(folders, stores, notice)
        self._intake = intake
        self._first.start()
        if self._watcher is not None:
            for root in folders:
                self._watcher.watch(root)
        return intake

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

    def _scan(self, intake: Intake, encoder: ChunkedEncoder) -> None:
        """Scan every file that may be read. Stores that another process writes are left to it."""
        self._tell_changed((), tuple(self._stores))
        began_s, done = time.thread_time(), False
        try:
            if self._watcher is not None:
                self._watcher.retry()
            done = self._scan_all(intake, encoder)
        finally:
            self.inbox.end_scan(time.thread_time() - began_s, done=done)

    def _scan_all(self, intake: Intake, encoder: ChunkedEncoder) -> bool:
        if not any(store.writable for store in self.stores()):
            return True
        self._report(0, 0, building=True)
        paths = []
        for path in intake.files():
            if self.inbox.stopping:
                return False
            paths.append(path)
        intake.remove_others(paths)
        self._store_files(intake, paths, encoder)
        if self.inbox.stopping:
            return False
        for store in self.stores():
            store.mark_complete()
        self._report(len(paths), len(paths), building=False)
        return True

    def _store_queued(self, intake: Intake, encoder: ChunkedEncoder) -> None:
        many = self.inbox.take_queued()
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
            for path in intake.store_all(paths, encoder, progress, lambda: self.inbox.stopping):
                self.inbox.files_changed((path,))
        finally:
            self._report(len(paths), len(paths), building=False)

    def _report(self, done: int, total: int, *, building: bool) -> None:
        self.progress = IndexProgress(building, done, total)
        self._cpu.tell()
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
