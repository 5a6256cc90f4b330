"""How a finished file takes another's place: at once, and on Windows after those who have the other one open.

Elsewhere a name is free whoever reads what it named. On Windows nothing can be moved, or replaced, that somebody has
open without allowing it: a scanner for viruses, an indexer, another process of ours that reads it at this moment.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

PAUSES_S: Final = tuple(0.01 * 2**number for number in range(8))
"""Between two tries: 2.6 s in all. Who reads a small file is done after the first, a scanner after some."""


def put_in_place(
    made: Path, place: Path, *, windows: bool = sys.platform == "win32", rest: Callable[[float], None] = time.sleep
) -> None:
    """Give `made`, a file or a folder, the name `place`; a file that had it is gone.

    Args:
        made: whole, and closed.
        place: on the same file system.
        windows: whether to try again where the system says that it may not be.
        rest: waits so many seconds.

    Raises:
        OSError: it cannot be; both are as they were.
    """
    for pause_s in PAUSES_S if windows else ():
        try:
            made.replace(place)
        except PermissionError:
            rest(pause_s)
        else:
            return
    made.replace(place)
