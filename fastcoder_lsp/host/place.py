"""The place where a host is found: a lock, which makes it the only one, and the name that it listens at.

Owns that both come back where somebody has deleted them: a cleaner of temporary files, or a person.
"""

from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.host.address import keep_known, lock_path, named_address
from fastcoder_lsp.host.listening import Listening
from fastcoder_lsp.host.private_folder import private_folder
from fastcoder_lsp.host.server import HostServer


class Place:
    """A host's place at an address.

    Attributes:
        address: where.

    Args:
        folder: of the address, private.
        key: its name.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.address = named_address(folder, key)
        self._path = lock_path(self.address, "host")
        self._lock = FileLock(self._path, mode=0o600, thread_local=False)
        self._locked: tuple[int, int] | None = None

    def take(self, wait_s: float) -> bool:
        """Become the only host there; False where another one has the place for so long."""
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout:
            return False
        self._locked = _file(self._path)
        return True

    def listen(self) -> Listening:
        """Be found there.

        Raises:
            OSError: the system does not allow it.
        """
        return self.address.listen()

    def keep(self, server: HostServer) -> bool:
        """Take back what was deleted of the place; False where another host has taken it meanwhile.

        What the system refuses is tried again at the next call.
        """
        keep_known(self.address)
        with suppress(OSError, UsageError):
            if _file(self._path) != self._locked:
                private_folder([self.address.folder])
                self._lock.release()
                if not self.take(0):
                    return False
            if not server.found():
                server.listen_at(self.listen())
        return True

    def leave(self) -> None:
        """Somebody else may take the place."""
        self._lock.release()


def _file(path: Path) -> tuple[int, int] | None:
    """Which file goes by a name; None where there is none."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino
