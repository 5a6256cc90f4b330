"""This program's own files: private to the user, replaced atomically, and read with suspicion.

A failed write leaves no file; the next writer recognises the files of a killed process by name, and deletes them. A
cache file may come from an earlier version or a failing disk.

Windows cannot move or replace a file while a process has it open without permitting that: a virus scanner, an indexer,
or another process of ours. Replacing is tried again there.
"""

import errno
import json
import logging
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

log = logging.getLogger(__name__)

Content = TypeVar("Content")
PAUSES_S: Final = tuple(0.01 * 2**number for number in range(8))
"""Pauses between attempts, 2.6 s in all: reading a small file takes less than the first, a scanner several."""

TEMPORARY = ".tmp"
_OWNED = re.compile(r"\.(\d+)-[0-9a-f]{8}\.tmp")
"""The suffix that `temporary_for` adds to a name: the owner, and a unique part."""
_STALE_S = 60.0
_OLD_S = 86_400.0  # from this age a file counts as abandoned, even if a process with its number exists
_NOT_BESIDE: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY))
"""Errors of a folder that takes no new files, and of a file that is mounted by itself."""
_LEFT_FREE, _LEFT_SHARE = 100_000_000, 100
"""Disk space that is left to the user: these bytes, or this fraction of the disk if that is less."""


def private_folder(path: Path) -> Path:
    """Make a folder, with missing parents, that only the user can enter; restrict it if it was open."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
    if sys.platform != "win32" and path.stat().st_mode & 0o077:
        path.chmod(0o700)
    return path


def private_file(path: Path) -> BinaryIO:
    """Open a new, empty file for writing that only the user can read."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "w+b")


def check_room(folder: Path, size: int) -> None:
    """Raise OSError (ENOSPC) unless `size` bytes more leave the user some of the disk, before anything is written."""
    usage = shutil.disk_usage(folder)
    # 0: the file system does not know its size
    if usage.total and usage.free < size + min(usage.total // _LEFT_SHARE, _LEFT_FREE):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def reserve(file: BinaryIO, size: int) -> None:
    """Make a file `size` bytes long with its blocks allocated, so that writing through a mapping always has room."""
    if sys.platform == "linux":
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


def temporary_for(path: Path) -> Path:
    """A name beside `path` that no other writer has, of this process or another."""
    return path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{TEMPORARY}")


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `path` when the block ends: complete and synced, or not at all."""
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
    """Replace `path` by `content` atomically: after a crash it is the old file or the new one."""
    with appearing(path) as file:
        file.write(content)


def write_whole(path: Path, text: str) -> None:
    """Write a file that the user named: the whole text, or the file that was there stays. Raises OSError.

    A link stays a link. A pipe, a device, and a file in a folder that takes no new ones are written in place.
    """
    content = text.encode("utf-8", "backslashreplace")
    try:
        place = path.resolve()
    except RuntimeError as error:  # links in a circle, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
    if place.is_file() or not place.exists():
        try:
            with appearing(place) as file:
                file.write(content)
                if place.exists() and sys.platform != "win32":
                    os.fchmod(file.fileno(), place.stat().st_mode & 0o777)
        except OSError as error:
            if not place.exists() or error.errno not in _NOT_BESIDE:
                raise
        else:
            return
    place.write_bytes(content)


def put_in_place(
    made: Path, place: Path, *, windows: bool = sys.platform == "win32", rest: Callable[[float], None] = time.sleep
) -> None:
    """Move `made`, a complete and closed file or folder, to `place` on the same file system, replacing a file there.

    On `windows` it retries when the system denies it; `rest` waits for a number of seconds. If it raises OSError, both
    are unchanged.
    """
    for pause_s in PAUSES_S if windows else ():
        try:
            made.replace(place)
        except PermissionError:
            rest(pause_s)
        else:
            return
    made.replace(place)


def read_cached(path: Path, parse: Callable[[bytes], Content]) -> Content | None:
    """The content of a cache file; None if there is none, or if `parse` raises, which is logged."""
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001  zipfile and numpy raise zlib.error, struct.error, TokenError and more
        log.warning("%s is not used, because it is damaged or of another version: %s", path, error)
        return None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none, or it is damaged: whoever needs a field reports it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def delete(path: Path) -> None:
    """Delete a file; one that the system still holds is left for the next start."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.info("%s is still in use: %s", path, error)


def delete_stale(path: Path) -> None:
    """Delete the files of dead writers of `path`."""
    with suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208 names are enough
            owned = _OWNED.fullmatch(name.removeprefix(path.name)) if name.startswith(path.name) else None
            if owned and _is_stale(path.with_name(name), int(owned[1])):
                delete(path.with_name(name))


def _is_stale(path: Path, owner: int) -> bool:
    """Whether a file is abandoned. Files from the future, after a clock was set back, count as old, too."""
    import psutil  # noqa: PLC0415 few processes come here, and all would wait for it

    try:
        age_s = abs(time.time() - path.stat().st_mtime)
    except OSError:
        return False
    # Its owner may live in another container that shares the folder, where we can't see it: wait for a while.
    return age_s > _OLD_S or (age_s > _STALE_S and not psutil.pid_exists(owner))


def sync_folder(path: Path) -> None:
    """Sync a folder's entries to the disk, if the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
