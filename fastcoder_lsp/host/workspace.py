"""One front's workspace in the model's process: its reading rules, open documents and datastore.

It reads only files that the settings of their folder allow, and never another front's folders, texts or stores.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.completion import protocol
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.host.elsewhere import FolderFiles
from fastcoder_lsp.prompt.context import GivenExtras
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.runtime.folder_words import FolderWords
from fastcoder_lsp.runtime.parts import WorkspaceView
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.workspace.document import OpenTexts
from fastcoder_lsp.workspace.folders import words_file
from fastcoder_lsp.workspace.rules import ReadingRules

if TYPE_CHECKING:
    from fastcoder_lsp.workspace.datastore import Datastore
    from fastcoder_lsp.workspace.live_index import IndexProgress
    from fastcoder_lsp.workspace.shared_stores import SharedStores


class FrontWorkspace:
    """The workspace of one front; any thread may use it, and calls `indexing` (progress) and `notice` (messages)."""

    def __init__(
        self,
        folders: Mapping[Path, Settings],
        stores: "SharedStores",
        texts: OpenTexts,
        indexing: "Callable[[IndexProgress], None]",
        notice: Callable[[str], None],
    ) -> None:
        self._lock = threading.Lock()
        self._stores, self._texts, self._indexing, self._notice = stores, texts, indexing, notice
        self._datastore: Datastore | None = None
        self._closed = False
        self._folders = dict(folders)
        self._readable_folders: dict[Path, ReadableFolder | None] = {}
        """Folders that a question came from: a workspace may have hundreds of others."""
        self._repository = RepositoryContext(self._readable, texts.copy, reported=self._reports_changes, cpu=stores.cpu)
        self._context = GivenExtras(self._repository)

    def surroundings(self, *, drafted_from: bool) -> WorkspaceView:
        """The model's view of it. `drafted_from`: whether a drafter reads the datastore."""
        with self._lock:
            unwanted = None if drafted_from else self._datastore
            if unwanted is not None:
                self._datastore = None
            elif drafted_from and self._datastore is None and not self._closed:
                from fastcoder_lsp.workspace.datastore import Datastore  # noqa: PLC0415 brings a compiler along

                self._datastore = Datastore(
                    self._folders, self._stores, self._indexing, self._notice, self._texts, self._repository.changed
                )
            datastore = self._datastore
            name = "\n".join(sorted(map(str, self._folders)))
        if unwanted is not None:
            unwanted.stop(wait_s=0)
        return WorkspaceView(None if datastore is None else datastore.pin, name, self._context)

    def begin(self, tokenizer: Tokenizer) -> None:
        """Start the datastore, if one is wanted, with a loaded model's tokenizer."""
        datastore = self._datastore
        if datastore is not None:
            datastore.start(tokenizer)

    def change(self, folders: Mapping[Path, Settings]) -> None:
        """Take other folders, or other settings for them."""
        with self._lock:
            self._folders, self._readable_folders = dict(folders), {}
            if self._datastore is not None:
                self._datastore.change(folders)

    def follow(self, command: protocol.Command) -> None:
        """Follow a command about files; `OpenTexts` has followed it already."""
        if isinstance(command, protocol.FilesChanged):
            self._files_changed(command.paths)
            return
        with self._lock:
            if self._datastore is None:
                return
            if isinstance(command, protocol.DocumentChanged):
                self._datastore.document_changed(command.path)
            elif isinstance(command, protocol.DocumentClosed):
                self._datastore.document_closed(command.path)

    def _files_changed(self, paths: Iterable[Path]) -> None:
        datastore = self._datastore
        if datastore is not None:
            datastore.files_changed(paths)
        else:
            self._repository.changed(paths)

    def words_at(self, path: Path) -> FolderWords | None:
        """The word index of the folder that holds `path`, with its scan begun; its texts are the model's thread's."""
        return self._repository.words_at(path)

    def files_at(self, path: Path) -> FolderFiles | None:
        """The files of the folder that holds `path`, as they are now, for a search; for any thread."""
        words = self.words_at(path)
        return FolderFiles(words, self._readable, self._texts.copy()) if words is not None else None

    def close(self, wait_s: float) -> None:
        """Free the front's resources; waits at most `wait_s`."""
        with self._lock:
            self._closed = True
            datastore, self._datastore = self._datastore, None
        if datastore is not None:
            datastore.stop(wait_s)

    def _reports_changes(self) -> bool:
        datastore = self._datastore
        return datastore is not None and datastore.follows()

    def _readable(self, path: Path) -> ReadableFolder | None:
        """The folder of a path and its reading rules, for code in prompts; for any thread."""
        with self._lock:
            folders, known = self._folders, self._readable_folders
        holding = [path] if path in folders else [root for root in folders if path.is_relative_to(root)]
        root = max(holding, key=lambda root: len(root.parts), default=None)
        if root is None:
            return None
        # Of two threads that make it, both get the first one's: other rules have everything scanned.
        return known[root] if root in known else known.setdefault(root, _readable_of(root, folders))


def _readable_of(root: Path, folders: Mapping[Path, Settings]) -> ReadableFolder | None:
    settings = folders[root]
    if not settings.context_enabled:
        return None
    return ReadableFolder(root, ReadingRules(tuple(folders), settings), words_file(cache_folder(), root, settings))
