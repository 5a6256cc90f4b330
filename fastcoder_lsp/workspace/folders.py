"""The workspace's folders in the client's order, and the paths of their indexes."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastcoder_lsp.config import Settings
from fastcoder_lsp.workspace.paths import path_of
from fastcoder_lsp.workspace.rules import reading_settings, resolved
from fastcoder_lsp.workspace.settings_files import SETTINGS_FILE


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the workspace; `path` is absolute, with symlinks as the client gave them."""

    uri: str
    path: Path


class Folders:
    """The open folders."""

    def __init__(self, uris: Iterable[str] = ()) -> None:
        self._folders: dict[Path, Folder] = {}
        self.change(added=uris, removed=())

    def __iter__(self) -> Iterator[Folder]:
        return iter(tuple(self._folders.values()))

    def change(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Add and remove folders; a URI without a path on the disk is ignored."""
        # Other threads may be iterating over the old dictionary.
        folders = dict(self._folders)
        for uri in removed:
            if (path := path_of(uri)) is not None:
                folders.pop(path, None)
        for uri in added:
            if (path := path_of(uri)) is not None:
                folders[path] = Folder(uri, path)
        self._folders = folders

    def paths(self) -> tuple[Path, ...]:
        """Their paths."""
        return tuple(folder.path for folder in self._folders.values())

    def containing(self, path: Path | None) -> Folder | None:
        """The innermost folder that contains `path`."""
        holding = [folder for folder in self._folders.values() if path is not None and path.is_relative_to(folder.path)]
        return max(holding, key=lambda folder: len(folder.path.parts), default=None)


_MARKS: Final = (".git", ".hg", ".svn", ".jj", SETTINGS_FILE)


def workspace_of(path: Path, home: Path) -> Path | None:
    """The nearest folder above `path` that has a repository or a settings file, below `home`; None if there is none."""
    for folder in path.absolute().parents:
        if folder in (home, *home.parents):
            return None
        if any(os.path.lexists(folder / mark) for mark in _MARKS):
            return folder
    return None


_DEFAULT = Settings()


def store_folder(cache: Path, root: Path, identity: str, settings: Settings = _DEFAULT) -> Path:
    """A folder's store for one tokenizer and reading rules: no client finds text that its own rules exclude."""
    name, rules = hashlib.sha256(os.fsencode(resolved(root))).hexdigest()[:16], reading_settings(settings)
    by_rules = "" if rules == reading_settings(_DEFAULT) else "-" + hashlib.sha256(repr(rules).encode()).hexdigest()[:8]
    return cache / "index" / name / f"{identity[:16]}{by_rules}"


def words_file(cache: Path, root: Path, settings: Settings = _DEFAULT) -> Path:
    """The folder's word index, beside its stores so that deleting them deletes it."""
    return store_folder(cache, root, "words", settings) / "words.bin"
