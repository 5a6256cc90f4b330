"""What a watcher does not see of a folder."""

from pathlib import Path


class Gaps:
    """What is not watched below a folder, and whether events were lost. Set by its watcher's threads."""

    def __init__(self) -> None:
        self.limit: OSError | None = None
        """Why some folder has no watch: the system has no more."""
        self.closed: set[Path] = set()
        """Folders that this user may not look into."""
        self.lost = False
        """Events were lost: the system's queue was full."""
        self.broken = False
        """The watcher no longer knows which folder an event is from: it must begin again."""
