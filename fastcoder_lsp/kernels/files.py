"""Files of machine code: read only if the user owns them and the digest fits, written atomically, locked.

A file consists of `MAGIC`, the SHA-256 of the payload, and the payload.
"""

import hashlib
import logging
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from fastcoder_lsp.core.files import put_in_place
from fastcoder_lsp.kernels.folder import mine, tidy

logger = logging.getLogger(__name__)

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
