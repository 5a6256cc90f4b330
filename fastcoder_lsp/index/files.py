"""Files that only the user may read, and that appear whole or not at all.

Owns permissions, durability and room of what the store writes; knows no format. Whatever goes wrong while a file is
written, nothing of it is left; what a killed process left is known by its name and deleted by the next writer.
"""

import errno
import logging
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import psutil

from fastcoder_lsp.core.replacing import put_in_place

log = logging.getLogger(__name__)

TEMPORARY = ".tmp"
_OWNED = re.compile(r"\.(\d+)-[0-9a-f]{8}\.tmp")
"""What `temporary_for` adds to a name: whose it is, and what makes it the only one."""
_STALE_S = 60.0
_OLD_S = 86_400.0
"""Age from which nobody is believed to be at it still, though a process of its number is there."""
_LEFT_FREE, _LEFT_SHARE = 100_000_000, 100
"""Bytes that are left to the user on the disk, or one in so many of it where that is less."""


def private_folder(path: Path) -> Path:
    """Make a folder (and the parents that are missing) that nobody else can enter, and close it if it was open."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    if sys.platform != "win32" and path.stat().st_mode & 0o077:
        path.chmod(0o700)
    return path


def private_file(path: Path) -> BinaryIO:
    """Open a new, empty file for writing that nobody else can read."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "w+b")


def check_room(folder: Path, size: int) -> None:
    """See that `size` bytes more leave the user some of the disk.

    Raises:
        OSError: they don't (ENOSPC). So a full disk is found before anything of it is taken.
    """
    usage = shutil.disk_usage(folder)
    # A file system that does not know its size says that it is 0.
    if usage.total and usage.free < size + min(usage.total // _LEFT_SHARE, _LEFT_FREE):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def reserve(file: BinaryIO, size: int) -> None:
    """Make a file `size` bytes long with its blocks taken, so that writing through memory can't run out of disk."""
    if sys.platform == "linux":
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def temporary_for(path: Path) -> Path:
    """A name beside `path` that no other writer has, of this process or another."""
    return path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{TEMPORARY}")


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write, which has the name `path` when the block ends: whole, and on the disk.

    Where the block or the disk fails, what was at `path` is still there, and nothing else.
    """
    delete_stale(path)
    temporary = temporary_for(path)
    try:
        with private_file(temporary) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        put_in_place(temporary, path)
    except BaseException:
        delete(temporary)
        raise
    sync_folder(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` at once: a crash leaves the old file or the new one, on the disk."""
    with appearing(path) as file:
        file.write(content)


def delete(path: Path) -> None:
    """Delete a file; one that the system still holds is left for the next start."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.info("%s is still in use: %s", path, error)


def delete_stale(path: Path) -> None:
    """Delete what writers of `path` left that have died."""
    with suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208 names are enough
            owned = _OWNED.fullmatch(name.removeprefix(path.name)) if name.startswith(path.name) else None
            if owned and _is_stale(path.with_name(name), int(owned[1])):
                delete(path.with_name(name))


def _is_stale(path: Path, owner: int) -> bool:
    """Whether nobody writes it any longer. A clock that was set back makes files of the future, which count as well."""
    try:
        age_s = abs(time.time() - path.stat().st_mtime)
    except OSError:
        return False
    # In another container that shares the folder its owner may live, unseen from here: a while is waited for it.
    return age_s > _OLD_S or (age_s > _STALE_S and not psutil.pid_exists(owner))


def sync_folder(path: Path) -> None:
    """Have a folder's own entries on the disk, where the system can do that."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
