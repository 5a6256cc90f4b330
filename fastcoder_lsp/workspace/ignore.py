"""Ignore files: `.gitignore` on every level, git's own exclude file, and `.fastcoderignore`, by git's rules.

Owns parsing and the order in which the files speak. A pattern that git would not understand is skipped, the rest of
its file holds. Files are read again when they change.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

IGNORE_FILES = (".gitignore", ".fastcoderignore")
OWN_IGNORE_FILE = ".fastcoderignore"
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class _Read:
    """An ignore file as it was at `stamp` (None: absent)."""

    stamp: tuple[int, int] | None
    spec: GitIgnoreSpec | None


class IgnoreFiles:
    """The ignore files of one folder and everything below it.

    Args:
        root: the workspace folder, absolute.
        patterns: patterns from the settings, relative to `root`; they can't be undone by any file.
    """

    def __init__(self, root: Path, patterns: tuple[str, ...] = ()) -> None:
        self._root = root
        self._patterns = _spec(patterns)
        self._top = _repository(root) or root
        self._read: dict[Path, _Read] = {}

    def ignores(self, path: Path, *, is_folder: bool, own_only: bool = False) -> bool:
        """Whether `path` (below the root), or a folder that it lies in, is ignored.

        Args:
            path: absolute.
            is_folder: what `path` is.
            own_only: heed the settings and `.fastcoderignore` only, not what git ignores.
        """
        parts = path.relative_to(self._root).parts
        folders = [self._root.joinpath(*parts[:count]) for count in range(1, len(parts))]
        return any(self.ignores_entry(folder, is_folder=True, own_only=own_only) for folder in folders) or (
            bool(parts) and self.ignores_entry(path, is_folder=is_folder, own_only=own_only)
        )

    def ignores_entry(self, path: Path, *, is_folder: bool, own_only: bool = False) -> bool:
        """Whether `path` itself is ignored, its folders being known not to be: what a walk from the root asks."""
        if self._patterns is not None and _says(self._patterns, path, self._root, is_folder=is_folder):
            return True
        names = (OWN_IGNORE_FILE,) if own_only else IGNORE_FILES
        return any(self._decide(name, path, is_folder=is_folder) for name in names)

    def _decide(self, name: str, path: Path, *, is_folder: bool) -> bool:
        """What the files called `name` say of `path`: the innermost that speaks of it decides."""
        top = self._top if name == ".gitignore" else self._root
        folder = path.parent
        while True:
            spec = self._spec_of(folder / name)
            said = None if spec is None else _says(spec, path, folder, is_folder=is_folder)
            if said is not None:
                return said
            if folder in (top, folder.parent):
                break
            folder = folder.parent
        exclude = self._spec_of(top / ".git" / "info" / "exclude") if name == ".gitignore" else None
        return bool(exclude and _says(exclude, path, top, is_folder=is_folder))

    def _spec_of(self, file: Path) -> GitIgnoreSpec | None:
        known = self._read.get(file)
        try:
            status = file.stat()
        except OSError:
            stamp = None
        else:
            stamp = (status.st_mtime_ns, status.st_size)
        if known is None or known.stamp != stamp:
            known = _Read(stamp, None if stamp is None else _parse(file))
            self._read[file] = known
        return known.spec


def _says(spec: GitIgnoreSpec, path: Path, base: Path, *, is_folder: bool) -> bool | None:
    """True: ignored; False: expressly not; None: not spoken of."""
    relative = PurePath(path).relative_to(base).as_posix()
    return spec.check_file(f"{relative}/" if is_folder else relative).include


def _parse(file: Path) -> GitIgnoreSpec | None:
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return None
    return _spec(tuple(text.split("\n")))


def _spec(lines: tuple[str, ...]) -> GitIgnoreSpec | None:
    """The patterns that can be read; None where there is none."""
    good = []
    for line in lines:
        pattern = line.rstrip("\r")
        try:
            GitIgnoreSpec.from_lines([pattern])
        except (GitIgnorePatternError, re.error):
            continue
        if pattern and not pattern.startswith("#"):
            good.append(pattern)
    return GitIgnoreSpec.from_lines(good) if good else None


def _repository(folder: Path) -> Path | None:
    """The git work tree that `folder` belongs to: its ignore files above `folder` hold inside it."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
