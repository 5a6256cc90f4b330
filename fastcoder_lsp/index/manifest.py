"""The manifest: which segments make up a store, and which of their files are dead. Replaced at once, never edited.

Owns the manifest's format; the segments' own format is in `segment`. History of the version: 1 (0.1) the first.
"""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.index.files import replace_file
from fastcoder_lsp.index.segment import DamagedError

FILE_NAME = "manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment's file name and the indexes of its dead files."""

    name: str
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a store. `source` tells people what it indexes; `complete`: no initial build is unfinished."""

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
    """The state of the store in `folder`; None where there is none.

    Raises:
        DamagedError: there is one of another version, or it was altered.
    """
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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{FILE_NAME} is damaged") from error
