"""Which kind of file holds the weights of a model's folder: safetensors, safetensors packed to few bits, or a GGUF."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastcoder_lsp.model.files import INDEX, WEIGHTS, weight_files
from fastcoder_lsp.model.gguf_tensors import GgufTensors
from fastcoder_lsp.model.origin import ORIGIN, gguf_of
from fastcoder_lsp.model.quantised import QuantisedTensors, scheme_of
from fastcoder_lsp.model.safetensors_file import SafetensorsTensors
from fastcoder_lsp.model.tensors import Tensors


def open_tensors(folder: Path) -> Tensors:
    """The tensors of the model in `folder`.

    Raises:
        ModelInvalidError: a file is missing or damaged.
    """
    if not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file() and gguf_of(folder) is not None:
        return GgufTensors.of(folder)
    scheme = scheme_of(_config(folder))
    plain = SafetensorsTensors(weight_files(folder))
    return plain if scheme is None else QuantisedTensors(plain, scheme)


def rounded_already(folder: Path) -> str:
    """What rounded the weights of the model in `folder` before, "GGUF" or "AWQ"; empty: nothing is known."""
    if (folder / ORIGIN).is_file():
        return "GGUF"
    scheme = scheme_of(_config(folder))
    return "" if scheme is None else scheme.method.upper()


def _config(folder: Path) -> Mapping[str, Any]:
    """What config.json says; nothing where it cannot be read, which who reads the model's shape says."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
