"""The texts of one client's open documents: one copy in each process, which all readers share."""

import threading
from collections.abc import Mapping
from pathlib import Path


class OpenTexts:
    """Texts by path, the latest change last; thread-safe.

    The first receiver of a change puts it here before passing it on. Putting the same text again changes nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[Path, str] = {}

    def put(self, path: Path, text: str) -> None:
        """An open document's text, saved or not, overrides the disk."""
        with self._lock:
            self._texts.pop(path, None)
            self._texts[path] = text

    def remove(self, path: Path) -> None:
        """The document was closed: the disk holds again."""
        with self._lock:
            self._texts.pop(path, None)

    def get(self, path: Path) -> str | None:
        """The text of an open document, or None."""
        return self._texts.get(path)

    def copy(self) -> Mapping[Path, str]:
        """All texts as they are now."""
        with self._lock:
            return dict(self._texts)
