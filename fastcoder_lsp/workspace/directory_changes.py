"""Watching on Windows by ReadDirectoryChangesW; reports overflows and failures, which watchdog ignores.

An empty buffer means that more happened than it holds, and all of it is lost. If the call fails, watchdog's reading
thread ends silently. (Microsoft: ReadDirectoryChangesW, Remarks.)
"""

import logging
import queue
from contextlib import suppress
from typing import Any

from typing_extensions import override
from watchdog.observers.api import BaseObserver
from watchdog.observers.read_directory_changes import WindowsApiEmitter
from watchdog.observers.winapi import DirectoryChangeReader, _close_directory_handle, _get_directory_handle

from fastcoder_lsp.workspace.watch_problems import WatchProblems

log = logging.getLogger(__name__)

BATCH, BATCH_S = 64, 0.05  # the most buffers that are reported together, and the pause in seconds that ends a batch
Buffer = tuple[bytes, bool]  # the result of a call, and which of two forms it has


class Observer(BaseObserver):
    """Watches folders; `problems` records lost events."""

    def __init__(self, problems: WatchProblems) -> None:
        super().__init__(_Emitter, problems=problems)


class _Emitter(WindowsApiEmitter):
    def __init__(self, *arguments: Any, problems: WatchProblems, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._problems = problems

    @override
    def on_thread_start(self) -> None:
        # Raise OSError here if the folder cannot be watched; watchdog's own thread would hide it.
        _close_directory_handle(_get_directory_handle(self.watch.path))
        with self._lock:
            self._reader = reader = _ChangeReader(self.watch.path, self._problems, recursive=self.watch.is_recursive)
        with suppress(queue.Empty):  # it waits only two seconds for the thread to start
            reader.start()


class _ChangeReader(DirectoryChangeReader):
    def __init__(self, path: str, problems: WatchProblems, *, recursive: bool) -> None:
        super().__init__(path, recursive=recursive)
        self._problems, self._buf_queue = problems, _BufferQueue(problems)

    @override
    def _run(self) -> None:
        try:
            super()._run()
        except OSError as error:
            log.info("restarting the watcher of %s: it cannot read changes (%s)", self._path, error)
            self._problems.broken = True


class _BufferQueue(queue.Queue[Buffer]):
    """Buffers from the reading thread to the parsing one. The first one is empty: reading began."""

    def __init__(self, problems: WatchProblems) -> None:
        super().__init__()
        self._problems, self._began, self._batched = problems, False, 0

    @override
    def put(self, item: Buffer, block: bool = True, timeout: float | None = None) -> None:
        if self._began and not item[0]:
            self._problems.lost = True
        self._began = True
        super().put(item, block, timeout)

    @override
    def get(self, block: bool = True, timeout: float | None = None) -> Buffer:
        # Watchdog reports buffers only when none comes for a second. Raising Empty ends that sooner: after a short
        # pause, or after a full batch.
        if self._batched >= BATCH:
            self._batched = 0
            raise queue.Empty
        try:
            buffer = super().get(block, min(BATCH_S, timeout or BATCH_S) if self._batched else timeout)
        except queue.Empty:
            self._batched = 0
            raise
        self._batched += 1
        return buffer
