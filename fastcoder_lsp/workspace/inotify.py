"""Linux's way of watching, with what watchdog does not tell: folders that got no watch, and events that were lost.

Owns the one place where watchdog adds a watch and hands on an event. Watchdog passes over folders below the root that
it gets no watch for, and goes on as if it had; here somebody is told (`Gaps`). Folders that tools fill get no watch at
all: there are only so many for all programs of a user.
"""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import CallbackId, InotifyEvent, InotifyFD, Mask, WatchCallback, WatchDescriptor

from fastcoder_lsp.workspace.gaps import Gaps

log = logging.getLogger(__name__)

_GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
_NO_WATCH = -1


class Observer(BaseObserver):
    """Watches folders by inotify.

    Args:
        wanted: whether a folder is to be watched.
        gaps: told what is not.
    """

    def __init__(self, wanted: Callable[[Path], bool], gaps: Gaps) -> None:
        self.descriptor = _Descriptor(wanted, gaps)
        self.descriptor.start()
        super().__init__(InotifyEmitter, inotify_fd=self.descriptor)

    def on_thread_stop(self) -> None:
        """Ends with the thread, or before it began."""
        super().on_thread_stop()
        self.descriptor.stop()
        self.descriptor.join()


class _Descriptor(InotifyFD):
    """Tells `Gaps` what watchdog keeps to itself."""

    def __init__(self, wanted: Callable[[Path], bool], gaps: Gaps) -> None:
        super().__init__()
        self._wanted, self._gaps = wanted, gaps

    def add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
        """Watch one folder more. Watchdog does without where this raises, but for the root."""
        folder = Path(os.fsdecode(path))
        if not self._wanted(folder):
            raise FileNotFoundError(errno.ENOENT, "not to be watched", str(folder))
        try:
            descriptor = super().add_callback(path, mask, callback, id_)
        except OSError as error:
            if error.errno not in _GONE:
                self._gaps.limit = error
            raise
        if descriptor == _NO_WATCH:
            self._gaps.closed.add(folder)
        return descriptor

    def handle_event(self, event: InotifyEvent) -> None:
        """One event; the thread must outlive what watchdog's bookkeeping makes of it."""
        if event.is_queue_overflow:
            self._gaps.lost = True
        try:
            super().handle_event(event)
        except (KeyError, RecursionError):
            # Folders of one name that were moved out, made anew and deleted: watchdog 7.1 takes one for the other.
            # Or a tree of a thousand levels came, which it goes through by recursion.
            log.info("restarting the watcher: it lost track of its folders")
            self._gaps.broken = True
