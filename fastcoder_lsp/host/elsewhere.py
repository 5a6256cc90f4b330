"""Searches of a front's folders for the edits of other files, on threads of their own: no model waits for them.

They know the files by the word index that prompts use, and read only those that hold a change's words, by the rules.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.edits.elsewhere import FileEdits, edits_elsewhere
from fastcoder_lsp.edits.values import EditQuestion
from fastcoder_lsp.index.terms import number_of
from fastcoder_lsp.runtime.context import ReadableFolder
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.languages import language_of
from fastcoder_lsp.workspace.paths import path_of

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.05  # between two looks whether a folder has been read


class FolderFiles:
    """The files of a folder that may be read (`SearchedFiles`): open ones with their unsaved texts."""

    def __init__(
        self, words: FolderWords, folder_of: Callable[[Path], ReadableFolder | None], texts: Mapping[Path, str]
    ) -> None:
        self._words, self._folder_of = words, folder_of
        below = {
            path.relative_to(words.root).as_posix(): text
            for path, text in texts.items()
            if path.is_relative_to(words.root)
        }
        self._open, self._known = below, frozenset((*words.index.known(), *below))

    @property
    def complete(self) -> bool:
        """Whether the folder has been read, as things stand now; `known` may be older."""
        return self._words.complete

    def known(self) -> Collection[str]:
        """All paths below the folder."""
        return self._known

    def holding(self, words: Sequence[str], *, partly: bool = False) -> Iterable[str]:
        """See `SearchedFiles`."""
        indexed = self._words.index.holding([number_of(word) for word in words], partly=partly)
        opened = [path for path, text in self._open.items() if all(word in text for word in words)]
        return (*opened, *(path for path in indexed if path not in self._open))

    def read(self, path: str) -> tuple[str, str] | None:
        """See `SearchedFiles`."""
        file = self._words.root / path
        folder = self._folder_of(file)
        if folder is None or folder.root != self._words.root:  # a folder in this one has rules of its own
            return None
        text = self._open.get(path)
        if text is None:
            found = folder.rules.read_text(file)
            text = found.replace("\r\n", "\n") if isinstance(found, str) else None
        elif folder.rules.may_read(file) is not None:
            text = None
        return (text, language_of(file)) if text is not None and "\r" not in text else None


class ElsewhereSearches:
    """The searches of one front, the newest one only; `emit` gets `FoundElsewhere`, on the search's thread."""

    def __init__(
        self,
        files_at: "Callable[[Path], FolderFiles | None]",
        texts: OpenTexts,
        emit: Callable[[protocol.FoundElsewhere], object],
    ) -> None:
        self._files_at, self._texts, self._emit = files_at, texts, emit
        self._newest = -1

    def begin(self, search: protocol.SearchElsewhere) -> None:
        """Begin a search; the text of its question is the open document's at this moment."""
        question = search.question
        self._newest = question.number
        path = path_of(question.uri)
        text = self._texts.get(path) if path is not None else None
        if path is None or text is None:
            self._emit(protocol.FoundElsewhere(question.number))
            return
        asked = structs.replace(question, text=text)
        thread = threading.Thread(
            target=self._run,
            args=(path, structs.replace(search, question=asked)),
            name="fastcoder-elsewhere",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # too many threads
            log.warning("other files cannot be searched now: %s", error)
            self._emit(protocol.FoundElsewhere(question.number))

    def _run(self, path: Path, search: protocol.SearchElsewhere) -> None:
        found, complete, question = tuple[FileEdits, ...](), True, search.question
        try:
            complete = self._is_read(path, search)
            files = self._files_at(path)
            found = self._search(question, files, search.most) if files is not None else ()
        except Exception:  # a bug costs these edits and is logged
            log.exception("searching other files failed")
        complete = complete and self._newest == question.number
        self._emit(protocol.FoundElsewhere(question.number, found, complete))

    def _is_read(self, path: Path, search: protocol.SearchElsewhere) -> bool:
        """Whether the folder has been read, at once or within the search's patience; a newer search ends the wait."""
        files, end_s = self._files_at(path), time.monotonic() + search.patience_s
        while files is not None and not files.complete:
            if self._newest != search.question.number or time.monotonic() >= end_s:
                return False
            time.sleep(_LOOK_S)
        return True

    def _search(self, question: EditQuestion, files: FolderFiles, most: int) -> tuple[FileEdits, ...]:
        """The whole search, unless a newer one has begun."""
        work = edits_elsewhere(question, files, most)
        while self._newest == question.number:
            try:
                next(work)
            except StopIteration as end:
                found: tuple[FileEdits, ...] = end.value
                return found
        return ()
