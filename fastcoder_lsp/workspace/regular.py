"""Opening and listing the files of a workspace: regular files only, without following links, bounded, never waiting.

A repository may contain pipes without a writer, links to devices and to `/proc`, files that grow while they are read,
and endless trees. Listing is breadth first.
"""

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

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
_TICK_NS = 100_000_000  # file systems' clocks tick in steps of up to 10 ms; some network ones in longer steps


class FileStamp(NamedTuple):
    """Facts that change with a file's content; compared, never ordered."""

    modified_ns: int
    size: int
    changed_ns: int
    inode: int

    def settled(self) -> bool:
        """Whether the file is too old to be written again within the same stamp."""
        return time.time_ns() - max(self.modified_ns, self.changed_ns) > _TICK_NS


def file_stamp(path: Path | str) -> FileStamp | None:
    """The stamp of what `path` leads to; None if there is nothing."""
    try:
        status = os.stat(path)  # noqa: PTH116 a tenth of the time
    except (OSError, ValueError):
        return None
    return FileStamp(status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino)


class NotRegularError(OSError):
    """It exists, but is not a regular file, or is outside the folder; `strerror` says which."""

    def __init__(self, path: Path, why: str = "not a regular file") -> None:
        super().__init__(errno.EINVAL, why, str(path))


def read_regular(path: Path, limit: int, *, inside: Path) -> bytes:
    """The first `limit` bytes of the regular file at `path`, following links that stay `inside` a resolved folder.

    Raises:
        OSError: it does not exist, cannot be read, or would block (`NotRegularError`: it is not a regular file).
    """
    try:
        real = as_on_disk(path.resolve(strict=True))
    except (RuntimeError, ValueError) as error:  # a loop of links, or an impossible name
        raise NotRegularError(path) from error
    if not real.is_relative_to(inside):
        raise NotRegularError(path, "outside the folder")
    return read_real(real, limit)


def read_real(real: Path, limit: int) -> bytes:
    """The first `limit` bytes of the regular file at `real`, which is not a link; raises as `read_regular`."""
    with open_real(real) as file:
        chunks: list[bytes] = []
        while limit > 0 and (chunk := file.read(min(limit, _CHUNK))):
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)


def open_real(real: Path) -> FileIO:
    """Open the regular file at `real`, which is not a link; raises as `read_regular`."""
    # Check before opening, because opening a device can have effects, and after, because it may be replaced.
    mode = openable(real).lstat().st_mode
    if not stat.S_ISREG(mode):
        raise NotRegularError(real, "a directory" if stat.S_ISDIR(mode) else "not a regular file")
    file = FileIO(os.open(openable(real), _FLAGS), "r")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotRegularError(real)


MAX_ENTRIES: Final = 1_000_000  # entries that are examined, of any kind
MAX_DEPTH: Final = 200  # deeper folders are a trap, and soon have no path that can be opened


def walk(top: Path, may_enter: Callable[[Path], bool]) -> Iterator[Path]:
    """The regular files below `top`, folder by folder, entering the folders that `may_enter` allows."""
    for base, names in walk_folders(top, may_enter):
        yield from (base / name for name in names)


def walk_folders(
    top: Path, may_enter: Callable[[Path], bool], max_entries: int = MAX_ENTRIES
) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with the names of its regular files, for callers that check folders once for all files."""
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
    """(name, whether a folder) of the first regular files and folders in `folder`, sorted; empty if unreadable."""
    try:
        with os.scandir(openable(folder)) as listed:
            kinds = ((entry.name, _is_folder(entry)) for entry in islice(listed, max_entries))
            return sorted((name, is_folder) for name, is_folder in kinds if is_folder is not None)
    except OSError:
        return []


def _is_folder(entry: "os.DirEntry[str]") -> bool | None:
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        return False if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None
