"""The queue of a live index: the latest text of each document, and the set of changed files.

It stays small however long nothing is taken out: a document has one text, and more than `MOST` changed files are
replaced by a request to scan everything. Putting something in never waits for the thread that takes.
"""

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MOST = 4096
"""Changed files (or folders) that are kept by name. A system's own queue may overflow at that, which loses changes."""
LONGEST_REST_S = 2.0


@dataclass(frozen=True, slots=True)
class Told:
    """The changes that `Inbox.take` returns.

    Attributes:
        documents: open documents and their texts; None: closed.
        paths: files that changed.
        folders: folders that appeared or went.
        lost: whether more happened than is listed.
        waiting: events to set once all of it was taken in.
    """

    documents: dict[Path, str | None]
    paths: tuple[Path, ...]
    folders: tuple[Path, ...]
    lost: bool
    waiting: tuple[threading.Event, ...]


class Inbox:
    """Changes that were reported and not taken yet, bounded. Any thread may report; one thread takes."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._open: dict[Path, str] = {}
        self._documents: dict[Path, None] = {}
        self._paths: dict[Path, None] = {}
        self._folders: dict[Path, None] = {}
        self._lost = self._woken = False
        self._waiting: list[threading.Event] = []
        self._rests_until = 0.0

    def document(self, path: Path, text: str | None) -> None:
        """The text of an open document, or None: it was closed."""
        if not _may_exist(path):
            return
        with self._news:
            if text is None:
                self._open.pop(path, None)
                self._paths[path] = None
            else:
                self._open[path] = text
            self._documents[path] = None
            self._tell()

    def all_documents(self) -> None:
        """The rules have changed: queue all open documents again."""
        with self._news:
            self._documents.update(dict.fromkeys(self._open))
            self._tell()

    def changed(self, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
        """Files and folders that changed. If they are too many to list, everything will be scanned."""
        with self._news:
            for put, names in ((self._paths, paths), (self._folders, folders)):
                for name in filter(_may_exist, names):
                    put[name] = None
                    if len(put) > MOST:
                        put.clear()
                        self._lost = True
                        break
            self._tell()

    def wait_for_empty(self, seen: threading.Event) -> None:
        """Set `seen` once everything queued now was taken in, and everything that this queued in turn."""
        with self._news:
            self._waiting.append(seen)
            self._tell()

    def wake(self) -> None:
        """Make `take` return although nothing has changed."""
        with self._news:
            self._woken = True
            self._tell()

    def rest(self, seconds: float) -> None:
        """Return only documents for some seconds, at most `LONGEST_REST_S`."""
        with self._news:
            self._rests_until = time.monotonic() + min(seconds, LONGEST_REST_S)

    def take(self) -> Told:
        """All changes since the last call that are due; waits until there are some."""
        with self._news:
            while not (self._woken or self._documents):
                # Read the clock once: a rest that ended between two readings would be waited for without end.
                rest_s = self._rests_until - time.monotonic()
                if rest_s <= 0 and self._has_more():
                    break
                self._news.wait(rest_s if rest_s > 0 else None)
            self._woken = False
            documents = {path: self._open.get(path) for path in self._documents}
            self._documents.clear()
            if not self._rested():
                return Told(documents, (), (), lost=False, waiting=())
            told = Told(documents, tuple(self._paths), tuple(self._folders), self._lost, tuple(self._waiting))
            for held in (self._paths, self._folders, self._waiting):
                held.clear()
            self._lost = False
            return told

    def empty(self) -> bool:
        """Whether nothing has changed since the last `take`."""
        with self._news:
            return not (self._documents or self._paths or self._folders or self._lost)

    def _rested(self) -> bool:
        return time.monotonic() >= self._rests_until

    def _has_more(self) -> bool:
        return bool(self._paths or self._folders or self._lost or self._waiting)

    def _tell(self) -> None:
        self._news.notify()


def _may_exist(path: Path) -> bool:
    """Whether a file system could have such a name; clients may send anything."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeError:
        return False
