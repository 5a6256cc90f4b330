"""The repositories that a team's server follows: fetched now and then, and laid out as folders that are only read.

Owns their places under the cache folder and when each is fetched. A tree is laid out beside the one in use and takes
its name when it is whole; what goes into it is plain text within bounds, by names that stay inside. Off unless the
configuration names some; which key may be drafted for from which one says the key.
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
from fastcoder_lsp.team import git
from fastcoder_lsp.team.configuration import RepositoryConfig

logger = logging.getLogger(__name__)

LONGEST_BYTES = 1_000_000
"""Files that are longer are hardly written by hand."""
MOST_BYTES = 2_000_000_000
"""Of one repository."""
_NO_NAMES = frozenset(
    (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOENT)
)
"""What is wrong with a name; whatever else a disk says is about the disk, and a tree of which parts lack is none."""
_LOOK_S = 5.0
_KEPT = 2
"""Trees of a repository: replicas may read the one before for as long as it takes to open the new one."""


class Repositories:
    """All of them, for one process; several on a machine share the clones.

    Args:
        wanted: which ones.
        place: the folder that they lie in.
        settings: of each tree that is read.
    """

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
        """From now on, in a thread."""
        if self._wanted:
            self._thread = threading.Thread(target=self._follow, name="fastcoder-repositories", daemon=True)
            self._thread.start()

    def folders(self, names: tuple[str, ...]) -> Mapping[Path, Settings]:
        """Those of these names that are there."""
        return {tree: self._settings[name] for name in names if (tree := self._trees.get(name)) is not None}

    def look(self, now_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Fetch what is due; what fails is said once an attempt and tried again when it is due again."""
        for one in self._wanted:
            if now_s < self._due_s[one.name]:
                continue
            try:
                self._trees[one.name] = laid_out(one, self._place)
            except (FastcoderError, OSError) as error:
                logger.warning("cannot fetch the repository %s: %s", one.name, error)
            self._due_s[one.name] = clock() + one.every_s

    def close(self) -> None:
        """Fetch no more."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.is_set():
            self.look(time.monotonic())
            self._ended.wait(_LOOK_S)


def laid_out(repository: RepositoryConfig, place: Path) -> Path:
    """The tree of a repository as it is now: fetched and laid out, unless it is there already.

    Raises:
        FastcoderError: it cannot be fetched.
        OSError: it cannot be written.
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
        except OSError as error:  # a name that this file system has not, or one that is a folder by another spelling
            if error.errno not in _NO_NAMES:
                raise
            logger.debug("cannot write a file of a repository", exc_info=True)


def inside(folder: Path, path: str) -> Path | None:
    """Where a repository's `path` goes; None where its name could lead elsewhere, or mean something to a tool."""
    parts = PurePosixPath(path).parts
    bad = not parts or path.startswith("/") or "\\" in path or not path.isprintable()
    if bad or any(part in (".", "..") or part.casefold() == ".git" or ":" in part for part in parts):
        return None
    return folder.joinpath(*parts)


def _tidy(trees: Path) -> None:
    """The trees used last are kept."""
    found = sorted((tree for tree in trees.iterdir() if tree.is_dir()), key=lambda tree: tree.stat().st_mtime)
    for tree in found[:-_KEPT]:
        shutil.rmtree(tree, ignore_errors=True)
