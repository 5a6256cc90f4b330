"""Prepared tokenizers, stored for the next start: reading a file replaces a second of work.

Owns the file's form: numpy's archive of arrays, without pickles, each with a check sum. Its name is a hash of the whole
description and of the code that prepared it; a damaged file, or one of another form, is replaced.
"""

import hashlib
import json
import os
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from fastcoder_lsp.core.replacing import put_in_place
from fastcoder_lsp.tokenizer import description as worked_out_by
from fastcoder_lsp.tokenizer.description import Prepared, identity_of, prepare

_MOST: Final = 4
"""Files that are kept, the latest; one takes some 8 MB."""
_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, MemoryError)


def prepared(description: str, kept: Path | None) -> Prepared:
    """The prepared description: read from the folder `kept`, else made and stored there if possible.

    Raises:
        ModelInvalidError: see `prepare`.
    """
    if kept is None:
        return prepare(description)
    path = kept / f"{_name(description)}.npz"
    found = _read(path, identity_of(description))
    if found is None:
        found = prepare(description)
        with suppress(OSError):  # a cache that cannot be written: the next start prepares it again
            _write(path, found)
    return found


def _name(description: str) -> str:
    return f"{hashlib.sha256(description.encode()).hexdigest()[:32]}-{_code()}"


@cache
def _code() -> str:
    """A hash of the code that prepares it and of this form of the file."""
    own = (Path(worked_out_by.__file__).read_bytes(), Path(__file__).read_bytes())
    return hashlib.sha256(b"".join(own)).hexdigest()[:8]


def _read(path: Path, identity: str) -> Prepared | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            told = json.loads(file["told"].tobytes())
            found = Prepared(
                identity=identity,
                control={str(name): int(token) for name, token in told["control"].items()},
                start_ids=tuple(map(int, told["start_ids"])),
                pieces=file["pieces"].tobytes(),
                ends_V=file["ends_V"],
                order_S=file["order_S"],
                encoder=file["encoder"].tobytes().decode(),
            )
    except _UNREADABLE:
        return None
    return found


def _write(path: Path, made: Prepared) -> None:
    """Put the file there at once, readable by the user alone, and delete older ones.

    Raises:
        OSError: it cannot be.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = json.dumps({"control": dict(made.control), "start_ids": made.start_ids})
    descriptor, partial = tempfile.mkstemp(".partial", path.stem, path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(
                file,
                told=_bytes(told.encode()),
                pieces=_bytes(made.pieces),
                ends_V=made.ends_V,
                order_S=made.order_S,
                encoder=_bytes(made.encoder.encode()),
            )
        put_in_place(Path(partial), path)
    except OSError:
        with suppress(OSError):
            Path(partial).unlink(missing_ok=True)
        raise
    older = sorted(
        (entry for entry in path.parent.iterdir() if entry != path), key=lambda entry: -entry.stat().st_mtime
    )
    for entry in older[_MOST - 1 :]:
        entry.unlink(missing_ok=True)


def _bytes(content: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(content, np.uint8)
