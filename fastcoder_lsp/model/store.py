"""The cache folder's part that belongs to models: its layout, its locks, free space, atomic moves.

Layout under the cache folder, private to the user:
    models/gguf/FILE.gguf            joined from wheels; FILE.gguf.partial while fetching
    models/converted/SHA256/         a GGUF in the transformers format, with `origin.json`
    models/digests/KEY.json          sums already computed of files elsewhere
    models/work/                     unfinished conversions and downloads; never read, emptied by the next one
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.errors import ResourceError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when a write finds no space: disk, quota, limit."""


@dataclass(frozen=True, slots=True)
class Store:
    """The models' folder below one cache folder; nothing is made before it is written to."""

    cache: Path

    @classmethod
    def at(cls, cache: Path | None) -> "Store":
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
        """Where a GGUF joined from wheels is kept."""
        return self.root / "gguf" / file

    def converted(self, sha256: str) -> Path:
        """Where the conversion of the GGUF with this sum is kept."""
        return self.root / "converted" / sha256

    def open(self) -> None:
        """Make the folders, readable by the user alone.

        Raises:
            ResourceError: they cannot be made.
        """
        try:
            self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.root, self.root / "gguf", self.root / "converted", self.digests, self.root / "work"):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ResourceError(
                f"cannot write to the cache folder {self.cache}: {error.strerror}",
                "Free some space or name another folder: FASTCODER_CACHE=FOLDER",
            ) from error

    @contextmanager
    def lock(self, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold `name` against other processes; the system lets go if we die. `on_wait` is told once if it is taken."""
        self.open()
        lock = FileLock(self.root / "work" / f"{name}.lock", mode=0o600)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def workspace(self, name: str) -> Iterator[Path]:
        """An empty folder for unfinished things; what a killed run left under `name` goes away. Hold `lock(name)`."""
        for left in (self.root / "work").glob(f"{name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self.root / "work") as folder:
            yield Path(folder)


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """See that `needed` bytes are free where `folder` is.

    Raises:
        ResourceError: they are not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ResourceError(
            f"{purpose} needs {size_text(needed)} in {folder}, and {size_text(free)} are free",
            "Free some space there, or name a folder on another disk: FASTCODER_CACHE=FOLDER",
        )


def disk_full(folder: Path, purpose: str) -> ResourceError:
    """The error for a write that failed for want of space."""
    return ResourceError(
        f"{purpose} failed: no space left in {folder}",
        "Free some space and run it again (what is finished is kept), or set FASTCODER_CACHE=FOLDER",
    )


def publish(made: Path, place: Path) -> None:
    """Move a finished folder to its place in one step, after its files are safely on disk."""
    for file in made.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    if place.exists():
        shutil.rmtree(place)
    made.replace(place)


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
    """Bytes as people write them: decimal units."""
    if count < 10**6:
        return f"{max(1, round(count / 1e3))} kB" if count else "0 B"
    return f"{count / 1e6:.0f} MB" if count < 10**9 else f"{count / 1e9:.1f} GB"
