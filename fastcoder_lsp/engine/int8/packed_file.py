"""The file of packed weights: safetensors, written once in a stream, read straight into memory that is page-aligned.

Owns the file's life: written beside its name and then renamed, so that a crash or a full disk leaves no half of one.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.int8.packing import Array
from fastcoder_lsp.errors import ResourceError

Layout = Mapping[str, tuple[str, tuple[int, ...]]]
_TYPES: Mapping[str, type[np.generic]] = {
    "I8": np.int8,
    "I32": np.int32,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
}


def write_packed(path: Path, layout: Layout, arrays: Iterable[tuple[str, Array]], progress: Progress) -> None:
    """Write `arrays`, which come in the order of `layout`, whole or piece by piece.

    Raises:
        ResourceError: the disk is full or the folder cannot be written.
    """
    total = sum(_size(*entry) for entry in layout.values())
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(_header(layout))
            written = 0
            for _, array in arrays:
                file.write(np.ascontiguousarray(array).data)
                written += array.nbytes
                progress(written / total, "converting weights to int8 (first start only)")
            assert written == total, f"{written} bytes packed, {total} announced"
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise ResourceError(
            f"the converted weights cannot be written to {path.parent}: {error.strerror or error}",
            f"free {total / 1e9:.1f} GB there, or set another cache folder",
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def read_packed(path: Path, layout: Layout, progress: Progress) -> dict[str, Array] | None:
    """The arrays of `layout`, page-aligned in memory, embeddings left on disk; None where the file is no such one."""
    try:
        with path.open("rb") as file:
            header = _header(layout)
            if file.read(len(header)) != header:
                return None
            arrays: dict[str, Array] = {}
            total = len(header) + sum(_size(*entry) for entry in layout.values())
            if path.stat().st_size != total:
                return None
            place = len(header)
            for name, (kind, shape) in layout.items():
                size = _size(kind, shape)
                if name == "embedding":
                    arrays[name] = np.memmap(path, dtype=_TYPES[kind], mode="r", offset=place, shape=shape)
                else:
                    arrays[name] = aligned(shape, _TYPES[kind])
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


def _size(kind: str, shape: tuple[int, ...]) -> int:
    return int(np.prod(shape)) * np.dtype(_TYPES[kind]).itemsize


def _header(layout: Layout) -> bytes:
    """The head of a safetensors file that holds these arrays one after the other."""
    entries: dict[str, object] = {}
    place = 0
    for name, (kind, shape) in layout.items():
        size = _size(kind, shape)
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
