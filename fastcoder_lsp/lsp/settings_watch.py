"""Watches the settings files while the server runs.

A thread compares the files' stamps. It sees every way to replace a file, also where links lead, and needs none of the
system's watches, of which there are few. While the client sends nothing, it seldom looks, so that the processor sleeps.
"""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fastcoder_lsp.workspace.regular import FileStamp, file_stamp

EVERY_S = 0.5
AWAKE_S = 20.0
"""After so long without a message, files are looked at every `SELDOM_S`, and at the next message."""
SELDOM_S = 30.0


class SettingsWatch:
    """Calls `changed`, in its thread, once a changed file has rested for `EVERY_S`: programs write in several steps.

    `paths` gives the files to watch, whether they exist or not.
    """

    def __init__(self, paths: Callable[[], Iterable[Path]], changed: Callable[[], None]) -> None:
        self._paths, self._changed = paths, changed
        self._stopped, self._news, self._rests = threading.Event(), threading.Event(), False
        self._active_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="fastcoder-settings", daemon=True)
        self._seen = self._latest = self._stamps()

    def start(self) -> None:
        """Begin to watch; changes since this object was made count."""
        self._thread.start()

    def active(self) -> None:
        """The client has sent a message: look soon."""
        self._active_s = time.monotonic()
        if self._rests:
            self._news.set()

    def stop(self) -> None:
        """Stop watching; returns at once."""
        self._stopped.set()
        self._news.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            settled = self._latest == self._seen
            self._rests = settled and time.monotonic() - self._active_s > AWAKE_S
            self._news.wait(SELDOM_S if self._rests else EVERY_S)
            self._news.clear()
            if not self._stopped.is_set():
                self.look()

    def look(self) -> None:
        """Look at the files once."""
        before, self._latest = self._latest, self._stamps()
        if self._latest == before and self._latest != self._seen:
            self._seen = self._latest
            self._changed()

    def _stamps(self) -> dict[Path, FileStamp | None]:
        return {path: file_stamp(path) for path in self._paths()}
