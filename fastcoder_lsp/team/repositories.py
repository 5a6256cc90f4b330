"""Fetches the repositories that a team's server follows, and lays them out as read-only folders.

A new tree is laid out beside the current one and renamed when it is complete; it has only plain text of bounded size,
under names that stay inside. Off unless the configuration names repositories; each key lists those that may draft for
it.
"""

import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import filelock

from fastcoder_lsp.config import Settings
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.team.configuration import RepositoryConfig
from fastcoder_lsp.workspace import git

logger = logging.getLogger(__name__)

LONGEST_BYTES = 1_000_000  # longest file; longer ones are rarely written by hand
MOST_BYTES = 2_000_000_000  # most bytes of a repository's tree
_NO_NAMES = frozenset(
    (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOENT)
)
"""Errors that concern a single name; any other error concerns the disk, and an incomplete tree is discarded."""
_LOOK_S = 5.0
_KEPT = 2  # trees kept of a repository: replicas may read the previous one until they have opened the new one


class Repositories:
    """All repositories, for one process; processes of a machine share the clones in the folder `place`."""

    def __init__(self, wanted: tuple[RepositoryConfig, ...], place: Path, settings: Settings) -> None:
        self._wanted, self._place = wanted, place
        self._settings = {
            one.name: replace(settings, index_enabled=True, context_enabled=one.context) for one in wanted
        }
        self._trees: dict[str, Path] = {}
        self._due_s = dict.fromkeys((one.name for one in wanted), 0.0)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self) -> None:
        """Start to follow them in a thread."""
        if self._wanted:
            self._thread = threading.Thread(target=self._follow, name="fastcoder-repositories", daemon=True)
            self._thread.start()

    def folders(self, names: tuple[str, ...]) -> Mapping[Path, Settings]:
        """The trees of the repositories with these names that are available."""
        return {tree: self._settings[name] for name in names if (tree := self._trees.get(name)) is not None}

    def look(self, now_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Fetch what is due; log each failure, and try again when the repository is due again."""
        for one in self._wanted:
            if now_s < self._due_s[one.name]:
                continue
            try:
                self._trees[one.name] = laid_out(one, self._place)
            except (FastcoderError, OSError) as error:
                logger.warning("cannot fetch the repository %s: %s", one.name, error)
            self._due_s[one.name] = clock() + one.every_s

    def close(self) -> None:
        """Stop fetching."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.is_set():
            self.look(time.monotonic())
            self._ended.wait(_LOOK_S)


def laid_out(repository: RepositoryConfig, place: Path) -> Path:
    """Fetch a repository, and lay out its current tree unless it is already there; returns the tree's folder.

    Raises FastcoderError if it cannot be fetched, OSError if it cannot be written.
    """
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    clone, trees = place / f"{repository.name}.git", place / repository.name
    with filelock.FileLock(place / f"{repository.name}.lock"):
        commit = git.fetch(repository.url, repository.branch, clone)
        tree = trees / commit
        if not tree.exists():
            unfinished = trees / f".{commit}"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            try:
                _lay_out(clone, commit, unfinished)
            except (FastcoderError, OSError):
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            unfinished.rename(tree)
        os.utime(tree)
        _tidy(trees)
        return tree


def _lay_out(clone: Path, commit: str, folder: Path) -> None:
    room, chosen = MOST_BYTES, list[tuple[Path, str]]()
    for path, identity, size in git.files(clone, commit):
        target = inside(folder, path)
        if target is not None and size <= min(LONGEST_BYTES, room):
            chosen.append((target, identity))
            room -= size
    for (target, _), text in zip(chosen, git.contents(clone, [identity for _, identity in chosen]), strict=True):
        if b"\0" in text[:8000]:
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        except OSError as error:  # a name that this file system forbids, or a folder's name spelt otherwise
            if error.errno not in _NO_NAMES:
                raise
            logger.debug("cannot write a file of a repository", exc_info=True)


def inside(folder: Path, path: str) -> Path | None:
    """The place of a repository's `path`; None if the name could lead elsewhere, or has a meaning to a tool."""
    parts = PurePosixPath(path).parts
    bad = not parts or path.startswith("/") or "\\" in path or not path.isprintable()
    if bad or any(part in (".", "..") or part.casefold() == ".git" or ":" in part for part in parts):
        return None
    return folder.joinpath(*parts)


def _tidy(trees: Path) -> None:
    found = sorted((tree for tree in trees.iterdir() if tree.is_dir()), key=lambda tree: tree.stat().st_mtime)
    for tree in found[:-_KEPT]:
        shutil.rmtree(tree, ignore_errors=True)
