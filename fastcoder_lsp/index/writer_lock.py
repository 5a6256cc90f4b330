"""Who may write a store: the process that holds the lock in its folder, as long as it is that folder's lock.

Owns the lock and nothing else. A lock whose file was deleted guards nothing: others make a new one and write.
"""

from pathlib import Path

import filelock

LOCK_NAME = "writer.lock"


class WriterLock:
    """The lock of one store; waits for nobody."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._lock = filelock.FileLock(self._path, mode=0o600, thread_local=False)
        self._file: tuple[int, int] | None = None

    @property
    def held(self) -> bool:
        """Whether this process has taken it."""
        return bool(self._lock.is_locked)

    def take(self) -> bool:
        """Take it if nobody has it; returns whether it was taken.

        Raises:
            OSError: it cannot be made.
        """
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        self._file = self._named()
        return True

    def release(self) -> None:
        """Release the lock, so that other processes can take it."""
        self._lock.release()

    def guards(self) -> bool:
        """Whether the file that is locked is still the one that others would lock."""
        return self._file is not None and self._named() == self._file

    def _named(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
