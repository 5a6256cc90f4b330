"""The queues of a live index: the inbox of changes for its first thread, the backlog of work for its second.

The inbox is bounded: it keeps one text for a document, and more than `MAX_CHANGES` changed files become a request to
scan everything. The backlog decides when to scan: at once on request, after a while if changes may have been lost, and
never so often that no other work is done.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.config import Settings

MAX_CHANGES = 4096
"""Changed files (or folders) that are kept by name. A system's own queue may overflow at that, and lose changes."""
MAX_REST_S = 2.0


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """The changes that `Inbox.take` returns; a text is None if closed, `folders` appeared or disappeared."""

    documents: dict[Path, str | None]
    paths: tuple[Path, ...]
    folders: tuple[Path, ...]
    lost: bool  # more happened than is listed
    waiting: tuple[threading.Event, ...]  # events to set once the batch is stored


class Inbox:
    """Reported changes that were not taken yet, bounded. Any thread may report; one thread takes."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._open: dict[Path, str] = {}
        self._documents: dict[Path, None] = {}
        self._paths: dict[Path, None] = {}
        self._folders: dict[Path, None] = {}
        self._lost = self._woken = False
        self._waiting: list[threading.Event] = []
        self._paused_until = 0.0

    def document(self, path: Path, text: str | None) -> None:
        """Report the text of an open document, or None if it was closed."""
        if not _may_exist(path):
            return
        with self._condition:
            if text is None:
                self._open.pop(path, None)
                self._paths[path] = None
            else:
                self._open[path] = text
            self._documents[path] = None
            self._condition.notify()

    def requeue_documents(self) -> None:
        """Queue all open documents again, because the rules have changed."""
        with self._condition:
            self._documents.update(dict.fromkeys(self._open))
            self._condition.notify()

    def changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Report changed files and folders. If they are too many to list, everything will be scanned."""
        with self._condition:
            for put, names in ((self._paths, paths), (self._folders, folders)):
                for name in filter(_may_exist, names):
                    put[name] = None
                    if len(put) > MAX_CHANGES:
                        put.clear()
                        self._lost = True
                        break
            self._condition.notify()

    def wait_for_empty(self, seen: threading.Event) -> None:
        """Set `seen` once everything that is queued now is stored, and everything that this queues in turn."""
        with self._condition:
            self._waiting.append(seen)
            self._condition.notify()

    def wake(self) -> None:
        """Make `take` return even without changes."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def pause(self, seconds: float) -> None:
        """Return only documents for some seconds, at most `MAX_REST_S`."""
        with self._condition:
            self._paused_until = time.monotonic() + min(seconds, MAX_REST_S)

    def take(self) -> ChangeBatch:
        """All due changes since the last call; waits for some."""
        with self._condition:
            while not (self._woken or self._documents):
                # Read the clock once: a pause that ended between two readings would wait forever.
                pause_s = self._paused_until - time.monotonic()
                if pause_s <= 0 and (self._paths or self._folders or self._lost or self._waiting):
                    break
                self._condition.wait(pause_s if pause_s > 0 else None)
            self._woken = False
            documents = {path: self._open.get(path) for path in self._documents}
            self._documents.clear()
            if time.monotonic() < self._paused_until:
                return ChangeBatch(documents, (), (), lost=False, waiting=())
            batch = ChangeBatch(documents, tuple(self._paths), tuple(self._folders), self._lost, tuple(self._waiting))
            for held in (self._paths, self._folders, self._waiting):
                held.clear()
            self._lost = False
            return batch

    def empty(self) -> bool:
        """Whether nothing has changed since the last `take`."""
        with self._condition:
            return not (self._documents or self._paths or self._folders or self._lost)


def _may_exist(path: Path) -> bool:
    """Whether a file system could have such a name; clients may send anything."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeError:
        return False


BURST = MAX_CHANGES  # after so many changed files everything is scanned, on systems whose queue loses changes silently
_SILENT = sys.platform != "linux"
_TICK_S = 1.0
_RESCAN_S = 20.0  # the time between scans where not all changes are reported, if a scan is cheap (see `_BLIND_SHARE`)
_SHARE, _BLIND_SHARE = 2, 20
"""A scan waits this many times the CPU time of the last: after bursts, and where changes are not reported."""
_MAX_SCAN_PAUSE_S = 30.0


class Backlog:
    """The pending work. Any thread may call the methods above `next_round`, the working thread those below.

    `lock` guards everything and is notified of every change. `pause_over` says whether failed work may be retried.
    """

    def __init__(self, folders: Mapping[Path, Settings], pause_over: Callable[[], bool]) -> None:
        self.lock = threading.Condition()
        self.requested: Mapping[Path, Settings] | None = dict(folders)
        """Folders whose stores are not yet open by their settings."""
        self.stopping = False
        self.scanned_at = time.monotonic()  # the end of the last scan (monotonic, s)
        self._scan_s = 0.0
        self._pause_over = pause_over
        self._failed_folders: Mapping[Path, Settings] | None = None
        self._trying: Mapping[Path, Settings] | None = None
        self._queued: dict[Path, None] = {}
        self._changed_files = 0  # since the last scan because of their number
        self._rescan, self._at_once, self._working = True, True, False

    def stop(self) -> None:
        """End the work."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()

    def request(self, folders: Mapping[Path, Settings]) -> None:
        """Open the stores of these folders by their settings, and scan everything."""
        with self.lock:
            self.requested = dict(folders)
            self.rescan()

    def rescan(self) -> None:
        """Request a scan of everything, at once."""
        with self.lock:
            self._rescan = self._at_once = True
            self.lock.notify_all()

    def count_changes(self, files: int) -> bool:
        """Count changed files; returns whether they are so many that others may have been lost silently."""
        self._changed_files += files
        return _SILENT and self._changed_files > BURST

    def enqueue(self, paths: Iterable[Path], *, everything: bool, at_once: bool) -> None:
        """Queue these files, or a scan of everything, `at_once` or when it is due."""
        with self.lock:
            self._queued.update(dict.fromkeys(paths))
            if everything or len(self._queued) > BURST:
                self._rescan, self._changed_files = True, 0
                self._queued.clear()
            self._at_once |= at_once
            self.lock.notify_all()

    def done(self) -> bool:
        """Whether no work is pending or running."""
        return not (self._queued or self.requested or self._rescan or self._working)

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until `done`; returns whether it is."""
        with self.lock:
            return self.lock.wait_for(self.done, timeout_s)

    def interrupted(self) -> bool:
        """Whether to abort the present work: the index stops, or has other folders or settings now."""
        return self.stopping or self.requested is not None

    def has_urgent_work(self) -> bool:
        """Whether there is work that must not wait for long work."""
        return self.interrupted() or bool(self._queued)

    def next_round(self) -> bool:
        """End the last round, and wait at most a second for more work; returns whether to begin a round."""
        with self.lock:
            self._working = False
            self.lock.notify_all()
            self.lock.wait_for(self._is_due, _TICK_S)
            self._working, self._trying = not self.stopping and self._may_try(), self.requested
            return self._working

    def round_failed(self) -> None:
        """The round failed: its folders are retried after a pause."""
        self._failed_folders = self._trying

    def folders_opened(self, folders: Mapping[Path, Settings]) -> None:
        """The stores of these folders are open. Folders requested meanwhile follow in the next round."""
        with self.lock:
            if self.requested is folders:
                self.requested = None
            self.lock.notify_all()

    def may_scan(self) -> bool:
        """Whether a scan is requested, and the last one is long enough ago."""
        rested = time.monotonic() - self.scanned_at >= min(_SHARE * self._scan_s, _MAX_SCAN_PAUSE_S)
        return self._rescan and (self._at_once or rested)

    def is_scan_old(self) -> bool:
        """Whether a new scan is due where not all changes are reported."""
        return time.monotonic() - self.scanned_at > max(_RESCAN_S, _BLIND_SHARE * self._scan_s)

    def begin_scan(self) -> None:
        """Begin a scan."""
        with self.lock:
            self._rescan = self._at_once = False

    def end_scan(self, took_s: float, *, done: bool) -> None:
        """End a scan that took `took_s` of CPU time. If it is not `done`, request it again."""
        self.scanned_at = time.monotonic()
        self._scan_s = took_s
        if not done:
            self.rescan()

    def take_queued(self) -> list[Path]:
        """Take the queued files."""
        with self.lock:
            many, self._queued = list(self._queued), {}
        return many

    def _is_due(self) -> bool:
        due = self.requested is not None or bool(self._queued) or self.may_scan()
        return self.stopping or (due and self._may_try())

    def _may_try(self) -> bool:
        return (self.requested is not None and self.requested is not self._failed_folders) or self._pause_over()
