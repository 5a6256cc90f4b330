"""The inbox of a live index: its users, the documents that they have open, and what is not done yet. Bounded.

Any thread may report. The index's first thread takes changes (`take`), its second one longer work (`next_round` and
below). More than `MAX_CHANGES` changed files become a request to scan everything. A scan begins at once on request,
after a while if changes may have been lost, and never so often that no other work is done.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.watch import Changed

log = logging.getLogger(__name__)

MAX_CHANGES = 4096
"""Changed files (or folders) that are kept by name. A system's own queue may overflow at that, and lose changes."""
BURST = MAX_CHANGES  # after so many changed files everything is scanned, on systems whose queue loses changes silently
MAX_REST_S = 2.0
_SILENT = sys.platform != "linux"
_TICK_S = 1.0
_AWAKE_S, _RESTING_TICK_S = 20.0, 30.0
"""Without news for so long, the second thread looks seldom, so that the processor sleeps; news wake it."""
_RESCAN_S = 20.0  # the time between scans where not all changes are reported, if a scan is cheap (see `_BLIND_SHARE`)
_SHARE, _BLIND_SHARE = 2, 20
"""A scan waits this many times the CPU time of the last: after bursts, and where changes are not reported."""
_MAX_SCAN_PAUSE_S = 30.0


@dataclass(frozen=True, eq=False, slots=True)
class IndexUser:
    """A workspace that uses an index: its open texts, and what it hears, from any thread.

    `progressed`: the index has a new `progress`. `notice`: a message for people; each comes once. `changed`: files and
    folders that may have changed, before they are stored; a workspace folder, if anything in it may have.
    """

    texts: OpenTexts = field(default_factory=OpenTexts)
    progressed: Callable[[], None] = lambda: None
    notice: Callable[[str], None] = log.warning
    changed: Changed = lambda _files, _folders: None


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """The changes that `Inbox.take` returns: texts (None: closed), files, folders that appeared or disappeared."""

    documents: Mapping[Path, str | None]
    paths: tuple[Path, ...]
    folders: tuple[Path, ...]


class Inbox:
    """The work that an index has to do. `lock` guards everything, and is notified of every change."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.stopping = False
        self._users: dict[IndexUser, None] = {}
        self._notices: dict[str, None] = {}
        self._opened: dict[Path, dict[IndexUser, None]] = {}
        """The users who have a document open. The last one reported its text last, and the index has its text."""
        self._documents: dict[Path, None] = {}
        self._paths: dict[Path, None] = {}
        self._folders: dict[Path, None] = {}
        self._paused_until = 0.0
        self._changed_files = 0  # since the last scan because of their number
        self._queued: dict[Path, None] = {}
        self._rescan = self._at_once = True
        self.scanned_at, self._scan_s = time.monotonic(), 0.0  # the end of the last scan, and its CPU time
        self._told_s = time.monotonic()  # when something was last reported
        self._storing = self._working = False  # whether the first thread is at work or pauses, the second is at work

    def join(self, user: IndexUser) -> None:
        """Add a user who has not joined yet, and its open documents. It gets the earlier notices."""
        with self.lock:
            if user in self._users:
                return
            self._users[user] = None
            for path in user.texts.copy():
                self.document_changed(user, path)
            earlier = tuple(self._notices)
        for text in earlier:
            user.notice(text)

    def leave(self, user: IndexUser) -> bool:
        """Remove a user who has joined, and its open documents. Returns whether it was the last one."""
        with self.lock:
            if user not in self._users:
                return False
            del self._users[user]
            for path in [path for path, users in self._opened.items() if user in users]:
                self.document_closed(user, path)
            return not self._users

    def users(self) -> tuple[IndexUser, ...]:
        """The users at this moment."""
        with self.lock:
            return tuple(self._users)

    def notice(self, text: str) -> None:
        """Pass a message to all users, and to later ones, once."""
        with self.lock:
            users = () if text in self._notices else self.users()
            self._notices[text] = None
        for user in users:  # without the lock: a user may wait for it while it holds its own
            user.notice(text)

    def document_changed(self, user: IndexUser, path: Path) -> None:
        """An open document's text, saved or not, overrides the disk. Takes microseconds."""
        with self.lock:
            if user in self._users and _may_exist(path):
                users = self._opened.setdefault(path, {})
                users.pop(user, None)
                users[user] = self._documents[path] = None
                self._notify()

    def document_closed(self, user: IndexUser, path: Path) -> None:
        """The document was closed: the disk holds again, or the text of another user who has it open."""
        with self.lock:
            if _may_exist(path):
                users = self._opened.pop(path, {})
                users.pop(user, None)
                if users:
                    self._opened[path] = users
                self._documents[path] = self._paths[path] = None
                self._notify()

    def files_changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Report files that appeared, changed or were deleted, and folders that appeared or were deleted."""
        with self.lock:
            for put, names in ((self._paths, paths), (self._folders, folders)):
                for name in filter(_may_exist, names):
                    put[name] = None
                    if len(put) > MAX_CHANGES:
                        put.clear()
                        self.rescan(at_once=False)
                        break
            self._notify()

    def rescan(self, *, at_once: bool = True) -> None:
        """Look at the open documents and all files again, the files `at_once` or when a scan is due."""
        with self.lock:
            self._rescan, self._at_once = True, self._at_once or at_once
            self._documents.update(dict.fromkeys(self._opened))
            self._notify()

    def stop(self) -> None:
        """End the work."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all reported changes can be found, and the next can at once; returns whether that came.

        For tests and benchmarks.
        """
        with self.lock:
            return self.lock.wait_for(self._is_idle, timeout_s)

    # In the first thread ----------------------------------------------------------------------------------------------

    def take(self) -> ChangeBatch | None:
        """All due changes since the last call; waits for some. None at the end."""
        with self.lock:
            while not (self.stopping or self._documents):
                # Read the clock once: a pause that ended between two readings would wait forever.
                pause_s = self._paused_until - time.monotonic()
                if pause_s <= 0:
                    if self._paths or self._folders:
                        break
                    if self._storing:
                        self._storing = False
                        self.lock.notify_all()
                self.lock.wait(pause_s if pause_s > 0 else None)
            if self.stopping:
                return None
            self._storing = True
            documents = {path: self._text_of(path) for path in self._documents}
            self._documents.clear()
            if time.monotonic() < self._paused_until:
                return ChangeBatch(documents, (), ())
            batch = ChangeBatch(documents, tuple(self._paths), tuple(self._folders))
            self._paths.clear()
            self._folders.clear()
            return batch

    def pause(self, seconds: float) -> None:
        """Take only documents for some seconds, at most `MAX_REST_S`."""
        with self.lock:
            self._paused_until = time.monotonic() + min(seconds, MAX_REST_S)

    def count_changes(self, files: int) -> None:
        """Count changed files; some systems lose others silently if they are many."""
        self._changed_files += files
        if _SILENT and self._changed_files > BURST:
            self._changed_files = 0
            self.rescan(at_once=False)

    def queue(self, paths: Iterable[Path]) -> None:
        """Leave files to the second thread."""
        with self.lock:
            self._queued.update(dict.fromkeys(paths))
            if len(self._queued) > BURST:
                self._queued.clear()
                self.rescan(at_once=False)
            self._notify()

    # In the second thread ---------------------------------------------------------------------------------------------

    def next_round(self, *, may_try: bool) -> bool:
        """End the last round, and wait for more work; returns whether to begin a round.

        It waits at most a second, and longer where nothing was reported lately. `may_try`: whether failed work may be
        tried again.
        """
        with self.lock:
            self._working = False
            self.lock.notify_all()
            began_s = time.monotonic()
            rests = may_try and self._is_idle() and began_s - self._told_s > _AWAKE_S
            self.lock.wait_for(
                lambda: self.stopping or (may_try and self._is_due()) or (rests and self._told_s > began_s),
                _RESTING_TICK_S if rests else _TICK_S,
            )
            self._working = may_try and not self.stopping
            return self._working

    def has_urgent_work(self) -> bool:
        """Whether there is work that must not wait for long work."""
        return self.stopping or bool(self._queued)

    def take_scan(self) -> bool:
        """Whether to begin a scan."""
        with self.lock:
            due = self._is_scan_due()
            if due:
                self._rescan = self._at_once = False
            return due

    def end_scan(self, took_s: float, *, done: bool) -> None:
        """End a scan that took `took_s` of CPU time. If it is not `done`, request it again."""
        self.scanned_at, self._scan_s = time.monotonic(), took_s
        if not done:
            self.rescan()

    def is_scan_old(self) -> bool:
        """Whether a new scan is due where not all changes are reported."""
        return time.monotonic() - self.scanned_at > max(_RESCAN_S, _BLIND_SHARE * self._scan_s)

    def take_queued(self) -> list[Path]:
        """Take the queued files."""
        with self.lock:
            many, self._queued = list(self._queued), {}
        return many

    # Under the lock ---------------------------------------------------------------------------------------------------

    def _notify(self) -> None:
        self._told_s = time.monotonic()
        self.lock.notify_all()

    def _text_of(self, path: Path) -> str | None:
        texts = (user.texts.get(path) for user in reversed(self._opened.get(path, {})))
        return next((text for text in texts if text is not None), None)

    def _is_idle(self) -> bool:
        told = self._documents or self._paths or self._folders or self._queued
        return not (told or self._storing or self._working or self._rescan)

    def _is_due(self) -> bool:
        return bool(self._queued) or self._is_scan_due()

    def _is_scan_due(self) -> bool:
        rested = time.monotonic() - self.scanned_at >= min(_SHARE * self._scan_s, _MAX_SCAN_PAUSE_S)
        return self._rescan and (self._at_once or rested)


def _may_exist(path: Path) -> bool:
    """Whether a file system could have such a name; clients may send anything."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeError:
        return False
