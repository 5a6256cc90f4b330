"""The live index of a workspace: its folders' stores, kept up with the disk and with the editor.

Owns two threads and the stores' life. The first thread takes what the editor and the watcher tell (`inbox`), so that an
edit can be found within milliseconds; the second does what takes long: the first look through the folders, sealing,
merging, following another process. The event loop only ever puts things into the inbox. Nothing here searches.

Whatever the disk refuses (`trouble`), what is told stays bounded, what could not be done is done later, and what is
stored goes on being searched.
"""

import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder, Encoder
from fastcoder_lsp.index.searcher import StoreSnapshot
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.inbox import MOST, Inbox, Told
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.trouble import Trouble, each_once
from fastcoder_lsp.workspace.walk import walk
from fastcoder_lsp.workspace.watch import EXCLUDE_FILE, QUIET, Watcher

log = logging.getLogger(__name__)

FEW = 32
"""Changed files that are taken one by one; more at once are a matter for the second thread."""
BURST = MOST
"""After so many changed files everything is looked at where a system's queue loses changes in silence."""
_SILENT = sys.platform != "linux"
_TICK_S = 1.0
_RESCAN_S = 20.0
"""Where changes are not all told, everything is looked at so often, if that is cheap: see `_SHARE`."""
_REST = 4
"""After files of the disk were taken in, no more are for this many times as long; documents are."""
_SHARE, _BLIND_SHARE = 2, 20
"""Looking at everything waits for this many times the processor's time that it last took: after bursts (but for
`_LONGEST_S` at most), and where nothing is told."""
_LONGEST_S = 30.0


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """`building`: `done` of `total` files have been looked at; else all of them have."""

    building: bool
    done: int = 0
    total: int = 0


def store_folder(cache: Path, root: Path, identity: str) -> Path:
    """Where the store of a workspace folder lies, for one tokenizer."""
    name = hashlib.sha256(os.fsencode(resolved(root))).hexdigest()[:16]
    return cache / "index" / name / identity[:16]


class LiveIndex:
    """See the module's docstring.

    Args:
        folders: the workspace's folders with the settings that hold in each.
        encoder: the tokenizer.
        cache: the program's cache folder.
        report: told of progress, by any thread.
        notice: told what a person should know, once each.
        watching: whether to watch the disk; without, `files_changed` and `rescan` tell what happened.
    """

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        encoder: Encoder,
        cache: Path,
        report: Callable[[IndexProgress], None] = lambda _progress: None,
        notice: Callable[[str], None] = log.warning,
        *,
        watching: bool = True,
    ) -> None:
        self._encoder, self._cache, self._report, self._notice = encoder, cache, report, each_once(notice)
        self._inbox = Inbox()
        self._watcher = Watcher(self._inbox.changed, self._notice) if watching else None
        self._trouble = self._new_trouble()
        self._refused: Mapping[Path, Settings] | None = None
        self._locks: dict[Store, Trouble] = {}
        self._ready = threading.Condition()
        self._many: dict[Path, None] = {}
        self._told = 0  # changed files, since so many of them made all be looked at
        self._rescan, self._at_once, self._stopping, self._looking = True, True, False, False
        self._wanted: Mapping[Path, Settings] | None = dict(folders)
        self._stores: dict[Path, Store] = {}
        self._intake: Intake | None = None
        self._tidied: dict[Store, int] = {}
        self._scanned_at, self._scan_s = time.monotonic(), 0.0
        self._threads = (
            threading.Thread(target=self._guarded, args=(self._follow_edits,), name="index", daemon=True),
            threading.Thread(target=self._guarded, args=(self._look_after,), name="index-background", daemon=True),
        )

    def start(self) -> None:
        """Begin; returns at once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads and close the stores."""
        with self._ready:
            self._stopping = True
            self._ready.notify_all()
        self._inbox.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        if self._watcher is not None:
            self._watcher.close()
        for store in self._stores.values():
            _close(store)

    def pin(self) -> tuple[StoreSnapshot, ...]:
        """The present state of every folder's store, for a `Searcher`."""
        return tuple(store.pin() for store in self.stores())

    def stores(self) -> tuple[Store, ...]:
        """The stores that are open now."""
        return tuple(self._stores.values())

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text, saved or not; overrides the disk until it is closed. Costs microseconds."""
        self._inbox.document(path, text)

    def document_closed(self, path: Path) -> None:
        """A document was closed: the disk holds again."""
        self._inbox.document(path, None)

    def files_changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Files on the disk that appeared, changed or went; and folders that appeared or went."""
        self._inbox.changed(paths, folders)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Other folders, or other settings for them; what they no longer allow is removed, open documents at once."""
        with self._ready:
            self._wanted = dict(folders)
            self._rescan = self._at_once = True
            self._ready.notify_all()
        self._inbox.all_documents()

    def rescan(self) -> None:
        """Look through all folders, by what the file system says of each file."""
        with self._ready:
            self._rescan = self._at_once = True
            self._ready.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Wait until everything told so far can be found; for tests and benchmarks. Returns whether it can."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            with self._ready:
                if not self._ready.wait_for(self._looked, end - time.monotonic()):
                    return False
            seen = threading.Event()
            self._inbox.wait_for_empty(seen)
            if seen.wait(max(0.0, end - time.monotonic())) and self._looked():
                return True
        return False

    def _looked(self) -> bool:
        return not (self._many or self._wanted or self._rescan or self._looking)

    def _guarded(self, run: Callable[[], None]) -> None:
        """A thread's life: one that ends by a mistake of ours must not end unheard."""
        try:
            run()
        except Exception:
            log.exception("the index has stopped")
            self._notice(
                "The index of this workspace has stopped by a mistake of ours (see the log). Suggestions go on."
            )

    # The first thread.

    def _follow_edits(self) -> None:
        encoder = ChunkedEncoder(self._encoder)
        intake, of = self._intake, (self._wanted, self._intake)
        while True:
            with self._ready:
                # Until the stores are open, what is told waits in the inbox, which stays small.
                self._ready.wait_for(lambda: self._stopping or self._intake is not None)
            told = self._inbox.take()
            with self._ready:
                if self._stopping:
                    return
                wanted, opened = self._wanted, self._intake
            if intake is None or wanted is not of[0] or opened is not of[1]:
                intake, of = opened if wanted is None else self._intake_by(wanted), (wanted, opened)
            assert intake is not None
            began = time.monotonic()
            self._take_in(intake, told, encoder)
            if told.paths or told.folders:
                # A file that is written without end is not read without end.
                self._inbox.rest(_REST * (time.monotonic() - began))
            for seen in told.waiting:
                # Taking something in may have put more into the inbox.
                seen.set() if self._inbox.empty() else self._inbox.wait_for_empty(seen)

    def _intake_by(self, wanted: Mapping[Path, Settings]) -> Intake:
        """By rules that hold from now on, whatever the second thread is at; the stores that are open."""
        folders = {resolved(root): settings for root, settings in wanted.items()}
        stores = {root: store for root, store in self._stores.items() if root in folders}
        return Intake({root: folders[root] for root in stores}, stores)

    def _take_in(self, intake: Intake, told: Told, encoder: ChunkedEncoder) -> None:
        for path, text in told.documents.items():
            if text is None:
                intake.drop_overlay(path)
            else:
                intake.overlay(path, text, encoder)
        paths = dict.fromkeys((*told.paths, *intake.below(told.folders)))
        for path in _files_in(told.folders):
            if len(paths) > BURST:
                break
            # They may have come before their folder was watched.
            paths[path] = None
        ruled = any(path.name in IGNORE_FILES or path.parts[-3:] == EXCLUDE_FILE for path in paths)
        self._told += len(paths)
        everything = ruled or told.lost or (_SILENT and self._told > BURST)
        few = len(paths) <= FEW
        if few:
            intake.take_few(paths, encoder)
        if everything or not few:
            self._hand_on(() if few else paths, everything=everything, at_once=ruled)
        if ruled or told.lost:
            self._inbox.all_documents()

    def _hand_on(self, paths: Iterable[Path], *, everything: bool, at_once: bool) -> None:
        """To the second thread."""
        with self._ready:
            self._many.update(dict.fromkeys(paths))
            if everything or len(self._many) > BURST:
                self._rescan, self._told = True, 0
                self._many.clear()
            self._at_once |= at_once
            self._ready.notify_all()

    # The second thread.

    def _look_after(self) -> None:
        lower_priority()
        encoder = ChunkedEncoder(self._encoder)
        while True:
            with self._ready:
                self._looking = False
                self._ready.notify_all()
                self._ready.wait_for(self._is_due, _TICK_S)
                if self._stopping:
                    return
                if not self._may_try():
                    continue
                self._looking, wanted = True, self._wanted
            try:
                self._do_what_is_due(encoder)
            except OSError as error:
                self._refused = wanted
                self._trouble.met(error)
            else:
                self._trouble.over()

    def _is_due(self) -> bool:
        due = self._wanted is not None or bool(self._many) or self._may_scan()
        return self._stopping or (due and self._may_try())

    def _may_try(self) -> bool:
        """What was not asked for before is tried at once; what failed, after a pause."""
        return (self._wanted is not None and self._wanted is not self._refused) or self._trouble.may_try()

    def _may_scan(self) -> bool:
        """Whether everything is to be looked at, and not so soon after the last time that nothing else is done."""
        rested = time.monotonic() - self._scanned_at >= min(_SHARE * self._scan_s, _LONGEST_S)
        return self._rescan and (self._at_once or rested)

    def _do_what_is_due(self, encoder: ChunkedEncoder) -> None:
        if self._wanted is not None:
            self._open(self._wanted)
        if self._take_over():
            self.rescan()
        watcher, waits_s = self._watcher, max(_RESCAN_S, _BLIND_SHARE * self._scan_s)
        if watcher is not None and watcher.tend():
            self._hand_on((), everything=True, at_once=False)
        if watcher is not None and watcher.blind() and time.monotonic() - self._scanned_at > waits_s:
            self.rescan()
        if self._may_scan():
            self._scan(encoder)
        self._take_many(encoder)
        self._tidy()

    def _open(self, folders: Mapping[Path, Settings]) -> None:
        """Open the stores of new folders, close those of folders that went."""
        wanted = {resolved(root): settings for root, settings in folders.items()}
        before = self._stores
        stores = {root: store for root, store in before.items() if root in wanted}
        for root in wanted:
            if root not in stores:
                place = store_folder(self._cache, root, self._encoder.identity)
                # As a reader, which a disk that takes nothing allows too; `_take_over` does the rest.
                stores[root] = Store.open(place, self._encoder.identity, str(root), self._notice, reader=True)
        self._locks = {store: self._locks.get(store) or self._new_trouble() for store in stores.values()}
        self._tidied = {store: done for store, done in self._tidied.items() if store in self._locks}
        with self._ready:
            self._stores, self._intake = stores, Intake(wanted, stores)
            # Asked for something else meanwhile: that is done in the next round.
            if self._wanted is folders:
                self._wanted = None
            self._ready.notify_all()
        self._inbox.all_documents()
        for root in before.keys() - wanted.keys():
            if self._watcher is not None:
                self._watcher.unwatch(root)
            _close(before[root])
        for root in wanted:
            if self._watcher is not None:
                self._watcher.watch(root)

    def _take_over(self) -> bool:
        """Become the writer where nobody else is; whether everything is to be looked at because of it."""
        taken = False
        for store, trouble in self._locks.items():
            if store.writable or trouble.may_try():
                try:
                    taken |= store.reclaim() or store.take_over()
                except OSError as error:
                    trouble.met(error)
                else:
                    trouble.over()
        return taken

    def _new_trouble(self) -> Trouble:
        return Trouble(self._cache, self._notice)

    def _scan(self, encoder: ChunkedEncoder) -> None:
        """Look at every file that may be read; what only a process that may write can do is left to that one."""
        with self._ready:
            self._rescan = self._at_once = False
        began_s, done = time.thread_time(), False
        try:
            if self._watcher is not None:
                self._watcher.try_again()
            done = self._look_at_all(encoder)
        finally:
            self._scanned_at = time.monotonic()
            self._scan_s = time.thread_time() - began_s
            if not done:
                self.rescan()

    def _look_at_all(self, encoder: ChunkedEncoder) -> bool:
        """Whether it was done to the end."""
        intake = self._intake
        if intake is None or not any(store.writable for store in self.stores()):
            return True
        self._report(IndexProgress(building=True))
        paths = []
        for path in intake.files():
            if self._interrupted():
                return False
            paths.append(path)
        intake.remove_others(paths)
        self._take(intake, paths, encoder)
        if self._interrupted():
            return False
        for store in self.stores():
            store.mark_complete()
        self._report(IndexProgress(building=False, done=len(paths), total=len(paths)))
        return True

    def _take_many(self, encoder: ChunkedEncoder) -> None:
        with self._ready:
            many, self._many = list(self._many), {}
        if many and self._intake is not None:
            try:
                self._take(self._intake, many, encoder)
            except OSError:
                self._hand_on(many, everything=False, at_once=False)
                raise

    def _take(self, intake: Intake, paths: Sequence[Path], encoder: ChunkedEncoder) -> None:
        if not paths:
            return

        def progress(done: int, total: int) -> None:
            self._report(IndexProgress(building=True, done=done, total=total))

        try:
            for path in intake.take_many(paths, encoder, progress, self._interrupted):
                self._inbox.changed((path,))
        finally:
            self._report(IndexProgress(building=False, done=len(paths), total=len(paths)))

    def _interrupted(self) -> bool:
        """Other folders or settings hold from now on: what is being done is done again by those."""
        return self._stopping or self._wanted is not None

    def _tidy(self) -> None:
        for store in self.stores():
            own = store.in_memory() if not store.writable else []
            if store.follow():
                # Two processes may have read different texts: the disk says which one holds.
                self._inbox.changed(map(Path, own))
            if store.writable and store.pin().generation != self._tidied.get(store):
                store.seal()
                while store.merge(lambda: self._interrupted() or bool(self._many)):
                    pass
                self._tidied[store] = store.pin().generation


def _files_in(folders: Iterable[Path]) -> Iterator[Path]:
    """All files below some folders, but those that tools fill."""
    for folder in folders:
        yield from walk(folder, lambda path: path.name not in QUIET)


def _close(store: Store) -> None:
    try:
        store.close()
    except OSError as error:
        log.warning("%s could not be brought up to date at the end: %s", store.folder, error)


def lower_priority() -> None:
    """Let the engine and the editor's requests go first, where a single thread's priority can be set."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
