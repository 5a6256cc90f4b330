"""Chooses the folder for machine code: one that only the user can write to.

Machine code read from the folder is executed. Therefore the user must own the folder, other users must have no access,
and they must not be able to replace a folder above it. If the configured folder does not qualify (a read-only home, or
one that a group can write to), a folder in the system's temporary folder is used; if that fails too, none.

A file consists of `MAGIC`, the SHA-256 of the payload, and the payload: it is read only if the user owns it and the
digest fits, written atomically, and locked.
"""

import hashlib
import logging
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from fastcoder_lsp.core.files import put_in_place

logger = logging.getLogger(__name__)

_VERSIONS = 3
"""Earlier versions to keep, the latest ones; each takes about 2 MB."""


@dataclass(frozen=True, slots=True)
class TrustedFolder:
    """The folder, or None if no folder is safe; `note`: why it is not the configured one."""

    folder: Path | None
    note: str = ""


@cache
def trusted_folder(wanted: Path) -> TrustedFolder:
    """The folder for machine code, created if it is missing."""
    reason = _unfit(wanted)
    if reason is None:
        return TrustedFolder(wanted)
    temporary = Path(tempfile.gettempdir())
    user = os.geteuid() if sys.platform != "win32" else "user"
    instead = temporary / f"fastcoder-lsp-{user}" / "kernels"
    # If no temporary folder is writable, Python falls back to the current folder, which is no place for machine code.
    if temporary != Path.cwd() and _unfit(instead) is None:
        return TrustedFolder(instead, f"compiled kernels are kept in {instead}: {reason}")
    return TrustedFolder(None, f"kernels are compiled at every start: {reason}")


def mine(facts: os.stat_result) -> bool:
    """Whether the user owns a file or folder, and other users cannot write to it."""
    return sys.platform == "win32" or (facts.st_uid == os.geteuid() and not facts.st_mode & 0o022)


def tidy(used: Path) -> None:
    """Delete the folders of earlier versions beside `used`, except the latest few."""
    with suppress(OSError):
        versions = sorted(
            (entry for entry in used.parent.iterdir() if entry != used and entry.is_dir() and not entry.is_symlink()),
            key=lambda entry: entry.stat().st_mtime,
        )
        for version in versions[:-_VERSIONS]:
            shutil.rmtree(version, ignore_errors=True)


def _unfit(folder: Path) -> str | None:
    """The reason why machine code cannot be kept in `folder`, or None."""
    try:
        for above in (*reversed(folder.parents), folder):
            if not above.is_dir():
                above.mkdir(mode=0o700, exist_ok=True)
        if sys.platform != "win32":
            _close(folder)
            for above in {*folder.parents, *Path(os.path.realpath(folder)).parents}:
                if _exchangeable(above):
                    return f"other users can change {above}"
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder}: {error.strerror or error}"


def _close(folder: Path) -> None:
    """Make a folder private; delete its content if other users could write to it.

    Raises:
        OSError: the folder belongs to another user.
    """
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise PermissionError(0, "it belongs to another user")
    if facts.st_mode & 0o077:
        folder.chmod(0o700)
    if facts.st_mode & 0o022:
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _exchangeable(folder: Path) -> bool:
    """Whether a user other than root and this one can replace an entry of `folder`."""
    facts = folder.lstat()
    if facts.st_uid not in (0, os.geteuid()):
        return True
    if stat.S_ISLNK(facts.st_mode) or facts.st_mode & stat.S_ISVTX:
        return False
    return bool(facts.st_mode & 0o002) or (bool(facts.st_mode & 0o020) and not _private_group(facts.st_gid))


def _private_group(group: int) -> bool:
    """Whether a group is root's, or the user's own group, which many systems create for each user."""
    import grp  # noqa: PLC0415 missing on Windows
    import pwd  # noqa: PLC0415

    if group == 0:
        return True
    try:
        entry, name = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


MAGIC = b"fastcoder kernel 1\n"
_DIGEST = 32
_LARGEST = 1 << 26
WAIT_S = 90.0
"""Longest wait for another process that compiles the same function."""
_PARTIAL = ".partial"


def read(path: Path) -> bytes | None:
    """The payload at `path`; None if the file is missing, or is damaged or not the user's: that file is deleted."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK") | _flag("O_BINARY"))
    except FileNotFoundError:
        return None
    except OSError:
        drop(path)
        return None
    try:
        facts = os.fstat(descriptor)
        if not (stat.S_ISREG(facts.st_mode) and mine(facts) and facts.st_size <= _LARGEST):
            drop(path)
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            content = file.read()
    finally:
        os.close(descriptor)
    digest, payload = content[len(MAGIC) : len(MAGIC) + _DIGEST], content[len(MAGIC) + _DIGEST :]
    if content.startswith(MAGIC) and hashlib.sha256(payload).digest() == digest:
        return payload
    drop(path)
    return None


def write(path: Path, payload: bytes) -> None:
    """Write `payload` to `path` atomically; an `OSError` is ignored."""
    partial = ""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            tidy(path.parent)
        descriptor, partial = tempfile.mkstemp(_PARTIAL, path.stem, path.parent)  # readable by the user only
        with os.fdopen(descriptor, "wb") as file:
            file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
        put_in_place(Path(partial), path)
    except OSError:
        if partial:
            with suppress(OSError):
                Path(partial).unlink(missing_ok=True)


def drop(path: Path) -> None:
    """Delete an unusable file or folder, and log that."""
    logger.warning("%s is not used, because it is damaged or of another version", path)
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def take_lock(path: Path) -> BaseFileLock | None:
    """Lock `path` for the process that compiles it; None after `WAIT_S`, or if the folder has no locks.

    The system releases the lock of a process that dies.
    """
    lock = FileLock(path.parent.parent / f".{path.name}.lock", mode=0o600)
    with suppress(Timeout, OSError, NotImplementedError):
        lock.acquire(timeout=WAIT_S, poll_interval=0.1)
        return lock
    return None


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))
