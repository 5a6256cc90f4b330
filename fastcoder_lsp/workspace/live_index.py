"""The live index of a workspace: its folders' stores, kept up with the disk and with the editor.

Owns the queue, two threads and the stores' life. The first thread takes what the editor and the watcher tell, so that
an edit can be found within milliseconds; the second does what takes long: the first look through the folders, sealing,
merging, following another process. The event loop only ever puts things into the queue. Nothing here searches.
"""

import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from fastcoder_lsp.config import Settings
from fastcoder_lsp.index.chunks import ChunkedEncoder, Encoder
from fastcoder_lsp.index.searcher import Snapshot
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.rules import resolved
from fastcoder_lsp.workspace.watch import Watcher

log = logging.getLogger(__name__)

FEW = 32
"""Changed files that are taken one by one; more at once are a matter for the second thread."""
BURST = 4096
"""After so many changed files everything is looked at: a system's queue may have overflowed, which loses changes."""
_TICK_S = 1.0
_RETRY_S = 30.0
_RESCAN_S = 60.0


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """`building`: `done` of `total` files have been looked at; else all of them have."""

    building: bool
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class _Told:
    """What happened: documents and their texts (None: closed), files and folders on the disk."""

    documents: tuple[tuple[Path, str | None], ...] = ()
    paths: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()


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
        self._encoder, self._cache, self._report, self._notice = encoder, cache, report, notice
        self._watcher = Watcher(self.files_changed) if watching else None
        # Putting into it never waits for anybody, so the event loop may.
        self._inbox: SimpleQueue[_Told | threading.Event] = SimpleQueue()
        self._ready = threading.Condition()
        self._many: dict[Path, None] = {}
        self._told = 0  # changed files, since so many of them made all be looked at
        self._rescan, self._stopping, self._looking, self._blind = True, False, False, False
        self._wanted: dict[Path, Settings] | None = dict(folders)
        self._stores: dict[Path, Store] = {}
        self._intake = Intake({}, {})
        self._threads = (
            threading.Thread(target=self._follow_edits, name="index", daemon=True),
            threading.Thread(target=self._look_after, name="index-background", daemon=True),
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
        self._inbox.put(_Told())
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        if self._watcher is not None:
            self._watcher.close()
        for store in self._stores.values():
            store.close()

    def pin(self) -> tuple[Snapshot, ...]:
        """The present state of every folder's store, for a `Searcher`."""
        return tuple(store.pin() for store in tuple(self._stores.values()))

    def stores(self) -> tuple[Store, ...]:
        """The stores that are open now."""
        return tuple(self._stores.values())

    def document_changed(self, path: Path, text: str) -> None:
        """An open document's text, saved or not; overrides the disk until it is closed. Costs microseconds."""
        self._inbox.put(_Told(documents=((path, text),)))

    def document_closed(self, path: Path) -> None:
        """A document was closed: the disk holds again."""
        self._inbox.put(_Told(documents=((path, None),), paths=(path,)))

    def files_changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Files on the disk that appeared, changed or went; and folders that appeared or went."""
        self._inbox.put(_Told(paths=tuple(paths), folders=tuple(folders)))

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Other folders, or other settings for them; what they no longer allow is removed."""
        with self._ready:
            self._wanted = dict(folders)
            self._rescan = True
            self._ready.notify_all()

    def rescan(self) -> None:
        """Look through all folders, by modification time."""
        with self._ready:
            self._rescan = True
            self._ready.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Wait until everything told so far can be found; for tests and benchmarks. Returns whether it can."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            with self._ready:
                if not self._ready.wait_for(self._looked, end - time.monotonic()):
                    return False
            seen = threading.Event()
            self._inbox.put(seen)
            if seen.wait(max(0.0, end - time.monotonic())) and self._looked():
                return True
        return False

    def _looked(self) -> bool:
        return not (self._many or self._wanted or self._rescan or self._looking)

    # The first thread.

    def _follow_edits(self) -> None:
        encoder = ChunkedEncoder(self._encoder)
        while True:
            told = [self._inbox.get()]
            with self._ready:
                self._ready.wait_for(lambda: self._stopping or not self._wanted)
                if self._stopping:
                    return
                intake = self._intake
            while not self._inbox.empty():
                told.append(self._inbox.get())
            try:
                self._take_in(intake, [one for one in told if isinstance(one, _Told)], encoder)
            except OSError as error:
                log.warning("the index could not take in a change: %s", error)
            for one in told:
                if isinstance(one, threading.Event):
                    # Taking something in may have put more into the queue.
                    one.set() if self._inbox.empty() else self._inbox.put(one)

    def _take_in(self, intake: Intake, told: Sequence["_Told"], encoder: ChunkedEncoder) -> None:
        """Take in what was told since the last time; of several texts of a document only the last."""
        for path, text in {path: text for one in told for path, text in one.documents}.items():
            if text is None:
                intake.drop_overlay(path)
            else:
                intake.overlay(path, text, encoder)
        paths = dict.fromkeys(path for one in told for path in one.paths)
        folders = dict.fromkeys(folder for one in told for folder in one.folders)
        many = len(paths) > FEW
        self._told += len(paths)
        if many or any(path.name in IGNORE_FILES for path in paths):
            with self._ready:
                if self._told > BURST or any(path.name in IGNORE_FILES for path in paths):
                    self._rescan, self._told = True, 0
                self._many.update(paths if many else ())
                self._ready.notify_all()
        if not many:
            intake.take_few(paths, encoder)
        if folders:
            intake.remove_below(folders)
            # The files in a new folder may have come before it was watched.
            found = (Path(base) / name for folder in folders for base, _, names in os.walk(folder) for name in names)
            self.files_changed(found)

    # The second thread.

    def _look_after(self) -> None:
        lower_priority()
        encoder = ChunkedEncoder(self._encoder)
        last_scan = time.monotonic()
        while True:
            with self._ready:
                self._looking = False
                self._ready.notify_all()
                self._ready.wait_for(lambda: self._stopping or self._rescan or self._wanted or self._many, _TICK_S)
                if self._stopping:
                    return
                self._looking = True
                wanted, rescan = self._wanted, self._rescan
                many, self._many = list(self._many), {}
                self._rescan = False
            try:
                if wanted is not None:
                    self._open(wanted)
                taken = [store for store in self._stores.values() if store.take_over()]
                overdue = self._blind and time.monotonic() - last_scan > _RESCAN_S
                if rescan or overdue or taken:
                    self._scan(encoder)
                    last_scan = time.monotonic()
                self._take(many, encoder)
                self._tidy()
            except OSError as error:
                log.warning("the index could not be brought up to date: %s", error)
                with self._ready:
                    self._ready.wait_for(lambda: self._stopping, _RETRY_S)

    def _open(self, folders: Mapping[Path, Settings]) -> None:
        """Open the stores of new folders, close those of folders that went."""
        wanted = {resolved(root): settings for root, settings in folders.items()}
        stores = {root: store for root, store in self._stores.items() if root in wanted}
        for root in wanted:
            if root not in stores:
                place = store_folder(self._cache, root, self._encoder.identity)
                stores[root] = Store.open(place, self._encoder.identity, str(root), self._notice)
            if self._watcher is not None and not self._watcher.watch(root):
                self._blind = True
        with self._ready:
            gone = {root: store for root, store in self._stores.items() if root not in wanted}
            self._stores, self._intake = stores, Intake(wanted, stores)
            # Asked for something else meanwhile: that is done in the next round.
            if self._wanted is folders:
                self._wanted = None
            self._ready.notify_all()
        for root, store in gone.items():
            if self._watcher is not None:
                self._watcher.unwatch(root)
            store.close()

    def _scan(self, encoder: ChunkedEncoder) -> None:
        """Look at every file that may be read; only a process that may write does so."""
        if not any(store.writable for store in self._stores.values()):
            return
        self._report(IndexProgress(building=True))
        paths = list(self._intake.files())
        self._intake.remove_others(paths)
        self._take(paths, encoder)
        if not self._stopping:
            for store in self._stores.values():
                store.mark_complete()
            self._report(IndexProgress(building=False, done=len(paths), total=len(paths)))

    def _take(self, paths: Sequence[Path], encoder: ChunkedEncoder) -> None:
        if not paths:
            return

        def progress(done: int, total: int) -> None:
            self._report(IndexProgress(building=True, done=done, total=total))

        self.files_changed(self._intake.take_many(paths, encoder, progress, lambda: self._stopping))
        self._report(IndexProgress(building=False, done=len(paths), total=len(paths)))

    def _tidy(self) -> None:
        for store in self._stores.values():
            store.follow()
            store.seal()
            while store.merge(lambda: self._stopping or bool(self._many)):
                pass


def lower_priority() -> None:
    """Let the engine and the editor's requests go first, where a single thread's priority can be set."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
