"""Watching on Linux by inotify; reports folders without a watch and lost events, which watchdog ignores.

Watchdog goes on without the folders that it gets no watch for. Folders that tools fill get no watch, because all
programs of a user share a limited number.
"""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import CallbackId, InotifyEvent, InotifyFD, Mask, WatchCallback, WatchDescriptor

from fastcoder_lsp.workspace.watch_problems import WatchProblems

log = logging.getLogger(__name__)

_GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
_NO_WATCH = -1


class Observer(BaseObserver):
    """Watches the folders for which `should_watch` is true; `problems` records the others."""

    def __init__(self, should_watch: Callable[[Path], bool], problems: WatchProblems) -> None:
        self.descriptor = _Descriptor(should_watch, problems)
        self.descriptor.start()
        super().__init__(InotifyEmitter, inotify_fd=self.descriptor)

    @override
    def on_thread_stop(self) -> None:
        # Also called if the thread never started.
        super().on_thread_stop()
        self.descriptor.stop()
        self.descriptor.join()


class _Descriptor(InotifyFD):
    def __init__(self, should_watch: Callable[[Path], bool], problems: WatchProblems) -> None:
        super().__init__()
        self._should_watch, self._problems = should_watch, problems

    @override
    def add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
        # If this raises, watchdog goes on without the watch, except for the root's.
        folder = Path(os.fsdecode(path))
        if not self._should_watch(folder):
            raise FileNotFoundError(errno.ENOENT, "not to be watched", str(folder))
        try:
            descriptor = super().add_callback(path, mask, callback, id_)
        except OSError as error:
            if error.errno not in _GONE:
                self._problems.limit = error
            raise
        if descriptor == _NO_WATCH:
            self._problems.closed.add(folder)
        return descriptor

    @override
    def handle_event(self, event: InotifyEvent) -> None:
        if event.is_queue_overflow:
            self._problems.lost = True
        try:
            super().handle_event(event)
        except (KeyError, RecursionError):
            # Watchdog 7.1 confuses folders of one name that were moved out, made again and deleted, and recurses into a
            # new tree of any depth. The thread must survive both.
            log.info("restarting the watcher: it lost track of its folders")
            self._problems.broken = True
