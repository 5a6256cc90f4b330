"""What a live index has still to do: told by any thread, done by one.

Owns the lock between them, and when everything is to be looked at anew: at once where it was asked for, after a while
where changes may have been lost, and never so often that nothing else is done.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.inbox import MOST

BURST = MOST
"""After so many changed files everything is looked at where a system's queue loses changes in silence."""
_SILENT = sys.platform != "linux"
_TICK_S = 1.0
_RESCAN_S = 20.0
"""Where changes are not all told, everything is looked at so often, if that is cheap: see `_SHARE`."""
_SHARE, _BLIND_SHARE = 2, 20
"""Looking at everything waits for this many times the processor's time that it last took: after bursts (but for
`_LONGEST_S` at most), and where nothing is told."""
_LONGEST_S = 30.0


class Backlog:
    """What is to be done. Every method may be called by any thread, those that say so by the one that does it only.

    Args:
        folders: the workspace's folders at the start, with their settings.
        pause_over: whether what failed may be tried again.

    Attributes:
        lock: guards all of it; notified of every change.
        wanted: folders whose stores are not open yet as their settings say; None where all are.
        stopping: nothing more is to be done.
        scanned_at: when everything was looked at last, on the monotonic clock (s).
    """

    def __init__(self, folders: Mapping[Path, Settings], pause_over: Callable[[], bool]) -> None:
        self.lock = threading.Condition()
        self.wanted: Mapping[Path, Settings] | None = dict(folders)
        self.stopping = False
        self.scanned_at = time.monotonic()
        self._scan_s = 0.0
        self._pause_over = pause_over
        self._refused: Mapping[Path, Settings] | None = None
        self._trying: Mapping[Path, Settings] | None = None
        self._many: dict[Path, None] = {}
        self._told = 0  # changed files, since so many of them made all be looked at
        self._rescan, self._at_once, self._working = True, True, False

    def stop(self) -> None:
        """End the work: nothing more is to be done."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()

    def want(self, folders: Mapping[Path, Settings]) -> None:
        """Other folders, or other settings for them: their stores are opened, and everything is looked at."""
        with self.lock:
            self.wanted = dict(folders)
            self.rescan()

    def rescan(self) -> None:
        """Ask for everything to be looked at, at once."""
        with self.lock:
            self._rescan = self._at_once = True
            self.lock.notify_all()

    def counts_too_many(self, files: int) -> bool:
        """So many more files have changed; whether that is so many that others may have changed in silence."""
        self._told += files
        return _SILENT and self._told > BURST

    def hand_on(self, paths: Iterable[Path], *, everything: bool, at_once: bool) -> None:
        """These files are to be looked at, or everything, `at_once` or when it is due."""
        with self.lock:
            self._many.update(dict.fromkeys(paths))
            if everything or len(self._many) > BURST:
                self._rescan, self._told = True, 0
                self._many.clear()
            self._at_once |= at_once
            self.lock.notify_all()

    def done(self) -> bool:
        """Whether nothing is to be done or being done."""
        return not (self._many or self.wanted or self._rescan or self._working)

    def wait_done(self, timeout_s: float) -> bool:
        """Wait for that; whether it came."""
        with self.lock:
            return self.lock.wait_for(self.done, timeout_s)

    def interrupted(self) -> bool:
        """Other folders or settings hold from now on: what is being done is done again by those."""
        return self.stopping or self.wanted is not None

    def waits(self) -> bool:
        """Whether there is something to do that should not wait for long work."""
        return self.interrupted() or bool(self._many)

    # Of the thread that does it.

    def take_up(self) -> bool:
        """The work before is done: wait for more, for a second at most; whether to do what is due now."""
        with self.lock:
            self._working = False
            self.lock.notify_all()
            self.lock.wait_for(self._is_due, _TICK_S)
            self._working, self._trying = not self.stopping and self._may_try(), self.wanted
            return self._working

    def refused(self) -> None:
        """What was taken up failed: it is not tried again until the pause is over."""
        self._refused = self._trying

    def opened(self, folders: Mapping[Path, Settings]) -> None:
        """The stores of these folders are open; what was asked for meanwhile is done in the next round."""
        with self.lock:
            if self.wanted is folders:
                self.wanted = None
            self.lock.notify_all()

    def may_scan(self) -> bool:
        """Whether everything is to be looked at, and not so soon after the last time that nothing else is done."""
        rested = time.monotonic() - self.scanned_at >= min(_SHARE * self._scan_s, _LONGEST_S)
        return self._rescan and (self._at_once or rested)

    def unseen_for_long(self) -> bool:
        """Whether everything was looked at so long ago that, where not all changes are told, it is time to."""
        return time.monotonic() - self.scanned_at > max(_RESCAN_S, _BLIND_SHARE * self._scan_s)

    def begin_scan(self) -> None:
        """Begin to look at everything."""
        with self.lock:
            self._rescan = self._at_once = False

    def end_scan(self, took_s: float, *, done: bool) -> None:
        """It took `took_s` of the processor's time; if it is not `done`, it is to be done anew."""
        self.scanned_at = time.monotonic()
        self._scan_s = took_s
        if not done:
            self.rescan()

    def take_many(self) -> list[Path]:
        """The files that are to be looked at, which are the caller's now."""
        with self.lock:
            many, self._many = list(self._many), {}
        return many

    def _is_due(self) -> bool:
        due = self.wanted is not None or bool(self._many) or self.may_scan()
        return self.stopping or (due and self._may_try())

    def _may_try(self) -> bool:
        """What was not asked for before is tried at once; what failed, after a pause."""
        return (self.wanted is not None and self.wanted is not self._refused) or self._pause_over()
