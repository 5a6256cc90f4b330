"""What a watcher of the disk does not see."""

from pathlib import Path


class WatchProblems:
    """Unwatched folders, and whether events were lost. A watcher's threads set the attributes."""

    def __init__(self) -> None:
        self.limit: OSError | None = None  # the error for a folder without a watch: the system has no more watches
        self.closed: set[Path] = set()  # folders that this user may not enter
        self.lost = False  # the system's queue overflowed
        self.broken = False  # the watcher cannot tell events' folders any more, and must be restarted
