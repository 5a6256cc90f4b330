"""A model's folder in the ordinary transformers format: which files make it up, and whether they are all there.

Owns the check of presence and of safety (safetensors only, never pickles); reads no tensor.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.model.digest import combined, remembered_sha256
from fastcoder_lsp.model.store import reading

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
PICKLE_MESSAGE = "has its weights only as Python pickles, which can run code when loaded"
PICKLE_HINT = "fastcoder never loads pickles. Use a model with safetensors or GGUF weights."


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on this disk.

    `name`: the model that this is. `folder` holds config.json, tokenizer.json and safetensors weights. `source`: where
    they came from. `variant`: how it differs from what was asked for, empty where it does not. `digest`: hash of the
    weights; names what is converted from them.
    """

    name: str
    folder: Path
    source: str
    variant: str
    digest: str


def open_folder(folder: Path, *, name: str, source: str, memory: Path, variant: str = "") -> ModelFiles:
    """The model in `folder`, checked for its files; the weights are hashed the first time (a second or two a GB).

    Raises:
        ModelInvalidError: a file is missing, or the weights are pickles.
    """
    weights = weight_files(folder)
    for needed in ("config.json", "tokenizer.json"):
        if not (folder / needed).is_file():
            raise ModelInvalidError(f"{folder} lacks {needed}", "Name a folder in the transformers format.")
    digest = combined([remembered_sha256(file, memory) for file in weights])
    return ModelFiles(name=name, folder=folder, source=source, variant=variant, digest=digest)


def is_complete(folder: Path) -> bool:
    """Whether all files of a model are in `folder`, as they are not while it is being fetched."""
    try:
        weight_files(folder)
    except ModelInvalidError:
        return False
    return (folder / "config.json").is_file() and (folder / "tokenizer.json").is_file()


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the weights: one, or those that the index names, sorted.

    Raises:
        ModelInvalidError: they are not all there, or there are pickles only.
    """
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
