"""The live index of a workspace: its folders' stores, kept up to date with the disk and the editor.

Two threads work on the stores. The first (`EditFollower`) takes changes from the inbox, so that an edit can be found
within milliseconds. It leaves long work to the second through the backlog: the first scan of the folders, sealing,
merging, following another process. If the disk fails a write, the queues stay bounded, the work is retried later, and
what is stored can still be searched.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.background import RetryPolicy, SleepDetector, each_once, lower_priority
from fastcoder_lsp.workspace.backlog import BURST, Backlog, ChangeBatch, Inbox
from fastcoder_lsp.workspace.folders import store_folder
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.regular import walk
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.watch import EXCLUDE_FILE, NOISY_FOLDERS, Changed, Watcher

MAX_IMMEDIATE = 32  # changed files that the first thread stores itself; it leaves more to the second
_PAUSE_FACTOR = 4  # after storing files, the first thread takes only documents for this many times as long


class OpenStores:
    """The open stores. `by_root` is replaced as a whole when the folders change.

    `intake` stores files by the rules of the open folders; None before the first are open.
    """

    def __init__(self, cache: Path, identity: str, notice: Callable[[str], None]) -> None:
        self._cache, self._identity, self._notice = cache, identity, notice
        self.by_root: Mapping[Path, Store] = {}
        self.intake: Intake | None = None
        self._retries: dict[Store, RetryPolicy] = {}
        self._tidied: dict[Store, int] = {}

    def all(self) -> tuple[Store, ...]:
        """The stores that are open now."""
        return tuple(self.by_root.values())

    def open_for(self, folders: Mapping[Path, Settings]) -> Mapping[Path, Store]:
        """Open the stores of these folders, by their rules; returns the other open ones, for the caller to close."""
        before, stores = self.by_root, dict[Path, Store]()
        for root, settings in folders.items():
            place = store_folder(self._cache, root, self._identity, settings)
            if root in before and before[root].folder == place:
                stores[root] = before[root]
            else:
                # A reader also works on a disk that cannot be written; `take_over` does the rest.
                stores[root] = Store.open(place, self._identity, str(root), self._notice, reader=True)
        self._retries = {
            store: self._retries.get(store) or RetryPolicy(self._cache, self._notice) for store in stores.values()
        }
        self._tidied = {store: done for store, done in self._tidied.items() if store in self._retries}
        self.by_root = stores
        return {root: store for root, store in before.items() if stores.get(root) is not store}

    def take_over(self) -> bool:
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

    def tidy(self, changed: Callable[[Iterable[Path]], None], interrupted: Callable[[], bool]) -> None:
        """Follow other processes; seal and merge. After following, files held in memory here go to `changed`."""
        for store in self.all():
            own = store.in_memory() if not store.writable else []
            if store.follow():
                # Two processes may have read different texts: read the disk again.
                changed(map(Path, own))
            generation = store.pin().generation
            if store.writable and generation != self._tidied.get(store):
                store.seal()
                while store.merge(interrupted):
                    pass
                # Not the generation after it: files saved meanwhile must be sealed too.
                self._tidied[store] = generation


def close(store: Store) -> None:
    """Close a store; log a failed last write."""
    try:
        store.close()
    except OSError as error:
        log.warning("%s could not be brought up to date at the end: %s", store.folder, error)


class EditFollower:
    """The first thread: stores changes from the inbox within milliseconds."""

    def __init__(
        self, encoder: Tokenizer, inbox: Inbox, backlog: Backlog, stores: OpenStores, changed: Changed
    ) -> None:
        self._encoder, self._inbox, self._backlog, self._stores = encoder, inbox, backlog, stores
        self._changed = changed

    def run(self) -> None:
        """Run until the backlog is stopped."""
        encoder = ChunkedEncoder(self._encoder)
        backlog, stores = self._backlog, self._stores
        intake, of = stores.intake, (backlog.requested, stores.intake)
        while True:
            with backlog.lock:
                # Until the stores are open, changes wait in the inbox.
                backlog.lock.wait_for(lambda: backlog.stopping or stores.intake is not None)
            batch = self._inbox.take()
            with backlog.lock:
                if backlog.stopping:
                    return
                requested, opened = backlog.requested, stores.intake
            if intake is None or requested is not of[0] or opened is not of[1]:
                intake, of = opened if requested is None else self._intake_for(requested), (requested, opened)
            assert intake is not None
            began = time.monotonic()
            self._apply(intake, batch, encoder)
            if batch.paths or batch.folders:
                # A file that is written without end must not be read without end.
                self._inbox.pause(_PAUSE_FACTOR * (time.monotonic() - began))
            for seen in batch.waiting:
                # Storing changes may have queued more.
                seen.set() if self._inbox.empty() else self._inbox.wait_for_empty(seen)

    def _intake_for(self, requested: Mapping[Path, Settings]) -> Intake:
        """An intake by the newest rules, for the open stores, whatever the second thread is doing."""
        folders = {resolved(root): settings for root, settings in requested.items()}
        stores = {root: store for root, store in self._stores.by_root.items() if root in folders}
        return Intake({root: folders[root] for root in stores}, stores)

    def _apply(self, intake: Intake, batch: ChangeBatch, encoder: ChunkedEncoder) -> None:
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
        everything = self._backlog.count_changes(len(paths)) or ruled or batch.lost
        if paths or batch.folders:
            self._changed(tuple(paths), tuple(self._stores.by_root) if ruled else batch.folders)
        few = len(paths) <= MAX_IMMEDIATE
        if few:
            intake.store_few(paths, encoder)
        if everything or not few:
            self._backlog.enqueue(() if few else paths, everything=everything, at_once=ruled)
        if ruled or batch.lost:
            self._inbox.requeue_documents()


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The progress of an index in files; `building` while files are still being examined."""

    building: bool
    done: int = 0
    total: int = 0


class LiveIndex:
    """The stores of a workspace's folders, kept up to date with the disk and the editor.

    Any thread may call `report` and `notice`; a message comes once. `changed` receives the files and folders that may
    have changed, before they are stored; a workspace folder, if anything in it may have. Without `watching`,
    `files_changed` and `rescan` report changes.
    """

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        encoder: Tokenizer,
        cache: Path,
        report: Callable[[IndexProgress], None] = lambda _progress: None,
        notice: Callable[[str], None] = log.warning,
        changed: Changed = lambda _files, _folders: None,
        *,
        watching: bool = True,
    ) -> None:
        self._changed = changed
        self._encoder, self._report, self._notice = encoder, report, each_once(notice)
        self._inbox = Inbox()
        self._watcher = Watcher(self._inbox.changed, self._notice) if watching else None
        self._retry = RetryPolicy(cache, self._notice)
        self._stores = OpenStores(cache, encoder.identity, self._notice)
        self._backlog = Backlog(folders, self._retry.may_try)
        follower = EditFollower(encoder, self._inbox, self._backlog, self._stores, changed)
        self._threads = (
            threading.Thread(target=self._guarded, args=(follower.run,), name="index", daemon=True),
            threading.Thread(target=self._guarded, args=(self._run_background,), name="index-background", daemon=True),
        )

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads and close the stores."""
        self._backlog.stop()
        self._inbox.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        if self._watcher is not None:
            self._watcher.close()
        for store in self.stores():
            close(store)

    def pin(self) -> tuple[StoreSnapshot, ...]:
        """The present state of every folder's store, for a `Searcher`."""
        return tuple(store.pin() for store in self.stores())

    def stores(self) -> tuple[Store, ...]:
        """The stores that are open now."""
        return self._stores.all()

    def follows(self) -> bool:
        """Whether `changed` receives all changes: the watcher reports them, or scans find them."""
        alive = all(thread.is_alive() for thread in self._threads)
        return alive and self._watcher is not None and self._stores.intake is not None

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text, saved or not, overrides the disk. Takes microseconds."""
        self._inbox.document(path, text)

    def document_closed(self, path: Path) -> None:
        """The document was closed: the disk holds again."""
        self._inbox.document(path, None)

    def files_changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Files on the disk appeared, changed or were deleted; folders appeared or were deleted."""
        self._inbox.changed(paths, folders)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Replace the folders and their settings; removes at once what they no longer allow."""
        self._backlog.request(folders)
        self._inbox.requeue_documents()

    def rescan(self) -> None:
        """Scan all folders, comparing the file system's stamp of each file."""
        self._backlog.rescan()

    def settle(self, timeout_s: float) -> bool:
        """Wait until all reported changes can be found; for tests and benchmarks. Returns whether they can."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if not self._backlog.wait_done(end - time.monotonic()):
                return False
            seen = threading.Event()
            self._inbox.wait_for_empty(seen)
            if seen.wait(max(0.0, end - time.monotonic())) and self._backlog.done():
                return True
        return False

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception:
            log.exception("the index has stopped")
            self._notice("A bug stopped the index of this workspace (see the log). Suggestions continue.")

    def _run_background(self) -> None:
        lower_priority()
        encoder, wake = ChunkedEncoder(self._encoder), SleepDetector()
        while not self._backlog.stopping:
            wake.begin()
            due = self._backlog.next_round()
            if wake.slept():  # meanwhile other machines or systems may have written
                self._backlog.enqueue((), everything=True, at_once=False)
            if not due:
                continue
            try:
                self._run_round(encoder)
            except OSError as error:
                self._backlog.round_failed()
                self._retry.failed(error)
            else:
                self._retry.succeeded()

    def _run_round(self, encoder: ChunkedEncoder) -> None:
        backlog, watcher = self._backlog, self._watcher
        if backlog.requested is not None:
            self._open(backlog.requested)
        if self._stores.take_over():
            self.rescan()
        if watcher is not None and watcher.repair():
            backlog.enqueue((), everything=True, at_once=False)
        if watcher is not None and watcher.incomplete() and backlog.is_scan_old():
            self.rescan()
        if backlog.may_scan():
            self._scan(encoder)
        self._store_queued(encoder)
        self._stores.tidy(self._inbox.changed, backlog.has_urgent_work)

    def _open(self, folders: Mapping[Path, Settings]) -> None:
        requested = {resolved(root): settings for root, settings in folders.items()}
        gone = self._stores.open_for(requested)
        with self._backlog.lock:
            self._stores.intake = Intake(requested, self._stores.by_root, self._notice)
            self._backlog.folders_opened(folders)
        self._inbox.requeue_documents()
        for root, store in gone.items():
            if self._watcher is not None and root not in requested:
                self._watcher.unwatch(root)
            close(store)
        for root in requested:
            if self._watcher is not None:
                self._watcher.watch(root)

    def _scan(self, encoder: ChunkedEncoder) -> None:
        """Scan every file that may be read. Stores that another process writes are left to it."""
        self._backlog.begin_scan()
        self._changed((), tuple(self._stores.by_root))
        began_s, done = time.thread_time(), False
        try:
            if self._watcher is not None:
                self._watcher.retry()
            done = self._scan_all(encoder)
        finally:
            self._backlog.end_scan(time.thread_time() - began_s, done=done)

    def _scan_all(self, encoder: ChunkedEncoder) -> bool:
        intake = self._stores.intake
        if intake is None or not any(store.writable for store in self.stores()):
            return True
        self._report(IndexProgress(building=True))
        paths = []
        for path in intake.files():
            if self._backlog.interrupted():
                return False
            paths.append(path)
        intake.remove_others(paths)
        self._store_files(intake, paths, encoder)
        if self._backlog.interrupted():
            return False
        for store in self.stores():
            store.mark_complete()
        self._report(IndexProgress(building=False, done=len(paths), total=len(paths)))
        return True

    def _store_queued(self, encoder: ChunkedEncoder) -> None:
        many = self._backlog.take_queued()
        intake = self._stores.intake
        if many and intake is not None:
            try:
                self._store_files(intake, many, encoder)
            except OSError:
                self._backlog.enqueue(many, everything=False, at_once=False)
                raise

    def _store_files(self, intake: Intake, paths: Sequence[Path], encoder: ChunkedEncoder) -> None:
        if not paths:
            return

        def progress(done: int, total: int) -> None:
            self._report(IndexProgress(building=True, done=done, total=total))

        try:
            for path in intake.store_all(paths, encoder, progress, self._backlog.interrupted):
                self._inbox.changed((path,))
        finally:
            self._report(IndexProgress(building=False, done=len(paths), total=len(paths)))
