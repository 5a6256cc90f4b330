"""The one way in which a file of a workspace is opened: a regular file, without waiting, no more of it than asked for.

A repository may hold anything under any name: pipes that nobody writes to, links to devices and to `/proc`, files that
grow while they are read. Owns what is refused; knows no rule about which files may be read (`rules`).
"""

import errno
import os
import stat
from io import FileIO
from pathlib import Path

from fastcoder_lsp.workspace.paths import as_on_disk, openable

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


_PIECE = 1 << 20


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
        pieces: list[bytes] = []
        while limit > 0 and (piece := file.read(min(limit, _PIECE))):
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)


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
