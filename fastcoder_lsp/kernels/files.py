"""One file of machine code: read only if it is ours and whole, written privately and at once, locked while compiled.

Owns the file's form: `MAGIC`, the SHA-256 of what follows, then that. Knows nothing of what is in it.
"""

import hashlib
import logging
import os
import shutil
import stat
import tempfile
import time
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
"""For another process that compiles the same; then we do."""
_PARTIAL = ".partial"


def read(path: Path) -> bytes | None:
    """What `path` holds; None where there is nothing, or nothing that can be trusted or used, which is then deleted."""
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
    """Put `payload` at `path` at once; nothing where that cannot be."""
    partial = ""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            tidy(path.parent)
        descriptor, partial = tempfile.mkstemp(_PARTIAL, path.stem, path.parent)  # readable by us alone
        with os.fdopen(descriptor, "wb") as file:
            file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
        put_in_place(Path(partial), path)
    except OSError:
        if partial:
            with suppress(OSError):
                Path(partial).unlink(missing_ok=True)


def drop(path: Path) -> None:
    """Delete what cannot be used."""
    logger.warning("%s is not used, because it is damaged or of another version", path)
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Lock:
    """The right to compile one function; given up by the system where its holder dies."""

    def __init__(self, lock: BaseFileLock | None) -> None:
        self._lock = lock

    @classmethod
    def taken(cls, path: Path) -> "Lock":
        """The right to write `path`, waited for; after `WAIT_S`, or where there can be no lock, without it."""
        lock = FileLock(path.parent.parent / f".{path.name}.lock", mode=0o600)
        until = time.monotonic() + WAIT_S
        with suppress(Timeout, OSError, NotImplementedError):
            lock.acquire(timeout=max(0.0, until - time.monotonic()), poll_interval=0.1)
            return cls(lock)
        return cls(None)

    def release(self) -> None:
        """Whoever waits finds what was written."""
        if self._lock is not None:
            with suppress(OSError):
                self._lock.release()


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))
