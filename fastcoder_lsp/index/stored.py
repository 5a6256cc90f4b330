"""The folder of a store: reading what its manifest names, checking it, and deleting what it no longer names.

Owns no state; `store` decides when.
"""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from fastcoder_lsp.index import merge
from fastcoder_lsp.index.files import TEMPORARY, delete
from fastcoder_lsp.index.manifest import FILE_NAME, Manifest, read_manifest
from fastcoder_lsp.index.part import Part
from fastcoder_lsp.index.segment import DamagedError, read_segment
from fastcoder_lsp.index.suffix_array import SEPARATOR

SUFFIX = ".seg"
_TRIES = 20
_CHECKED = 20_000


def new_segment_path(folder: Path) -> Path:
    """A segment's name that was never used."""
    return folder / f"{uuid.uuid4().hex}{SUFFIX}"


def load(folder: Path, identity: str, known: Mapping[str, Part]) -> tuple[Manifest | None, list[Part]]:
    """The manifest and its segments, mapped; None where there is no manifest.

    Args:
        folder: of the store.
        identity: the tokenizer's.
        known: segments that are mapped already, by name.

    Raises:
        DamagedError: what is there cannot be used.
    """
    for _ in range(_TRIES):
        manifest = read_manifest(folder)
        if manifest is None:
            return None, []
        if manifest.identity != identity:
            raise DamagedError("it belongs to another tokenizer")
        try:
            names = [segment.name for segment in manifest.segments]
            parts = [known.get(name) or read_segment(folder / name, identity) for name in names]
        except FileNotFoundError as gone:
            # Merged away by the writer since the manifest was read; the next one does not name it.
            missing = gone
            continue
        if any(max(s.dead, default=-1) >= len(p.records) for s, p in zip(manifest.segments, parts, strict=True)):
            raise DamagedError(f"{FILE_NAME} does not fit its segments")
        return manifest, parts
    raise DamagedError(f"{missing.filename} is missing")


def delete_unnamed(folder: Path, manifest: Manifest) -> None:
    """Delete segments that the manifest does not name, and what a killed process left half written."""
    named = {segment.name for segment in manifest.segments}
    with suppress(OSError):  # what can't be listed now is deleted another time
        for path in folder.iterdir():
            if path.name.endswith(TEMPORARY) or (path.suffix == SUFFIX and path.name not in named):
                delete(path)


def delete_all(folder: Path) -> None:
    """Delete what is stored, for the room that it takes; for who holds the lock."""
    delete(folder / FILE_NAME)
    delete_unnamed(folder, Manifest("", ""))


def folder_size(folder: Path) -> int:
    """Bytes of the files in a folder, of which some may go while it is looked at."""
    size = 0
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                size += path.stat().st_size
    return size


def check_order(part: Part) -> list[str]:
    """What is wrong inside a segment whose checksum is right: sample entries out of order, places that are none."""
    order_M, tokens_N = part.order_M, part.tokens_N
    problems = []
    inside = (order_M > 1) & (order_M < len(tokens_N) - 1)
    if not inside.all() or (tokens_N[order_M[inside]] == SEPARATOR).any():
        return [f"{part.name} has places outside the text"]
    if len(np.unique(order_M)) != len(order_M):
        problems.append(f"{part.name} has a place twice")
    expected = sum(max(0, len(part.tokens_of(file)) - 1) for file in range(len(part.records)))
    if expected != len(order_M):
        problems.append(f"{part.name} has {len(order_M)} places, not {expected}")
    entries = np.linspace(0, max(0, len(order_M) - 2), min(_CHECKED, max(0, len(order_M) - 1))).astype(np.int64)
    if any(_context(part, int(order_M[entry])) > _context(part, int(order_M[entry + 1])) for entry in entries):
        problems.append(f"{part.name} is not in order")
    return problems


def _context(part: Part, place: int) -> list[int]:
    """The tokens before a place, backwards, to the beginning of its file, as far as orders are exact."""
    backwards: list[int] = part.tokens_N[max(0, place - merge.DEPTH) : place][::-1].tolist()
    return backwards[: backwards.index(SEPARATOR)] if SEPARATOR in backwards else backwards
