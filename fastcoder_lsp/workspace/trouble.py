"""What to do about a disk that does not take what is to be written: say it once, and try again ever less often.

Owns the words and the pauses; the trying is the caller's. Nobody waits longer than he must: where a disk is full, room
on it ends the pause.
"""

import errno
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

FIRST_S, LONGEST_S = 5.0, 300.0
_ROOM = 1_000_000
"""Bytes that must have become free before a full disk is tried again early."""
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
_CLOSED = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


class Trouble:
    """One thing that can fail. Not for several threads at once.

    Args:
        folder: where it is written.
        notice: told what a person should know.
    """

    def __init__(self, folder: Path, notice: Callable[[str], None]) -> None:
        self._folder, self._notice = folder, notice
        self._pause_s, self._until, self._free = FIRST_S, 0.0, -1

    def met(self, error: OSError) -> None:
        """Writing failed: say it, and pause."""
        log.warning("the index could not be brought up to date (again in %.0f s): %s", self._pause_s, error)
        self._until = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_S)
        self._free = _free(self._folder) if error.errno in _FULL else -1
        self._notice(_explain(error, self._folder))

    def over(self) -> None:
        """Writing succeeded: the trouble is over."""
        self._pause_s, self._until, self._free = FIRST_S, 0.0, -1

    def may_try(self) -> bool:
        """Whether it is time to try (again)."""
        return time.monotonic() >= self._until or (self._free >= 0 and _free(self._folder) > self._free + _ROOM)


def each_once(notice: Callable[[str], None]) -> Callable[[str], None]:
    """A `notice` that tells each text once."""
    told: set[str] = set()

    def tell(text: str) -> None:
        if text not in told:
            told.add(text)
            notice(text)

    return tell


def _explain(error: OSError, folder: Path) -> str:
    if error.errno in _FULL:
        return (
            f"The disk is full: the index in {folder} is not kept up to date there. Suggestions go on, from what is "
            "stored and what is edited now. Free some space: the rest is done by itself then."
        )
    reason = error.strerror or str(error)
    if error.errno in _CLOSED:
        return (
            f"The index in {folder} cannot be written ({reason}): drafts come from what is edited now only. Give "
            "yourself the right to write there, or set FASTCODER_CACHE to a folder where you have it."
        )
    return (
        f"The index in {folder} cannot be kept up to date there ({reason}). Suggestions go on, and it is tried again "
        "now and then. If it stays so, see that this is a folder that you can write to."
    )


def _free(folder: Path) -> int:
    """Bytes free on the disk that holds a folder which may not be there; -1 if nobody knows."""
    for above in (folder, *folder.parents):
        try:
            return shutil.disk_usage(above).free
        except OSError:
            continue
    return -1
