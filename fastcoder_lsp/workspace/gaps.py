"""The changes that a watcher does not see."""

from pathlib import Path


class Gaps:
    """The unwatched folders below a folder, and whether events were lost. Its watcher's threads set the attributes."""

    def __init__(self) -> None:
        self.limit: OSError | None = None
        """The error of a folder that got no watch because the system has no more."""
        self.closed: set[Path] = set()
        """Folders that this user may not enter."""
        self.lost = False
        """Events were lost: the system's queue was full."""
        self.broken = False
        """The watcher no longer knows which folder an event is from, and must be restarted."""
