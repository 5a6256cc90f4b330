"""Files that only the user may read, and that appear whole or not at all.

Owns permissions and durability of what the store writes; knows no format.
"""

import os
import sys
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp"


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


def reserve(file: BinaryIO, size: int) -> None:
    """Make a file `size` bytes long with its blocks taken, so that writing through memory can't run out of disk."""
    if sys.platform == "linux":
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` at once: a crash leaves the old file or the new one, on the disk."""
    temporary = path.with_name(path.name + TEMPORARY)
    with private_file(temporary) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Have a folder's own entries on the disk, where the system can do that."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
