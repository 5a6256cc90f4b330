"""Detects that a package manager has replaced the installed package while it runs.

It needs no network: every installation writes the package's version file anew.
"""

import re
from pathlib import Path

import fastcoder_lsp

_VERSION = re.compile(r'^__version__ = "([0-9a-zA-Z.+!-]{1,40})"$', re.MULTILINE)
_MAX_BYTES = 10_000


class InstalledVersion:
    """Compares the version on the disk with the running one."""

    def __init__(self, file: Path = Path(fastcoder_lsp.__file__), running: str = fastcoder_lsp.__version__) -> None:
        self._file, self._running = file, running
        self._seen = self._stamp()

    def news(self) -> str | None:
        """A message for the user, once for each new version on the disk; None if the file has not changed."""
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:  # missing during an installation
            return None
        self._seen = stamp
        installed = self._read()
        if installed in {None, self._running}:
            return None
        return (
            f"version {installed} is installed, but version {self._running} is running. "
            "Restart the editor or its language server."
        )

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            facts = self._file.stat()
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino

    def _read(self) -> str | None:
        try:
            with self._file.open(encoding="utf-8", errors="replace") as file:
                found = _VERSION.search(file.read(_MAX_BYTES))
        except OSError:
            return None
        return None if found is None else found[1]
