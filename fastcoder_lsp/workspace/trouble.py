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
        log.warning("cannot update the index (trying again in %.0f s): %s", self._pause_s, error)
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
    """Bytes free on the disk that holds a folder which may not be there; -1 if nobody knows."""
    for above in (folder, *folder.parents):
        try:
            return shutil.disk_usage(above).free
        except OSError:
            continue
    return -1
