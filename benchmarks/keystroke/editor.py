"""The editor of a replay: a tree of files on the disk, the documents that are open, and the server that is told.

Owns the texts, their versions and the files below its root. Knows no rhythm and no ghost text.
"""

from collections import OrderedDict
from pathlib import Path, PurePosixPath

from benchmarks.datasets.histories import Create, Edit, Remove, Save, Step, apply
from fastcoder_lsp.client.client import Client
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.workspace.languages import language_of

OPEN_AT_MOST = 20
"""Documents open at once; those that were used longest ago and are saved go first."""


class Editor:
    """The editor of one workspace.

    Args:
        client: the server's; told of every change.
        root: an empty folder, the editor's own.
        files: path → text of the tree at the start; written below `root`.
    """

    def __init__(self, client: Client, root: Path, files: dict[str, str]) -> None:
        self._client, self._root, self._files = client, root, files
        self._open: OrderedDict[str, bool] = OrderedDict()
        self.version = 0
        """Of the last change; one count for all documents, so that it names a request."""
        for path in files:
            self._write(path)

    def uri(self, path: str) -> str:
        """How the server knows a file."""
        return self._file(path).as_uri()

    def text(self, path: str) -> str:
        """A file as the editor shows it."""
        return self._files[path]

    def take(self, step: Step) -> None:
        """Make a step of the history at once."""
        match step:
            case Edit(path, offset, delete, text):
                self.replace(path, offset, offset + delete, text)
            case Save(path):
                self._write(path)
                if path in self._open:
                    self._open[path] = True
                    self._client.save(self.uri(path))
            case Create(path):
                apply(self._files, step)
                self._write(path)
            case Remove(path):
                apply(self._files, step)
                self._file(path).unlink(missing_ok=True)
                if self._open.pop(path, None) is not None:
                    self._client.close(self.uri(path))

    def replace(self, path: str, start: int, end: int, text: str) -> None:
        """One edit of a document, which is opened if need be."""
        self.show(path)
        before = self._files[path]
        apply(self._files, Edit(path, start, end - start, text, typed=True))
        self._open[path] = False
        self.version += 1
        self._client.edit(self.uri(path), self.version, before, start, end, text)

    def show(self, path: str) -> None:
        """Have a document open, and in view."""
        if path not in self._open:
            self.version += 1
            self._client.open(self.uri(path), language_of(Path(path)), self.version, self._files[path])
            self._open[path] = True
        self._open.move_to_end(path)
        saved = [other for other, is_saved in self._open.items() if is_saved and other != path]
        for other in saved[: max(0, len(self._open) - OPEN_AT_MOST)]:
            del self._open[other]
            self._client.close(self.uri(other))

    def _write(self, path: str) -> None:
        file = self._file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as opened:
            opened.write(self._files[path])

    def _file(self, path: str) -> Path:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or not parts.parts:
            raise UsageError(f"a history must stay in its tree: {path}")
        return self._root / parts
