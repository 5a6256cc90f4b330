"""The note beside a GGUF's configuration and tokenizer: which file it was, and where its weights lie.

Owns the note's form. Either the weights stay in the GGUF, and the note says where that is, or they were converted and
lie beside the note.
"""

import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.store import write_small

ORIGIN = "origin.json"
FORMAT = 1
"""Of the note. 0: every file was converted; 1: only those that must be."""


@dataclass(frozen=True, slots=True)
class Origin:
    """`source`: as the user knows it; `gguf_sha256`: of the file; `digest`: names the weights.

    `gguf`: the file that holds the weights, as seen from the folder; empty where they were converted.
    `size`, `mtime_ns`: that file's when its sum was taken. `format`: see `FORMAT`.
    """

    source: str = ""
    gguf_sha256: str = ""
    digest: str = ""
    gguf: str = ""
    size: int = 0
    mtime_ns: int = 0
    format: int = 0

    def write(self, folder: Path) -> None:
        """Put the note into the folder; raises OSError."""
        write_small(folder / ORIGIN, json.dumps(asdict(self), indent=1) + "\n")

    def at(self, gguf: Path, folder: Path, store: Path) -> "Origin":
        """The same, of weights that lie in `gguf`; raises OSError where it is not there.

        A file that is kept in `store`, as `folder` is, is named as seen from there: both may be moved together.
        """
        state = gguf.stat()
        inside = gguf.is_relative_to(store) and folder.is_relative_to(store)
        place = os.path.relpath(gguf, folder) if inside else str(gguf.absolute())
        return replace(self, gguf=place, size=state.st_size, mtime_ns=state.st_mtime_ns)


def read_origin(folder: Path) -> Origin:
    """What the model in `folder` was made from.

    Raises:
        ModelInvalidError: the note is damaged.
    """
    try:
        row = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        named = {**row}  # refuses what is no table
        found = Origin(**{entry.name: named[entry.name] for entry in fields(Origin) if entry.name in named})
    except (OSError, ValueError, TypeError, RecursionError) as error:
        hint = f"Delete {folder}, and download the model again."
        raise ModelInvalidError(f"{folder / ORIGIN} is damaged: {error}", hint) from error
    if any(type(getattr(found, entry.name)) is not entry.type for entry in fields(Origin)):
        hint = f"Delete {folder}, and download the model again."
        raise ModelInvalidError(f"{folder / ORIGIN} is damaged: it has values of the wrong type", hint)
    return found


def is_noted(folder: Path) -> bool:
    """Whether the model in `folder` was finished: its note is there, and whole. A torn one is none, and made again."""
    try:
        read_origin(folder)
    except ModelInvalidError:
        return False
    return True


def gguf_of(folder: Path) -> Path | None:
    """The GGUF that holds the weights of the model in `folder`; None where they lie in the folder itself.

    Raises:
        ModelInvalidError: the note is damaged.
    """
    if not (folder / ORIGIN).is_file():
        return None
    named = read_origin(folder).gguf
    return Path(os.path.normpath(folder / named)) if named else None
