"""Ignore files: `.gitignore` on every level, git's own exclude files, and `.fastcoderignore`, by git's rules.

Owns which files speak of an entry, and in which order; what they say is worked out by `patterns`. What is known of a
folder is kept, and holds as long as no ignore file on the way to it has changed, so a change takes effect at once and a
document's folder is looked up by its files' times alone. A repository writes all of this: what it may cost is bounded.
Where a file says more than that, or cannot be read, its folder is ignored as a whole. What is no regular file of the
work tree says nothing, as with git.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.git_excludes import repository_exclude, user_exclude
from fastcoder_lsp.workspace.patterns import Patterns
from fastcoder_lsp.workspace.regular import NotRegularError, read_regular

IGNORE_FILES = (".gitignore", ".fastcoderignore")
OWN_IGNORE_FILE = ".fastcoderignore"
MAX_BYTES: Final = 250_000
"""Of an ignore file."""
MAX_LEVELS: Final = 100
"""Folders below the root, one in the other; nobody has more, and a path of 4,096 letters has 2,000."""
MAX_SIGNS: Final = 400_000
"""Of all ignore files that speak of one folder together."""
_KEPT_FOLDERS: Final = 512

logger = logging.getLogger(__name__)

_Stamp = tuple[int, int, int] | None
"""Modification time, size and inode of a file that speaks; None: there is none."""


@dataclass(frozen=True, slots=True)
class _Voice:
    """A file's patterns, and where their matching stands in some folder."""

    patterns: Patterns
    state: int


@dataclass(frozen=True, slots=True)
class _Folder:
    """What is known of a folder: whether all in it is ignored, and who speaks of what is in it, the innermost first.

    `files`: those that begin to speak here; `stamps`: as they were when they were read.
    """

    above: "_Folder | None"
    files: tuple[str, ...]
    stamps: tuple[_Stamp, ...]
    by_git: bool
    by_us: bool
    git: tuple[_Voice, ...]
    own: tuple[_Voice, ...]
    setting: tuple[_Voice, ...]


class IgnoreFiles:
    """The ignore files of one folder and everything below it.

    Args:
        root: the workspace folder, absolute, links followed.
        patterns: patterns from the settings, relative to `root`; they can't be undone by any file.
    """

    def __init__(self, root: Path, patterns: Sequence[str] = ()) -> None:
        self._root = root
        self._setting = Patterns(patterns)
        self._top = _repository(root) or root
        self._folders: dict[Path, _Folder] = {}

    def ignores(self, path: Path, *, is_folder: bool, own_only: bool = False) -> bool:
        """Whether `path` (below the root), or a folder that it lies in, is ignored.

        Args:
            path: absolute.
            is_folder: what `path` is.
            own_only: heed the settings and `.fastcoderignore` only, not what git ignores.
        """
        if path == self._root:
            return False
        folder = self._folder(path.parent)
        by_git, by_us = _said(folder, path.name, is_folder=is_folder)
        return by_us or (by_git and not own_only)

    def names_ignored(self, folder: Path) -> Callable[[str], bool]:
        """Says of a file's name in `folder` whether the file is ignored, by what the ignore files say now.

        For who lists a folder: the files on the way to it are looked at once, not for each name.
        """
        known = self._folder(folder)
        return lambda name: any(_said(known, name, is_folder=False))

    def _folder(self, path: Path) -> _Folder:
        """What is known of a folder, worked out from the top down where an ignore file has changed."""
        known: _Folder | None = None
        if len(self._folders) > _KEPT_FOLDERS:
            self._folders = {}  # not one by one: several threads ask
        for level in (*reversed(path.parents), path)[len(self._top.parts) - 1 :]:
            kept = self._folders.get(level)
            files = self._files(level) if kept is None else kept.files
            stamps = tuple(map(_stamp, files))
            if kept is None or kept.above is not known or kept.stamps != stamps:
                kept = self._look(level, known, files, stamps)
                self._folders[level] = kept
            known = kept
        assert known is not None
        return known

    def _look(self, folder: Path, above: _Folder | None, files: tuple[str, ...], stamps: tuple[_Stamp, ...]) -> _Folder:
        below_root = self._root in folder.parents
        by_git, by_us = _said(above, folder.name, is_folder=True) if above and below_root else (False, False)
        git, own, setting = (
            (_within(voices, folder.name) for voices in (above.git, above.own, above.setting))
            if above
            else ((), (), ())
        )
        if folder == self._root and self._setting:
            setting = (_Voice(self._setting, self._setting.start),)
        too_deep = len(folder.parts) - len(self._root.parts) >= MAX_LEVELS
        by_git, by_us = by_git or too_deep, by_us or too_deep or not self._setting.whole
        for file in (file for file, stamp in zip(files, stamps, strict=True) if stamp is not None):
            room = MAX_SIGNS - sum(len(voice.patterns) for voice in (*git, *own))
            patterns, is_own = self._read(Path(file)), file.endswith(OWN_IGNORE_FILE)
            if patterns is None or len(patterns) > room:
                logger.warning("cannot read all of %s: ignoring everything in %s", file, folder)
                by_git, by_us = by_git or not is_own, by_us or is_own
            elif patterns and is_own:
                own = (_Voice(patterns, patterns.start), *own)
            elif patterns:
                git = (_Voice(patterns, patterns.start), *git)
        return _Folder(above, files, stamps, by_git, by_us, git, own, setting)

    def _files(self, folder: Path) -> tuple[str, ...]:
        """The files that begin to speak in `folder`, the weakest first."""
        if len(folder.parts) - len(self._root.parts) >= MAX_LEVELS:
            return ()
        users = user_exclude() if folder == self._top else None
        excludes = (str(file) for file in (users, repository_exclude(folder)) if file is not None)
        own = (OWN_IGNORE_FILE,) if folder.is_relative_to(self._root) else ()
        return (*excludes, *(str(folder / name) for name in (".gitignore", *own)))

    def _read(self, file: Path) -> Patterns | None:
        """The patterns of a file, none where a link in the work tree leads out of it; None: they are not known."""
        within = self._top if file.is_relative_to(self._top) else Path(file.anchor)
        try:
            content = read_regular(file, MAX_BYTES + 1, inside=within)
        except (NotRegularError, FileNotFoundError, NotADirectoryError):
            return Patterns(())
        except OSError:
            return None
        if len(content) > MAX_BYTES:
            return None
        patterns = Patterns(content.decode("utf-8-sig", "surrogateescape").split("\n"))
        return patterns if patterns.whole else None


def _said(folder: _Folder, name: str, *, is_folder: bool) -> tuple[bool, bool]:
    """Whether git's files, and whether ours or the settings, ignore an entry of `folder`."""
    by_git = folder.by_git or _decided(folder.git, name, is_folder=is_folder)
    by_us = folder.by_us or _decided(folder.own, name, is_folder=is_folder)
    return by_git, by_us or _decided(folder.setting, name, is_folder=is_folder)


def _decided(voices: Iterable[_Voice], name: str, *, is_folder: bool) -> bool:
    """The innermost file that speaks of the entry decides."""
    said = (voice.patterns.look(voice.state, name, is_folder=is_folder).ignored for voice in voices)
    return next((ignored for ignored in said if ignored is not None), False)


def _within(voices: Iterable[_Voice], name: str) -> tuple[_Voice, ...]:
    """These voices, as they speak of the folder `name`."""
    return tuple(
        _Voice(voice.patterns, voice.patterns.look(voice.state, name, is_folder=True).below) for voice in voices
    )


def _stamp(file: str) -> _Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116 a few for every key
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _repository(folder: Path) -> Path | None:
    """The git work tree that `folder` belongs to: its ignore files above `folder` hold inside it."""
    return next((above for above in (folder, *folder.parents) if os.path.lexists(above / ".git")), None)
