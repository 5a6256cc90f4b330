"""Replaces a file by a finished one: at once, or on Windows as soon as no process has the old one open.

On other systems a file can be replaced while it is read. On Windows a file cannot be moved or replaced while a process
has it open without permitting that: a virus scanner, an indexer, or another process of ours.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

PAUSES_S: Final = tuple(0.01 * 2**number for number in range(8))
"""Pauses between attempts, 2.6 s in all: reading a small file takes less than the first, a scanner several."""


def put_in_place(
    made: Path, place: Path, *, windows: bool = sys.platform == "win32", rest: Callable[[float], None] = time.sleep
) -> None:
    """Move `made`, a file or a folder, to `place`, and replace a file there.

    Args:
        made: the complete, closed file or folder.
        place: the destination on the same file system.
        windows: whether to retry when the system denies it.
        rest: waits for a number of seconds.

    Raises:
        OSError: it failed, and both are unchanged.
    """
    for pause_s in PAUSES_S if windows else ():
        try:
            made.replace(place)
        except PermissionError:
            rest(pause_s)
        else:
            return
    made.replace(place)
