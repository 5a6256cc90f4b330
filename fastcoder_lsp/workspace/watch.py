"""Watches folders for changes on the disk. Only this module and its backends for each system use watchdog.

Turns a system's events into sets of changed files and changed folders, and knows when events are missing (`repair`,
`incomplete`). The kind of change is not reported: the receiver reads the disk. So bursts coalesce, and events may come
late, twice or not at all.
"""

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from typing_extensions import override
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

from fastcoder_lsp.workspace.watch_problems import WatchProblems

log = logging.getLogger(__name__)


Changed = Callable[[Iterable[Path], Iterable[Path]], None]
"""Receives files and folders. The watcher's thread calls it, so it must return at once."""

NOISY_FOLDERS = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
)
"""Folders whose events are dropped, because tools write to them all the time."""
EXCLUDE_FILE = (".git", "info", "exclude")  # the one file in them that contains reading rules
_EVENT_TYPES: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
    *((FileAttribEvent,) if sys.platform == "win32" else ()),
]
"""Filtered by the system, so that reading ten thousand files does not overflow its queue.

On Windows a text that was written and then given an older time is reported as a change of attributes.
"""
_NETWORK_FILE_SYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "drvfs", "vboxsf", "fuse.sshfs")
)
"""File systems that do not report changes made on other machines."""
_POLL_S = 5.0
_MIN_RESTART_S = 10.0  # the least time between two starts of a watcher that keeps ending or cannot start
_LIMITS = Path("/proc/sys/fs/inotify")


@dataclass(slots=True)
class _Watch:
    """The watch of one folder. `identity`: the folder that had the name at the start, None if there was none."""

    identity: tuple[int, int] | None
    observer: BaseObserver | None = None
    problems: WatchProblems = field(default_factory=WatchProblems)
    failed: bool = False
    since: float = field(default_factory=time.monotonic)


class Watcher:
    """Watches folders for one thread; `changed` receives paths, `notice` is called once if watches run out."""

    def __init__(self, changed: Changed, notice: Callable[[str], None] = log.warning) -> None:
        self._changed, self._notice = changed, notice
        self._watches: dict[Path, _Watch] = {}
        self._noticed = False

    def watch(self, root: Path) -> bool:
        """Watch a folder; returns whether all changes in it will be reported."""
        if root not in self._watches:
            self._watches[root] = self._start(root)
            self._report_limit(self._watches[root])
        return not self._is_incomplete(self._watches[root])

    def unwatch(self, root: Path) -> None:
        """Stop watching a folder."""
        watch = self._watches.pop(root, None)
        if watch is not None:
            _stop(watch.observer)

    def close(self) -> None:
        """Stop watching all folders and end all threads."""
        for root in list(self._watches):
            self.unwatch(root)

    def incomplete(self) -> bool:
        """Whether some folders' changes are not reported, so that they must be scanned regularly."""
        return any(map(self._is_incomplete, self._watches.values()))

    def repair(self) -> bool:
        """Check and repair the watches, about once a second; returns whether everything must be scanned."""
        missed = False
        for root, watch in list(self._watches.items()):
            missed |= self._repair(root, watch)
        return missed

    def retry(self) -> None:
        """Retry folders without a watch: other programs may have freed watches, or the limit was raised."""
        for root, watch in list(self._watches.items()):
            if self._is_incomplete(watch) and time.monotonic() - watch.since >= _MIN_RESTART_S:
                self._renew(root)

    def _repair(self, root: Path, watch: _Watch) -> bool:
        problems = watch.problems
        self._report_limit(watch)
        lost, problems.lost = problems.lost, False
        ended = watch.observer is not None and not _is_alive(watch.observer)
        opened = any(os.access(folder, os.R_OK | os.X_OK) for folder in tuple(problems.closed))
        if watch.identity != _identity(root) or problems.broken or opened or ended:
            if watch.identity == _identity(root) and time.monotonic() - watch.since < _MIN_RESTART_S:
                return lost
            self._renew(root)
            return True
        return lost

    def _renew(self, root: Path) -> None:
        self.unwatch(root)
        self.watch(root)

    def _start(self, root: Path) -> _Watch:
        watch = _Watch(_identity(root))
        if watch.identity is None:
            return watch  # wait until the folder appears
        polled = _file_system(root) in _NETWORK_FILE_SYSTEMS
        watch.failed = True
        observer: BaseObserver | None = None
        try:
            observer = PollingObserver(timeout=_POLL_S) if polled else _observer(root, watch.problems)
            observer.schedule(Handler(self._changed, root), str(root), recursive=True, event_filter=_EVENT_TYPES)
            observer.start()
        except (OSError, RuntimeError) as error:
            log.warning("cannot watch %s (%s); scanning it regularly instead", root, error)
            _stop(observer)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EMFILE):
                watch.problems.limit = error
            return watch
        watch.observer, watch.failed = observer, False
        return watch

    def _report_limit(self, watch: _Watch) -> None:
        limit = watch.problems.limit
        if limit is not None and not self._noticed:
            self._noticed = True
            self._notice(_explain(limit))

    @staticmethod
    def _is_incomplete(watch: _Watch) -> bool:
        return watch.failed or watch.problems.limit is not None


class Handler(FileSystemEventHandler):
    """Passes on the paths of events below `root`; `reports_folders`: the system tells a deleted folder."""

    def __init__(self, changed: Changed, root: Path, *, reports_folders: bool = sys.platform != "win32") -> None:
        self._changed, self._root, self._reports_folders = changed, str(root), reports_folders

    @override
    def on_any_event(self, event: FileSystemEvent) -> None:
        names = [os.fsdecode(name) for name in (event.src_path, event.dest_path) if name]
        paths = [Path(name) for name in names if not is_noise(name.removeprefix(self._root))]
        if not paths:
            return
        if isinstance(event, DirCreatedEvent | DirDeletedEvent | DirMovedEvent):
            self._changed((), paths)
        elif not self._reports_folders and isinstance(event, FileDeletedEvent | FileMovedEvent):
            self._changed(paths, paths)
        else:
            self._changed(paths, ())


def is_noise(below: str) -> bool:
    """Whether changes of a path, relative to its workspace folder, are not reported."""
    parts = Path(below).parts
    return not NOISY_FOLDERS.isdisjoint(parts) and parts[-3:] != EXCLUDE_FILE


def _observer(root: Path, problems: WatchProblems) -> BaseObserver:
    if sys.platform == "darwin":
        from fastcoder_lsp.workspace import fsevents  # noqa: PLC0415 of one system only

        return fsevents.Observer(problems)
    if sys.platform == "win32":
        from fastcoder_lsp.workspace import directory_changes  # noqa: PLC0415 of one system only

        return directory_changes.Observer(problems)
    if sys.platform != "linux":
        from watchdog.observers import Observer  # noqa: PLC0415 what is best elsewhere

        return Observer()
    from fastcoder_lsp.workspace import inotify  # noqa: PLC0415 of one system only

    def should_watch(folder: Path) -> bool:
        parts = Path(str(folder).removeprefix(str(root)).strip(os.sep)).parts
        return NOISY_FOLDERS.isdisjoint(parts) or parts in (EXCLUDE_FILE[:1], EXCLUDE_FILE[:2])

    return inotify.Observer(should_watch, problems)


def _stop(observer: BaseObserver | None) -> None:
    if observer is not None:
        observer.stop()
        if observer.ident is not None:
            observer.join()


def _is_alive(observer: BaseObserver) -> bool:
    descriptor = getattr(observer, "descriptor", None)
    threads = (observer, *observer.emitters, *(() if descriptor is None else (descriptor,)))
    return all(thread.is_alive() for thread in threads)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _explain(limit: OSError) -> str:
    setting = "max_user_instances" if limit.errno == errno.EMFILE else "max_user_watches"
    try:
        present = int((_LIMITS / setting).read_text(encoding="ascii"))
    except (OSError, ValueError):
        present = 0
    should_watch = max(4 * present, 1024 if setting == "max_user_instances" else 524_288)
    known = f" is {present}" if present else ""
    return (
        f"No file watches are left (fs.inotify.{setting}{known}), so fastcoder notices some changes "
        "outside the editor only about once a minute. Raise the limit: "
        f"sudo sysctl fs.inotify.{setting}={should_watch}"
    )


def _file_system(path: Path) -> str:
    """The type of the file system that holds `path`, "" if unknown."""
    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:
        return ""
    holding = [mount for mount in mounts if path.is_relative_to(mount.mountpoint)]
    return max(holding, key=lambda mount: len(mount.mountpoint)).fstype if holding else ""
