"""Watching folders for changes on the disk; with `inotify`, `fsevents` and `directory_changes` all that knows watchdog.

Owns turning a system's events into two sets, of files and of folders that something happened to, and knowing when not
all of them come (`tend`, `blind`). What happened is not told: whoever is told looks at the disk, which coalesces bursts
and survives events that come late, twice or not at all.
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

from fastcoder_lsp.workspace.gaps import Gaps

log = logging.getLogger(__name__)

Changed = Callable[[Iterable[Path], Iterable[Path]], None]
"""Told files and folders; called by the watcher's thread, and to return at once."""

QUIET = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"))
"""Folders whose events are dropped unseen, because tools write to them all the time."""
EXCLUDE_FILE = (".git", "info", "exclude")
"""The one file of theirs that says what may be read."""
_WANTED: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
    *((FileAttribEvent,) if sys.platform == "win32" else ()),
]
"""Asked of the system itself: a type checker that reads ten thousand files must not overflow its queue. On Windows a
text that was written and then given an older time is told as a change of attributes."""
_NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "drvfs", "vboxsf", "fuse.sshfs"))
"""File systems that do not tell of changes made elsewhere."""
_POLL_S = 5.0
_AGAIN_S = 10.0
"""A watcher that ends again and again, or cannot begin, is begun no more often."""
_LIMITS = Path("/proc/sys/fs/inotify")


@dataclass(slots=True)
class _Watch:
    """One folder's. `identity`: which folder had the name then, None where there was none."""

    identity: tuple[int, int] | None
    observer: BaseObserver | None = None
    gaps: Gaps = field(default_factory=Gaps)
    failed: bool = False
    since: float = field(default_factory=time.monotonic)


class Watcher:
    """Watches folders and everything below them. All methods are for one thread.

    Args:
        changed: told what changed.
        notice: told once if the system has no more watches.
        may_poll: whether to poll file systems that tell nothing of themselves.
    """

    def __init__(self, changed: Changed, notice: Callable[[str], None] = log.warning, *, may_poll: bool = True) -> None:
        self._changed, self._notice, self._may_poll = changed, notice, may_poll
        self._watches: dict[Path, _Watch] = {}
        self._noticed = False

    def watch(self, root: Path) -> bool:
        """Watch one more folder. Returns whether all changes in it will be told; else see `blind`."""
        if root not in self._watches:
            self._watches[root] = self._begin(root)
            self._tell(self._watches[root])
        return not self._is_blind(self._watches[root])

    def unwatch(self, root: Path) -> None:
        """Watch a folder no more."""
        watch = self._watches.pop(root, None)
        if watch is not None:
            _end(watch.observer)

    def close(self) -> None:
        """Watch nothing more; no thread is left."""
        for root in list(self._watches):
            self.unwatch(root)

    def blind(self) -> bool:
        """Whether there are folders whose changes are not told: they must be looked at now and then."""
        return any(map(self._is_blind, self._watches.values()))

    def tend(self) -> bool:
        """See how watching goes; to be called about once a second. Costs a look at each folder.

        Returns:
            Whether changes may have been missed until now: everything is to be looked at then.
        """
        missed = False
        for root, watch in list(self._watches.items()):
            missed |= self._tend(root, watch)
        return missed

    def try_again(self) -> None:
        """Watch anew what could not be watched: other programs may have let go of watches, or the limit was raised."""
        for root, watch in list(self._watches.items()):
            if self._is_blind(watch) and time.monotonic() - watch.since >= _AGAIN_S:
                self._renew(root)

    def _tend(self, root: Path, watch: _Watch) -> bool:
        gaps = watch.gaps
        self._tell(watch)
        lost, gaps.lost = gaps.lost, False
        ended = watch.observer is not None and not _is_whole(watch.observer)
        opened = any(os.access(folder, os.R_OK | os.X_OK) for folder in tuple(gaps.closed))
        if watch.identity != _identity(root) or gaps.broken or opened or ended:
            if watch.identity == _identity(root) and time.monotonic() - watch.since < _AGAIN_S:
                return lost
            self._renew(root)
            return True
        return lost

    def _renew(self, root: Path) -> None:
        self.unwatch(root)
        self.watch(root)

    def _begin(self, root: Path) -> _Watch:
        watch = _Watch(_identity(root))
        if watch.identity is None:
            return watch  # there is nothing to see until it comes
        polled = _file_system(root) in _NETWORK
        watch.failed = True
        if polled and not self._may_poll:
            return watch
        observer: BaseObserver | None = None
        try:
            observer = PollingObserver(timeout=_POLL_S) if polled else _observer(root, watch.gaps)
            observer.schedule(Handler(self._changed, root), str(root), recursive=True, event_filter=_WANTED)
            observer.start()
        except (OSError, RuntimeError) as error:
            log.warning("cannot watch %s (%s); scanning it regularly instead", root, error)
            _end(observer)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EMFILE):
                watch.gaps.limit = error
            return watch
        watch.observer, watch.failed = observer, False
        return watch

    def _tell(self, watch: _Watch) -> None:
        limit = watch.gaps.limit
        if limit is not None and not self._noticed:
            self._noticed = True
            self._notice(_explain(limit))

    @staticmethod
    def _is_blind(watch: _Watch) -> bool:
        return watch.failed or watch.gaps.limit is not None


class Handler(FileSystemEventHandler):
    """Hands paths below `root` on; `dest_path` too, where something moved.

    Args:
        changed: told them.
        root: what is watched.
        knows_folders: whether the system says of what is gone that it was a folder; Windows does not.
    """

    def __init__(self, changed: Changed, root: Path, *, knows_folders: bool = sys.platform != "win32") -> None:
        self._changed, self._root, self._knows_folders = changed, str(root), knows_folders

    def on_any_event(self, event: FileSystemEvent) -> None:
        """See `FileSystemEventHandler`."""
        names = [os.fsdecode(name) for name in (event.src_path, event.dest_path) if name]
        paths = [Path(name) for name in names if not is_quiet(name.removeprefix(self._root))]
        if not paths:
            return
        if isinstance(event, DirCreatedEvent | DirDeletedEvent | DirMovedEvent):
            self._changed((), paths)
        elif not self._knows_folders and isinstance(event, FileDeletedEvent | FileMovedEvent):
            self._changed(paths, paths)
        else:
            self._changed(paths, ())


def is_quiet(below: str) -> bool:
    """Whether nothing is to be told of a path, given by what follows its workspace folder."""
    parts = Path(below).parts
    return not QUIET.isdisjoint(parts) and parts[-3:] != EXCLUDE_FILE


def _observer(root: Path, gaps: Gaps) -> BaseObserver:
    if sys.platform == "darwin":
        from fastcoder_lsp.workspace import fsevents  # noqa: PLC0415 of one system only

        return fsevents.Observer(gaps)
    if sys.platform == "win32":
        from fastcoder_lsp.workspace import directory_changes  # noqa: PLC0415 of one system only

        return directory_changes.Observer(gaps)
    if sys.platform != "linux":
        from watchdog.observers import Observer  # noqa: PLC0415 what is best elsewhere

        return Observer()
    from fastcoder_lsp.workspace import inotify  # noqa: PLC0415 of one system only

    def wanted(folder: Path) -> bool:
        parts = Path(str(folder).removeprefix(str(root)).strip(os.sep)).parts
        return QUIET.isdisjoint(parts) or parts in (EXCLUDE_FILE[:1], EXCLUDE_FILE[:2])

    return inotify.Observer(wanted, gaps)


def _end(observer: BaseObserver | None) -> None:
    """Stop an observer, one that was never started too: it has threads already."""
    if observer is not None:
        observer.stop()
        if observer.ident is not None:
            observer.join()


def _is_whole(observer: BaseObserver) -> bool:
    """Whether all threads that it takes are there."""
    descriptor = getattr(observer, "descriptor", None)
    threads = (observer, *observer.emitters, *(() if descriptor is None else (descriptor,)))
    return all(thread.is_alive() for thread in threads)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which folder has this name now."""
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
    wanted = max(4 * present, 1024 if setting == "max_user_instances" else 524_288)
    known = f" is {present}" if present else ""
    return (
        f"No file watches are left (fs.inotify.{setting}{known}), so fastcoder notices some changes "
        "outside the editor only about once a minute. Raise the limit: "
        f"sudo sysctl fs.inotify.{setting}={wanted}"
    )


def _file_system(path: Path) -> str:
    """The type of the file system that holds `path`, "" if unknown."""
    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:
        return ""
    holding = [mount for mount in mounts if path.is_relative_to(mount.mountpoint)]
    return max(holding, key=lambda mount: len(mount.mountpoint)).fstype if holding else ""
