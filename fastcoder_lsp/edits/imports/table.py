"""The imports and definitions of one workspace folder's files, in one family of languages.

A thread that reads files fills the table; others ask it. Equal facts of several files are one object.
"""

import threading
from collections.abc import Iterable
from typing import Final

from fastcoder_lsp.edits.imports.facts import FileImports, ImportableName, NamedTarget

MOST_FILES: Final = 20_000
MOST_HELD: Final = 1_000_000  # facts of all files


class ImportTable:
    """The facts of files by path below the folder; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, FileImports] = {}
        self._importing: dict[str, dict[str, None]] = {}
        self._defining: dict[str, dict[str, None]] = {}
        self._using: dict[str, dict[str, None]] = {}
        self._named: dict[str, dict[str, None]] = {}
        self._packages: dict[str, dict[str, None]] = {}
        self._same: dict[NamedTarget, NamedTarget] = {}
        self._held = 0

    def put(self, path: str, facts: FileImports) -> None:
        """Replace a file's facts; ignored where the table is full."""
        size = len(facts.imported) + len(facts.defined) + len(facts.used)
        with self._lock:
            self._drop(path)
            if len(self._files) >= MOST_FILES or self._held + size > MOST_HELD:
                return
            imported = tuple(self._same.setdefault(one, one) for one in facts.imported)
            self._files[path] = facts._replace(imported=imported)
            self._held += size
            for index, keys in self._indexes(path, facts):
                for key in keys:
                    index.setdefault(key, {})[path] = None

    def drop(self, path: str) -> None:
        """Forget a file."""
        with self._lock:
            self._drop(path)

    def paths(self) -> tuple[str, ...]:
        """The files that the table holds."""
        with self._lock:
            return tuple(self._files)

    def knows(self, name: str) -> bool:
        """Whether a file imports or defines the name."""
        return name in self._importing or name in self._defining

    def longer(self, name: str) -> bool:
        """Whether a file imports or defines a name that begins with this one."""
        with self._lock:
            return any(len(one) > len(name) and one.startswith(name) for one in (*self._importing, *self._defining))

    def imported(self, name: str) -> list[tuple[str, NamedTarget]]:
        """(path, import) of each file that imports the name."""
        with self._lock:
            return [
                (path, one)
                for path in self._importing.get(name, ())
                for one in self._files[path].imported
                if one.name == name
            ]

    def defined(self, name: str) -> list[ImportableName]:
        """The files that define the name."""
        with self._lock:
            return [
                ImportableName(path, self._files[path].package, member)
                for path in self._defining.get(name, ())
                for one, member in self._files[path].defined
                if one == name
            ]

    def using(self, name: str) -> list[str]:
        """The files that use a name."""
        with self._lock:
            return list(self._using.get(name, ()))

    def facts(self, path: str) -> FileImports | None:
        """A file's facts."""
        return self._files.get(path)

    def named(self, name: str) -> list[str]:
        """The files with a name, in any folder."""
        with self._lock:
            return list(self._named.get(name, ()))

    def packages(self) -> tuple[str, ...]:
        """The packages of all files."""
        with self._lock:
            return tuple(self._packages)

    def _drop(self, path: str) -> None:
        if (facts := self._files.pop(path, None)) is None:
            return
        self._held -= len(facts.imported) + len(facts.defined) + len(facts.used)
        for index, keys in self._indexes(path, facts):
            for key in keys:
                if (paths := index.get(key)) is not None:
                    paths.pop(path, None)
                    if not paths:
                        del index[key]
        if not self._files:
            self._same.clear()

    def _indexes(self, path: str, facts: FileImports) -> "Iterable[tuple[dict[str, dict[str, None]], Iterable[str]]]":
        return (
            (self._importing, (one.name for one in facts.imported)),
            (self._defining, (name for name, _ in facts.defined)),
            (self._using, facts.used),
            (self._packages, (facts.package,)),
            (self._named, (path.rpartition("/")[2],)),
        )
