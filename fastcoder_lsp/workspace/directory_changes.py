"""Windows' way of watching, with what watchdog does not tell: that the system's buffer ran over.

Owns the one place where ReadDirectoryChangesW's buffers come in. An empty one says that more happened than it holds,
and that all of it is forgotten; or the call fails, after which watchdog's reading thread ends and nobody hears of it.
Both are told here (`Gaps`). (Microsoft: ReadDirectoryChangesW, Remarks.)
"""

import logging
import queue
from contextlib import suppress
from typing import Any

from watchdog.observers.api import BaseObserver
from watchdog.observers.read_directory_changes import WindowsApiEmitter
from watchdog.observers.winapi import DirectoryChangeReader, _close_directory_handle, _get_directory_handle

from fastcoder_lsp.workspace.gaps import Gaps

log = logging.getLogger(__name__)

TOGETHER, TOGETHER_S = 64, 0.05
"""Buffers that are told together at most, and the pause in seconds after which those that came are told."""
Buffer = tuple[bytes, bool]
"""What a call gave, and in which of two forms."""


class Observer(BaseObserver):
    """Watches folders by ReadDirectoryChangesW.

    Args:
        gaps: told what is not.
    """

    def __init__(self, gaps: Gaps) -> None:
        super().__init__(_Emitter, gaps=gaps)


class _Emitter(WindowsApiEmitter):
    """Reads by a reader of ours."""

    def __init__(self, *arguments: Any, gaps: Gaps, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._gaps = gaps

    def on_thread_start(self) -> None:
        """As watchdog's, with another reader.

        Raises:
            OSError: the folder cannot be watched, which watchdog's thread would find out by itself and keep to itself.
        """
        _close_directory_handle(_get_directory_handle(self.watch.path))
        with self._lock:
            self._reader = reader = _Reader(self.watch.path, self._gaps, recursive=self.watch.is_recursive)
        with suppress(queue.Empty):  # it waits two seconds for the thread to begin, which a busy machine may take
            reader.start()


class _Reader(DirectoryChangeReader):
    """Tells `Gaps` what watchdog keeps to itself."""

    def __init__(self, path: str, gaps: Gaps, *, recursive: bool) -> None:
        super().__init__(path, recursive=recursive)
        self._gaps, self._buf_queue = gaps, _Buffers(gaps)

    def _run(self) -> None:
        try:
            super()._run()
        except OSError as error:
            log.info("restarting the watcher of %s: it cannot read changes (%s)", self._path, error)
            self._gaps.broken = True


class _Buffers(queue.Queue[Buffer]):
    """From the thread that reads to the one that understands; the first, an empty one, says that reading began."""

    def __init__(self, gaps: Gaps) -> None:
        super().__init__()
        self._gaps, self._began, self._in_a_row = gaps, False, 0

    def put(self, item: Buffer, block: bool = True, timeout: float | None = None) -> None:
        """One more, and what it says of others."""
        if self._began and not item[0]:
            self._gaps.lost = True
        self._began = True
        super().put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Buffer:
        """The next one. Watchdog takes until none comes for a second, and tells of none before: that ends sooner here.

        Raises:
            queue.Empty: none came, or enough have.
        """
        if self._in_a_row >= TOGETHER:
            self._in_a_row = 0
            raise queue.Empty
        try:
            buffer = super().get(block, min(TOGETHER_S, timeout or TOGETHER_S) if self._in_a_row else timeout)
        except queue.Empty:
            self._in_a_row = 0
            raise
        self._in_a_row += 1
        return buffer
