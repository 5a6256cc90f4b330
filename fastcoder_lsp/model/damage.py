"""Whether the files of a model on this disk can still be read, and giving up those that can be had again.

Owns the look that `pull` takes at what is there, so that it mends a damaged model instead of calling it ready. Reads
the tokenizer and the heads of the weights.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.model.files import weight_files
from fastcoder_lsp.model.gguf_check import check_header
from fastcoder_lsp.model.origin import ORIGIN, gguf_of
from fastcoder_lsp.model.store import Store, reading, writing
from fastcoder_lsp.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Damage:
    """`file` cannot be used; `why` says so in a line."""

    file: Path
    why: str


def damage(folder: Path) -> Damage | None:
    """What is wrong with a model's files, or None."""
    file = folder
    try:
        with reading(str(folder)):
            file = folder / "config.json"
            config = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(config, dict) or "model_type" not in config:
                return Damage(file, f"{file} does not describe a model")
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
        return Damage(file, error.message)
    except (SafetensorError, ValueError, RecursionError) as error:
        return Damage(file, f"{file} is damaged: {error}")
    return None


def give_up(folder: Path, file: Path, store: Store) -> bool:
    """Let a damaged model be made anew, if it is not the user's own; returns whether it is not.

    A conversion loses its mark, and is replaced when another one is whole; of the hub's cache the damaged file is
    deleted, which its next download brings again.
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
