"""A model's folder in the ordinary transformers format: its files, the note of a GGUF, and whether they can be read.

Weights are safetensors only, never pickles. `origin.json` is the note beside a GGUF's configuration and tokenizer,
which says where the weights are. `pull` checks the files too, so that it repairs a damaged model instead of calling it
ready. A tuned model has a `TrainingRecord` beside its weights.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec
from safetensors import SafetensorError, safe_open

from fastcoder_lsp.core.files import replace_file
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError
from fastcoder_lsp.model.gguf_header import check_header
from fastcoder_lsp.model.store import ModelStore, combined, reading, remembered_sha256, writing
from fastcoder_lsp.tokenizer import Tokenizer

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
PICKLE_MESSAGE = "has its weights only as Python pickles, which can run code when loaded"
PICKLE_HINT = "fastcoder never loads pickles. Use a model with safetensors or GGUF weights."


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on this disk.

    `folder` holds config.json, tokenizer.json and the weights, or a note that names a GGUF with them.
    """

    name: str
    folder: Path
    source: str  # their origin
    variant: str  # the difference from the requested model, empty for none
    digest: str  # hash of the weights; names everything that is converted from them
    hub_id: str = ""  # the hub's model that it is or replaces, where that is known


def open_folder(folder: Path, *, name: str, source: str, memory: Path, variant: str = "") -> ModelFiles:
    """The model in `folder`, hashed the first time (a second or two a GB); ModelInvalidError if parts are missing."""
    weights = weight_files(folder)
    for needed in ("config.json", "tokenizer.json"):
        if not (folder / needed).is_file():
            raise ModelInvalidError(f"{folder} lacks {needed}", "Name a folder in the transformers format.")
    digest = combined([remembered_sha256(file, memory) for file in weights])
    return ModelFiles(name=name, folder=folder, source=source, variant=variant, digest=digest)


def is_complete(folder: Path) -> bool:
    """Whether all files of a model are in `folder`; during a download they are not."""
    try:
        weight_files(folder)
    except ModelInvalidError:
        return False
    return (folder / "config.json").is_file() and (folder / "tokenizer.json").is_file()


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the weights, sorted; ModelInvalidError if some are missing, or all are pickles."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        with reading(str(folder)):
            entries = list(folder.iterdir())
        if any(entry.suffix in PICKLE_SUFFIXES for entry in entries):
            raise ModelInvalidError(f"{folder} {PICKLE_MESSAGE}", PICKLE_HINT)
        raise ModelInvalidError(
            f"{folder} has no {WEIGHTS}", "Name a folder in the transformers format, or a .gguf file."
        )
    files = [folder / name for name in _shards(folder / INDEX)]
    if missing := [file.name for file in files if not file.is_file()]:
        raise ModelInvalidError(f"{folder} lacks {', '.join(missing)}", "Download or copy the model again.")
    return files


def _shards(index: Path) -> list[str]:
    """File names in an index of shards; plain names only, so that none leads out of the folder."""
    try:
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(shards.values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelInvalidError(f"{index} is damaged: {error}", "Download or copy the model again.") from error
    if not names or any(not isinstance(name, str) or not name or Path(name).name != name for name in names):
        raise ModelInvalidError(f"{index} names files outside its folder", "Download or copy the model again.")
    return names


ORIGIN = "origin.json"


@dataclass(frozen=True, slots=True)
class Origin:
    """The note beside a GGUF's configuration and tokenizer: which file it was, and where its weights are.

    `source`: as the user knows it; `digest`: names the weights. `gguf`: the file that holds the weights, relative to
    the folder; empty where they were converted. `size`, `mtime_ns`: that file's when its sum was taken.
    """

    source: str = ""
    gguf_sha256: str = ""
    digest: str = ""
    gguf: str = ""
    size: int = 0
    mtime_ns: int = 0

    def write(self, folder: Path) -> None:
        """Put the note into the folder; raises OSError."""
        replace_file(folder / ORIGIN, json.dumps(asdict(self), indent=1).encode() + b"\n")

    def at(self, gguf: Path, folder: Path, store: Path) -> "Origin":
        """The note for weights in `gguf`, relative if both are in `store`; raises OSError if the file is missing."""
        state = gguf.stat()
        inside = gguf.is_relative_to(store) and folder.is_relative_to(store)
        place = os.path.relpath(gguf, folder) if inside else str(gguf.absolute())
        return replace(self, gguf=place, size=state.st_size, mtime_ns=state.st_mtime_ns)


def read_origin(folder: Path) -> Origin:
    """The note in `folder`. Raises ModelInvalidError if the note is damaged."""
    try:
        return msgspec.json.decode((folder / ORIGIN).read_bytes(), type=Origin)
    except (OSError, ValueError, RecursionError) as error:
        hint = f"Delete {folder}, and download the model again."
        raise ModelInvalidError(f"{folder / ORIGIN} is damaged: {error}", hint) from error


def is_noted(folder: Path) -> bool:
    """Whether the model in `folder` is finished: its note is there and whole. A torn one is made again."""
    try:
        read_origin(folder)
    except ModelInvalidError:
        return False
    return True


def gguf_of(folder: Path) -> Path | None:
    """The GGUF that holds the weights of `folder`; None if the folder does. ModelInvalidError for a damaged note."""
    if not (folder / ORIGIN).is_file():
        return None
    named = read_origin(folder).gguf
    return Path(os.path.normpath(folder / named)) if named else None


@dataclass(frozen=True, slots=True)
class FileDamage:
    """`file` cannot be used; `why` says so in a line."""

    file: Path
    why: str


def damage(folder: Path) -> FileDamage | None:
    """The damage of a model's files, or None."""
    file = folder
    try:
        with reading(str(folder)):
            file = folder / "config.json"
            config = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(config, dict) or "model_type" not in config:
                return FileDamage(file, f"{file} does not describe a model")
            file = folder / "tokenizer.json"
            Tokenizer.load(folder)
            if (gguf := gguf_of(folder)) is not None:
                file = gguf
                check_header(gguf)
                return None
            for file in weight_files(folder):
                with safe_open(file, framework="np"):
                    pass
    except FastcoderError as error:
        return FileDamage(file, error.message)
    except (SafetensorError, ValueError, RecursionError) as error:
        return FileDamage(file, f"{file} is damaged: {error}")
    return None


def give_up(folder: Path, file: Path, store: ModelStore) -> bool:
    """Let a damaged model be made anew; returns False for the user's own files, which stay.

    A conversion loses its note, and is replaced when another one is whole; the hub's damaged file is deleted.
    """
    with writing(folder, "repairing the model"):
        if folder.is_relative_to(store.root):
            (folder / ORIGIN).unlink(missing_ok=True)
            return True
        blob = file.resolve()
        if blob.parent.name != "blobs" or folder.parent.name != "snapshots":
            return False
        file.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            blob.unlink()
        return True


RECORD = "fastcoder-training.json"
VERSION = 1
_HINT = "Export it again with `fastcoder-lsp train export`, or use the model that it was tuned from."


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """One tuning."""

    method: str  # "cllm", "sdsat", "distill", "medusa" or "edits"
    base: str  # the model that was tuned
    base_digest: str  # hash of its weights
    weights: str  # hash of the tuned ones
    data: tuple[str, ...]  # the sources as named
    data_digest: str  # hash of their texts
    arguments: Mapping[str, Any]  # every setting of the run
    figures: Mapping[str, float] = field(default_factory=dict)  # losses and counts, before and after
    adaptive: tuple[int, ...] = ()  # SDSAT's token ids, none for CLLM on a plain base
    longest: int = 0  # L, the longest run of them in training
    block: int = 0  # CLLM's n
    edit_format: str = ""  # the name of the format of an edit model's prompts, empty for other models
    earlier: tuple[Mapping[str, Any], ...] = ()  # records of tunings of the base itself, oldest first
    version: int = VERSION

    def write(self, folder: Path) -> None:
        """Put the record beside the weights."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_record(folder: Path, digest: str | None = None) -> TrainingRecord | None:
    """The record of the model in `folder`; None for a model that was not tuned by this program.

    `digest`: the hash of the weights, to be checked; None to trust the record. Raises ModelInvalidError if the record
    is damaged, of another version, or of other weights.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        row = {"edit_format": ""} | json.loads(path.read_text(encoding="utf-8"))  # older records have none
        version = row["version"]
        known = {entry.name for entry in fields(TrainingRecord)}
        tuples = {name: tuple(row[name]) for name in ("data", "adaptive", "earlier")}
        record = TrainingRecord(**{name: row[name] for name in known} | tuples)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelInvalidError(f"{path} is damaged: {error}", _HINT) from error
    if version != VERSION:
        raise ModelInvalidError(f"{path} has format version {version}; this program reads version {VERSION}", _HINT)
    if any(type(token) is not int or token < 0 for token in record.adaptive):
        raise ModelInvalidError(f"{path} is damaged: adaptive token ids {record.adaptive}", _HINT)
    if digest is not None and record.weights != digest:
        raise ModelInvalidError(f"{path} describes other weights than those in its folder", _HINT)
    return record
