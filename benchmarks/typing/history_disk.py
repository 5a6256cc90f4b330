"""A history's tree on the disk while somebody types it, as an editor leaves it: what is open is not saved yet.

Owns the files below its folder, and how code of them is found for a prompt: by the product's own search, whose look
through the folder is waited for, so that the same keys find the same code on any machine.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from fastcoder_lsp.config import Settings
from fastcoder_lsp.core import Snapshot
from fastcoder_lsp.prompt import Found
from fastcoder_lsp.runtime.context import ReadableFolder, RepositoryContext
from fastcoder_lsp.workspace.rules import ReadingRules

OPEN_FILES = 8
"""Files that are open in the editor: the last ones that were edited; the others were saved and closed."""
_LOOKED_S = 600.0


class HistoryDisk(dict[str, str]):
    """path → text, as `histories.apply` changes it; what is new or closed goes to the disk.

    Args:
        root: an empty folder.
        files: the tree before the first step.
    """

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        super().__init__(files)
        self.root = root
        self._open: dict[str, None] = {}
        for path in files:
            self._save(path)

    def __setitem__(self, path: str, text: str) -> None:
        new = path not in self
        super().__setitem__(path, text)
        if new:
            self._save(path)
            return
        self._open.pop(path, None)
        self._open[path] = None
        while len(self._open) > OPEN_FILES:
            oldest = next(iter(self._open))
            self._save(oldest)
            del self._open[oldest]

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        self._gone(path)

    def pop(self, path: str, *default: str | None) -> str | None:  # type: ignore[override]
        """A file ceases to be."""
        text: str | None = super().pop(path, *default)
        self._gone(path)
        return text

    def open_texts(self) -> Mapping[Path, str]:
        """What is open, as it stands in the editor; the latest last."""
        return {self.root / path: self[path] for path in self._open}

    def _gone(self, path: str) -> None:
        self._open.pop(path, None)
        (self.root / path).unlink(missing_ok=True)

    def _save(self, path: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self[path], encoding="utf-8", newline="")


class DiskContext:
    """Code of a history's files for prompts of documents that are named from its root (`prompt.Context`).

    Args:
        disk: the tree.
        now_s: reckoned seconds, by which the folder is looked through again.
    """

    def __init__(self, disk: HistoryDisk, now_s: Callable[[], float]) -> None:
        folder = ReadableFolder(disk.root, ReadingRules((disk.root,), Settings()))
        self._root = disk.root
        self._context = RepositoryContext(lambda _path: folder, disk.open_texts, _LOOKED_S, now_s)

    def observe(self, snapshot: Snapshot) -> None:
        """See `Context`."""
        self._context.observe(self._placed(snapshot))

    def find(self, snapshot: Snapshot, offset: int, shown: tuple[int, int], kept: Found | None = None) -> Found:
        """See `Context`."""
        return self._context.find(self._placed(snapshot), offset, shown, kept)

    def may_show(self, sources: Collection[str]) -> bool:
        """See `Context`."""
        return self._context.may_show(sources)

    def _placed(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, path=f"{self._root}/{(snapshot.path or '').lstrip('/')}")
