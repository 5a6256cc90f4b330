"""The folder of a store: reads the manifest and its segments, checks them, and deletes unlisted files.

The manifest lists the segments of a store and their dead files. It is replaced atomically, never edited.
"""

import json
import uuid
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastcoder_lsp.core.files import TEMPORARY, delete, replace_file
from fastcoder_lsp.index import merge
from fastcoder_lsp.index.part import SEPARATOR, Part
from fastcoder_lsp.index.segment import DamagedError, read_segment

SUFFIX = ".seg"
_TRIES = 20
_CHECKED = 20_000
FILE_NAME = "manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment's file name and the indexes of its dead files."""

    name: str
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a store. `source` names its content for people; `complete`: no initial build is unfinished."""

    identity: str
    source: str
    generation: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    complete: bool = False

    def write(self, folder: Path) -> None:
        """Make this the state of the store in `folder`."""
        body = {
            "identity": self.identity,
            "source": self.source,
            "generation": self.generation,
            "complete": self.complete,
            "segments": [{"name": segment.name, "dead": list(segment.dead)} for segment in self.segments],
        }
        text = json.dumps(body, separators=(",", ":"))
        frame = {"version": VERSION, "crc": zlib.crc32(text.encode()), "body": text}
        replace_file(folder / FILE_NAME, json.dumps(frame).encode())


def read_manifest(folder: Path) -> Manifest | None:
    """The state of the store in `folder`, or None; DamagedError if it has another version, or was altered."""
    try:
        frame = json.loads((folder / FILE_NAME).read_bytes())
        if frame["version"] != VERSION:
            raise DamagedError(f"{FILE_NAME} has format {frame['version']}, this program writes {VERSION}")
        if zlib.crc32(frame["body"].encode()) != frame["crc"]:
            raise DamagedError(f"{FILE_NAME} is damaged")
        body = json.loads(frame["body"])
        segments = tuple(SegmentEntry(row["name"], tuple(row["dead"])) for row in body["segments"])
        return Manifest(body["identity"], body["source"], body["generation"], segments, body["complete"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{FILE_NAME} is damaged") from error


def new_segment_path(folder: Path) -> Path:
    """An unused segment name."""
    return folder / f"{uuid.uuid4().hex}{SUFFIX}"


def load(folder: Path, identity: str, known: Mapping[str, Part]) -> tuple[Manifest | None, list[Part]]:
    """The manifest and its segments, mapped unless `known`; None without a manifest. DamagedError if unusable."""
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
            # The writer has merged it away since we read the manifest; the next one does not name it.
            missing = gone
            continue
        if any(max(s.dead, default=-1) >= len(p.records) for s, p in zip(manifest.segments, parts, strict=True)):
            raise DamagedError(f"{FILE_NAME} does not fit its segments")
        return manifest, parts
    raise DamagedError(f"{missing.filename} is missing")


def delete_unnamed(folder: Path, manifest: Manifest) -> None:
    """Delete segments that the manifest does not name, and partial files of killed processes."""
    named = {segment.name for segment in manifest.segments}
    with suppress(OSError):  # files that can't be listed now are deleted another time
        for path in folder.iterdir():
            if path.name.endswith(TEMPORARY) or (path.suffix == SUFFIX and path.name not in named):
                delete(path)


def delete_all(folder: Path) -> None:
    """Delete the stored files to free their space; the caller holds the lock."""
    delete(folder / FILE_NAME)
    delete_unnamed(folder, Manifest("", ""))


def folder_size(folder: Path) -> int:
    """Bytes of the files in a folder; some may vanish meanwhile."""
    size = 0
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                size += path.stat().st_size
    return size


def check_order(part: Part) -> list[str]:
    """The faults inside a segment whose checksum is right: sample entries out of order, invalid places."""
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
