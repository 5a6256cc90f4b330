"""The file of packed weights: safetensors, written once in a stream, read straight into page-aligned memory.

A file is written beside its name and then renamed, so that a crash or a full disk leaves no partial one. The writer
holds a lock that ends with its process; the next writer deletes partial files that no process locks.
"""

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from filelock import BaseFileLock, FileLock, Timeout

from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.files import check_room, private_folder, put_in_place, sync_folder
from fastcoder_lsp.engine.int8.packing import Array
from fastcoder_lsp.model.store import write_error
from fastcoder_lsp.model.tensors import TYPES, Layout, array_bytes, safetensors_header

UNFINISHED = ".partial"
STALLED_S = 60.0  # after this time without progress a process counts as stopped, and another one repeats its work


def write_packed(
    path: Path, layout: Layout, arrays: Iterable[tuple[str, Array]], progress: Progress, *, into: str = "int8"
) -> None:
    """Write `arrays` in the order of `layout`, whole or piece by piece; ResourceError if the disk refuses."""
    total = layout_bytes(layout)
    partial = path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{UNFINISHED}")
    try:
        private_folder(path.parent)
        check_room(path.parent, total)
        with partial.open("wb") as file:
            file.write(safetensors_header(layout))
            written = 0
            for _, array in arrays:
                file.write(np.ascontiguousarray(array).data)
                written += array.nbytes
                progress(written / total, f"converting weights to {into} (first start only)")
            assert written == total, f"{written} bytes packed, {total} announced"
            file.flush()
            os.fsync(file.fileno())
        put_in_place(partial, path)
        sync_folder(path.parent)
    except OSError as error:
        raise write_error(error, path.parent, f"storing the converted weights ({total / 1e9:.1f} GB)") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def packed_in_memory(
    layout: Layout, arrays: Iterable[tuple[str, Array]], progress: Progress, *, into: str = "int8"
) -> dict[str, Array]:
    """The arrays as `write_packed` and `read_packed` give them, without a file: if none can be stored."""
    made = {name: aligned(shape, TYPES[kind]) for name, (kind, shape) in layout.items()}
    filled = dict.fromkeys(made, 0)
    total, done = sum(array.nbytes for array in made.values()), 0
    for name, piece in arrays:
        bytes_ = np.ascontiguousarray(piece).view(np.uint8).reshape(-1)
        made[name].reshape(-1).view(np.uint8)[filled[name] : filled[name] + len(bytes_)] = bytes_
        filled[name] += len(bytes_)
        done += len(bytes_)
        progress(done / total, f"converting weights to {into}")
    assert done == total, f"{done} bytes packed, {total} announced"
    return made


@contextmanager
def writing_alone(path: Path, progress: Progress) -> Iterator[None]:
    """Lock `path` against other writers, waiting for one only while it makes progress; may raise ResourceError."""
    try:
        private_folder(path.parent)
        lock = _lock(path)
        _acquire(lock, path, progress)
    except (OSError, NotImplementedError) as error:
        raise write_error(error, path.parent, "storing the converted weights") from error
    try:
        yield
    finally:
        lock.release()


def delete_unfinished(folder: Path) -> None:
    """Delete partial files of killed processes; files that are being written stay."""
    with suppress(OSError):
        for partial in list(folder.glob(f"*{UNFINISHED}")):
            whole = partial.with_name(partial.name.partition(".")[0] + ".safetensors")
            with suppress(OSError), held(whole) as ours:
                if ours:
                    partial.unlink(missing_ok=True)


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Lock `path` as `writing_alone`, without waiting; yields whether it succeeded."""
    lock = _lock(path)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError, NotImplementedError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _acquire(lock: BaseFileLock, path: Path, progress: Progress) -> None:
    """Take the lock; go on without it if its holder's file has not grown for `STALLED_S`."""
    seen, since = -1, time.monotonic()
    while True:
        with suppress(Timeout):
            lock.acquire(timeout=1)
            return
        size = sum(_bytes_of(partial) for partial in path.parent.glob(f"{path.name}.*{UNFINISHED}"))
        if size != seen:
            seen, since = size, time.monotonic()
        elif time.monotonic() - since > STALLED_S:
            return
        progress(0.0, "waiting for another process that converts the weights")


def _bytes_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _lock(path: Path) -> BaseFileLock:
    return FileLock(path.with_suffix(".lock"), mode=0o600)


def read_packed(path: Path, layout: Layout, progress: Progress) -> dict[str, Array] | None:
    """The arrays of `layout`, page-aligned in memory, embeddings left on disk; None if the file does not match."""
    try:
        with path.open("rb") as file:
            header = safetensors_header(layout)
            if file.read(len(header)) != header:
                return None
            arrays: dict[str, Array] = {}
            total = len(header) + layout_bytes(layout)
            if path.stat().st_size != total:
                return None
            place = len(header)
            for name, (kind, shape) in layout.items():
                size = array_bytes(kind, shape)
                if name == "embedding":
                    arrays[name] = np.memmap(path, dtype=TYPES[kind], mode="r", offset=place, shape=shape)
                else:
                    arrays[name] = aligned(shape, TYPES[kind])
                    file.seek(place)
                    if file.readinto(arrays[name].data.cast("B")) != size:
                        return None
                place += size
                progress(place / total, "reading weights")
    except OSError:
        return None
    return arrays


def aligned(shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """Zeros that begin on a page, for vector loads and large pages."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 4096, dtype=np.uint8)
    start = -raw.ctypes.data % 4096
    return raw[start : start + size].view(dtype).reshape(shape)


def layout_bytes(layout: Layout) -> int:
    """Bytes of the arrays."""
    return sum(array_bytes(*entry) for entry in layout.values())
