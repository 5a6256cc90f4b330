"""Opening and listing the files of a workspace: regular files only, no link followed, bounded, never waiting.

A repository may hold anything under any name: pipes that nobody writes to, links to devices and to `/proc`, files that
grow while they are read, trees that never end. Listing is breadth first, so that the upper folders come first. This
module decides what is refused; `rules` decides which files may be read, and the caller which folders are entered.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Final

from fastcoder_lsp.workspace.paths import as_on_disk, openable

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


_CHUNK = 1 << 20


class NotRegularError(OSError):
    """It is there, but it is not a regular file, or it lies outside the folder; `strerror` says which."""

    def __init__(self, path: Path, why: str = "not a regular file") -> None:
        super().__init__(errno.EINVAL, why, str(path))


def read_regular(path: Path, limit: int, *, inside: Path) -> bytes:
    """The first `limit` bytes of the regular file at `path`, links followed as long as they stay `inside`.

    Args:
        path: absolute.
        limit: bytes; ask for one more than is allowed to learn that there are more.
        inside: a folder, itself resolved, that the file must lie in.

    Raises:
        OSError: it is not there, cannot be read, or would have to be waited for (`NotRegularError`: it is no file).
    """
    try:
        real = as_on_disk(path.resolve(strict=True))
    except (RuntimeError, ValueError) as error:  # links in a loop; a name that the system cannot have
        raise NotRegularError(path) from error
    if not real.is_relative_to(inside):
        raise NotRegularError(path, "outside the folder")
    return read_real(real, limit)


def read_real(real: Path, limit: int) -> bytes:
    """The first `limit` bytes of the regular file at `real`, which is no link; see `read_regular`."""
    with open_real(real) as file:
        chunks: list[bytes] = []
        while limit > 0 and (chunk := file.read(min(limit, _CHUNK))):
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)


def open_real(real: Path) -> FileIO:
    """The regular file at `real`, which is no link, opened for reading; see `read_regular`."""
    # Looked at first, because opening alone can do something to a device; and again, because it may have been replaced.
    mode = openable(real).lstat().st_mode
    if not stat.S_ISREG(mode):
        raise NotRegularError(real, "a directory" if stat.S_ISDIR(mode) else "not a regular file")
    file = FileIO(os.open(openable(real), _FLAGS), "r")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotRegularError(real)


MAX_ENTRIES: Final = 1_000_000
"""Entries that are looked at, whatever they are."""
MAX_DEPTH: Final = 200
"""Folders within folders; deeper ones are a trap, and soon have no path that can be opened."""


def walk(top: Path, may_enter: Callable[[Path], bool], max_entries: int = MAX_ENTRIES) -> Iterator[Path]:
    """The regular files below `top`, folder by folder.

    Args:
        top: a folder.
        may_enter: whether a folder below it is looked into.
        max_entries: entries that are looked at.
    """
    for base, names in walk_folders(top, may_enter, max_entries):
        yield from (base / name for name in names)


def walk_folders(
    top: Path, may_enter: Callable[[Path], bool], max_entries: int = MAX_ENTRIES
) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with the names of its regular files, for who asks less of each file than of its folder.

    Args:
        top: as of `walk`.
        may_enter: as of `walk`.
        max_entries: as of `walk`.
    """
    folders = deque([(top, 0)])
    while folders and max_entries > 0:
        base, depth = folders.popleft()
        entries = list_folder(base, max_entries)
        max_entries -= len(entries)
        yield base, [name for name, is_folder in entries if not is_folder]
        if depth < MAX_DEPTH:
            inner = (base / name for name, is_folder in entries if is_folder)
            folders.extend((path, depth + 1) for path in inner if may_enter(path))


def list_folder(folder: Path, max_entries: int = MAX_ENTRIES) -> list[tuple[str, bool]]:
    """(name, whether it is a folder) of the regular files and folders in `folder`, by name.

    Empty if the folder cannot be listed; of more than `max_entries` entries, those that the system names first.
    """
    try:
        with os.scandir(openable(folder)) as listed:
            kinds = ((entry.name, _is_folder(entry)) for entry in islice(listed, max_entries))
            return sorted((name, is_folder) for name, is_folder in kinds if is_folder is not None)
    except OSError:
        return []


def _is_folder(entry: "os.DirEntry[str]") -> bool | None:
    """Whether it is a folder; None for what is neither a folder nor a regular file."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        return False if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None
