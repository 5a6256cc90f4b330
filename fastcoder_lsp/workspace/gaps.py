"""Changes that a watcher misses."""

from pathlib import Path


class Gaps:
    """Unwatched folders, and whether events were lost. A watcher's threads set the attributes."""

    def __init__(self) -> None:
        self.limit: OSError | None = None
        """The error for a folder without a watch: the system has no more watches."""
        self.closed: set[Path] = set()
        """Folders that this user may not enter."""
        self.lost = False
        """The system's queue overflowed."""
        self.broken = False
        """The watcher cannot tell events' folders any more, and must be restarted."""
