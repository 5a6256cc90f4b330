"""Background threads: low priority, their CPU time, pauses after failed writes, and a machine that slept."""

import errno
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MIN_PAUSE_S, MAX_PAUSE_S = 5.0, 300.0
_ROOM = 1_000_000  # a full disk is retried early once so many bytes have become free
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
_CLOSED = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


class RetryPolicy:
    """When to retry a failed write in `folder`: after growing pauses, or once a full disk has room. Not thread-safe."""

    def __init__(self, folder: Path, notice: Callable[[str], None]) -> None:
        self._folder, self._notice = folder, notice
        self._pause_s, self._until, self._free = MIN_PAUSE_S, 0.0, -1

    def failed(self, error: OSError) -> None:
        """Report a failed write to the log and the user, and start a pause."""
        log.warning("cannot update the index (trying again in %.0f s): %s", self._pause_s, error)
        self._until = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
        self._free = _free(self._folder) if error.errno in _FULL else -1
        self._notice(_explain(error, self._folder))

    def succeeded(self) -> None:
        """Reset the pause after a successful write."""
        self._pause_s, self._until, self._free = MIN_PAUSE_S, 0.0, -1

    def may_try(self) -> bool:
        """Whether no pause is running."""
        return time.monotonic() >= self._until or (self._free >= 0 and _free(self._folder) > self._free + _ROOM)


def each_once(notice: Callable[[str], None]) -> Callable[[str], None]:
    """A `notice` that passes on each text once."""
    seen: set[str] = set()

    def pass_on(text: str) -> None:
        if text not in seen:
            seen.add(text)
            notice(text)

    return pass_on


def _explain(error: OSError, folder: Path) -> str:
    if error.errno in _FULL:
        return (
            f"The disk is full, so the index in {folder} is out of date. Suggestions continue. "
            "Free some space; the index then updates by itself."
        )
    reason = error.strerror or str(error)
    if error.errno in _CLOSED:
        return (
            f"The index in {folder} is not writable ({reason}), so suggestions are slower. "
            "Make it writable for you, or set FASTCODER_CACHE to another folder."
        )
    return (
        f"The index in {folder} cannot be updated ({reason}). Suggestions continue, and fastcoder tries again. "
        "Check that you can write to this folder."
    )


def _free(folder: Path) -> int:
    for above in (folder, *folder.parents):
        try:
            return shutil.disk_usage(above).free
        except OSError:
            continue
    return -1


def lower_priority() -> None:
    """Let the engine and requests go first. Only Linux sets the priority of a single thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class ThreadTimes:
    """The CPU seconds of some threads, as far as they have told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[int, float] = {}
        self.seconds = 0.0

    def tell(self) -> None:
        """Add the time of this thread since its last call, or since its start."""
        now_s, name = time.thread_time(), threading.get_ident()
        with self._lock:
            before_s = self._told.get(name, 0.0)
            # The system gives the name of a thread that has ended to a new one.
            self.seconds += now_s - before_s if now_s >= before_s else now_s
            self._told[name] = now_s


SLEEP_S: Final = 60.0  # a wait takes a second; even a busy machine does not add so much


class SleepDetector:
    """Detects that the machine slept, or this process was stopped, during a wait.

    The monotonic clock stops during sleep on Linux and macOS, but not on Windows; the wall clock may be set. Both are
    in seconds.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self.begin()

    def begin(self) -> None:
        """Begin a wait."""
        self._began = self._wall(), self._monotonic()

    def slept(self) -> bool:
        """Whether either clock shows a far longer wait. A clock that is set back proves nothing."""
        wall_s, steady_s = self._began
        return max(self._wall() - wall_s, self._monotonic() - steady_s) > SLEEP_S
