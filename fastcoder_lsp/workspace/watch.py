"""Watching folders for changes on the disk; the only module that knows watchdog.

Owns turning a system's events into two sets, of files and of folders that something happened to. What happened is not
told: whoever is told looks at the disk, which coalesces bursts and survives events that come late, twice or not at all.
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

log = logging.getLogger(__name__)

Changed = Callable[[Iterable[Path], Iterable[Path]], None]
"""Told files and folders; called by the watcher's thread, and to return at once."""

_QUIET = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
)
"""Folders whose events are dropped unseen, because tools write to them all the time."""
_WANTED: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
]
"""Asked of the system itself: a type checker that reads ten thousand files must not overflow its queue."""
_NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "drvfs", "vboxsf", "fuse.sshfs"))
"""File systems that do not tell of changes made elsewhere."""
_POLL_S = 5.0


class Watcher:
    """Watches folders and everything below them.

    Args:
        changed: told what changed.
        may_poll: whether to poll file systems that tell nothing of themselves.
    """

    def __init__(self, changed: Changed, *, may_poll: bool = True) -> None:
        self._handler = _Handler(changed)
        self._may_poll = may_poll
        self._observers: dict[Path, BaseObserver] = {}

    def watch(self, root: Path) -> bool:
        """Watch one more folder. Returns whether that is possible; else it must be looked at now and then."""
        if root in self._observers:
            return True
        polled = _file_system(root) in _NETWORK
        if polled and not self._may_poll:
            return False
        observer = PollingObserver(timeout=_POLL_S) if polled else Observer()
        try:
            observer.schedule(self._handler, str(root), recursive=True, event_filter=_WANTED)
            observer.start()
        except (OSError, RuntimeError) as error:
            log.warning("%s cannot be watched (%s); it is looked through now and then instead", root, error)
            return False
        self._observers[root] = observer
        return True

    def unwatch(self, root: Path) -> None:
        """Watch a folder no more."""
        observer = self._observers.pop(root, None)
        if observer is not None:
            observer.stop()
            observer.join()

    def close(self) -> None:
        """Watch nothing more; no thread is left."""
        for root in list(self._observers):
            self.unwatch(root)


class _Handler(FileSystemEventHandler):
    """Hands paths on; `dest_path` too, where something moved."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed

    def on_any_event(self, event: FileSystemEvent) -> None:
        paths = [Path(os.fsdecode(name)) for name in (event.src_path, event.dest_path) if name]
        paths = [path for path in paths if _QUIET.isdisjoint(path.parts)]
        if not paths:
            return
        if isinstance(event, DirCreatedEvent | DirDeletedEvent | DirMovedEvent):
            self._changed((), paths)
        else:
            self._changed(paths, ())


def _file_system(path: Path) -> str:
    """The type of the file system that holds `path`, "" if unknown."""
    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:
        return ""
    holding = [mount for mount in mounts if path.is_relative_to(mount.mountpoint)]
    return max(holding, key=lambda mount: len(mount.mountpoint)).fstype if holding else ""
