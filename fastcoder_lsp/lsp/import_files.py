"""The imports of the workspace's files, for edits that add a missing one. Needs no model.

A thread reads the files of a language's family once, when a document of it is opened, and then those that change; it
rests as long as it works, so that the event loop is hardly slower meanwhile. Questions find what has been read so far.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.edits.imports.languages import SYNTAXES, syntax_of, syntax_of_file
from fastcoder_lsp.edits.imports.table import ImportTable
from fastcoder_lsp.edits.imports.values import ImportSyntax
from fastcoder_lsp.workspace.ignore import IGNORE_FILES
from fastcoder_lsp.workspace.regular import FileStamp, file_stamp
from fastcoder_lsp.workspace.rules import ReadingRules, reading_settings, resolved

log = logging.getLogger(__name__)

_GATHERED_S: Final = 0.5  # changes of documents and files are gathered for this time
_AGAIN_S: Final = 300.0  # a question that comes so long after a scan starts another, which reads changed files only
_MOST_PENDING: Final = 4_096  # changed files that are kept by name; more of them are a scan
_LONGEST: Final = 400_000  # characters of a file: longer ones mostly hold data
_PAUSE_S: Final = 0.02  # longest rest after one file


@dataclass(slots=True, eq=False)
class ImportFolder:
    """One workspace folder: its table for each family of languages that a document was opened in."""

    root: Path
    settings: Settings
    rules: ReadingRules
    tables: dict[str, ImportTable] = field(default_factory=dict)
    stamps: dict[str, FileStamp | None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # open documents by path, as they are now
    scanned_s: float = 0.0


class ImportFiles:
    """The tables of a session's folders. Its methods return at once; they are for the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._folders: dict[Path, ImportFolder] = {}
        self._changed: dict[tuple[Path, str], None] = {}
        self._scans: dict[Path, None] = {}
        self._thread: threading.Thread | None = None
        self._stopping = self._working = False

    def use(self, folders: Mapping[Path, Settings]) -> None:
        """Take other folders or settings: a folder that may be read differently is read again."""
        with self._lock:
            for path in list(self._folders):
                settings = folders.get(path)
                if settings is None or not settings.edits_imports:
                    del self._folders[path]
                else:
                    self._renew(self._folders[path], settings, tuple(folders))

    def document(
        self, root: Path, settings: Settings, roots: Iterable[Path], path: Path, language: str, text: str
    ) -> None:
        """An open document has this text."""
        syntax = syntax_of(language)
        if syntax is None or not settings.edits_imports or self._stopping:
            return
        with self._lock:
            if (folder := self._folders.get(root)) is None:
                rules = ReadingRules(tuple(roots), settings)
                folder = self._folders[root] = ImportFolder(root, settings, rules)
            if syntax.name not in folder.tables:
                folder.tables[syntax.name] = ImportTable()
                self._scans[root] = None
            inside = path.relative_to(root).as_posix()
            folder.texts[inside] = text
            self._tell(root, inside)

    def closed(self, path: Path) -> None:
        """A document was closed: its file holds again."""
        with self._lock:
            for root, folder in self._folders.items():
                if path.is_relative_to(root) and folder.texts.pop(path.relative_to(root).as_posix(), None) is not None:
                    self._tell(root, path.relative_to(root).as_posix())

    def files_changed(self, paths: Iterable[Path]) -> None:
        """Files on the disk changed, appeared or disappeared; ignore files change which ones may be read."""
        with self._lock:
            for path in paths:
                for root, folder in self._folders.items():
                    if not path.is_relative_to(root):
                        continue
                    if path.name in IGNORE_FILES:
                        self._scans[root] = None
                        self._changed.update(((root, inside), None) for inside in folder.texts)
                    self._tell(root, path.relative_to(root).as_posix())

    def table(self, root: Path, language: str) -> ImportTable | None:
        """The table of a folder's files for a language; None where there is none."""
        syntax = syntax_of(language)
        with self._lock:
            folder = self._folders.get(root)
            if folder is None or syntax is None:
                return None
            if folder.scanned_s and time.monotonic() - folder.scanned_s > _AGAIN_S:
                self._scans[root] = None
                self._begin()
            return folder.tables.get(syntax.name)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until everything told has been read; returns whether that came. For tests and benchmarks."""
        with self._lock:
            return self._lock.wait_for(lambda: not (self._changed or self._scans or self._working), timeout_s)

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()

    # Under the lock ---------------------------------------------------------------------------------------------------

    def _renew(self, folder: ImportFolder, settings: Settings, roots: tuple[Path, ...]) -> None:
        if reading_settings(folder.settings) != reading_settings(settings):
            folder.tables = {name: ImportTable() for name in folder.tables}
            folder.stamps.clear()
        folder.settings, folder.rules = settings, ReadingRules(roots, settings)
        self._scans[folder.root] = None
        self._begin()

    def _tell(self, root: Path, inside: str) -> None:
        self._changed[root, inside] = None
        if len(self._changed) > _MOST_PENDING:
            self._changed.clear()
            self._scans.update(dict.fromkeys(self._folders))
        self._begin()

    def _begin(self) -> None:
        if self._thread is None and not self._stopping:
            self._thread = threading.Thread(target=self._run, name="imports", daemon=True)
            self._thread.start()
        self._lock.notify_all()

    # In the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                self._working = False
                self._lock.notify_all()
                self._lock.wait_for(lambda: self._stopping or self._changed or self._scans)
                if self._stopping:
                    return
                self._working = True
                scans, self._scans = list(self._scans), {}
                changed, self._changed = list(self._changed), {}
                folders = dict(self._folders)
            try:
                for root, inside in changed:
                    if root in folders:
                        self._read(folders[root], inside, rest=False)
                for root in scans:
                    if root in folders:
                        self._scan(folders[root])
            except Exception:
                log.exception("the imports of the workspace could not be read")
            if not self._stopping:
                time.sleep(_GATHERED_S)

    def _scan(self, folder: ImportFolder) -> None:
        """Read every file that may be read and has changed, and forget the others."""
        root, seen = resolved(folder.root), set[str]()
        endings = tuple(end for one in SYNTAXES if one.name in folder.tables for end in one.endings)
        for path in folder.rules.files():
            if self._stopping:
                return
            if path.name.endswith(endings) and path.is_relative_to(root):
                inside = path.relative_to(root).as_posix()
                seen.add(inside)
                if inside not in folder.texts and folder.stamps.get(inside, ()) != file_stamp(path):
                    self._read(folder, inside, rest=True)
        for inside in [one for one in folder.stamps if one not in seen and one not in folder.texts]:
            self._forget(folder, inside)
        folder.scanned_s = time.monotonic()

    def _read(self, folder: ImportFolder, inside: str, *, rest: bool) -> None:
        syntax, path = syntax_of_file(inside), folder.root / inside
        table = folder.tables.get(syntax.name) if syntax is not None else None
        if syntax is None or table is None:
            return
        began_s, text = time.monotonic(), folder.texts.get(inside)
        stamp = file_stamp(path)
        if text is None or folder.rules.may_read(path) is not None:
            found = folder.rules.read_text(path)
            text = found.replace("\r\n", "\n").replace("\r", "\n") if isinstance(found, str) else None
        if text is None or len(text) > _LONGEST:
            self._forget(folder, inside)
        else:
            self._put(syntax, table, inside, text)
        folder.stamps[inside] = stamp if inside not in folder.texts else None
        if rest:
            time.sleep(min(time.monotonic() - began_s, _PAUSE_S))

    @staticmethod
    def _put(syntax: ImportSyntax, table: ImportTable, inside: str, text: str) -> None:
        try:
            table.put(inside, syntax.facts(text, inside))
        except (ValueError, RecursionError) as error:
            log.debug("%s: %s", inside, error)
            table.drop(inside)

    @staticmethod
    def _forget(folder: ImportFolder, inside: str) -> None:
        folder.stamps.pop(inside, None)
        for table in folder.tables.values():
            table.drop(inside)
