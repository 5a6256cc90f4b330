"""SHA-256 sums of big files, computed once: remembered by path, size and time of change.

A remembered sum names caches; it proves nothing about a download.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fastcoder_lsp.core.files import private_folder, read_cached, replace_file
from fastcoder_lsp.errors import ModelInvalidError

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
