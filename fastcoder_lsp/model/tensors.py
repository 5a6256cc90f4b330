"""A model's tensors as plain numbers, read a few rows at a time, in whatever kind of file they lie.

Owns the protocol, and the choice of the file for a model's folder. Names are those of the transformers format.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.model.files import INDEX, WEIGHTS, weight_files
from fastcoder_lsp.model.origin import ORIGIN, gguf_of


class Tensors(Protocol):
    """Tensors by name. Methods raise ModelInvalidError where the file is damaged, KeyError for a name not in it."""

    def __contains__(self, name: str) -> bool:
        """Whether there is such a tensor."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Its sizes, rows first."""
        ...

    def kind(self, name: str) -> str:
        """What its numbers are kept as: "F32", "BF16", "I32", "Q5_0"."""
        ...

    def rows(self, name: str, start: int, stop: int) -> npt.NDArray[np.float32]:
        """The rows `start` to `stop`, as fp32."""
        ...

    def raw(self, name: str) -> npt.NDArray[np.generic]:
        """The whole tensor, in the precision of its file; bfloat16 as 16-bit patterns, blocks of a GGUF as fp32."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


def open_tensors(folder: Path) -> Tensors:
    """The tensors of the model in `folder`.

    Raises:
        ModelInvalidError: a file is missing or damaged.
    """
    from fastcoder_lsp.model.gguf_tensors import GgufTensors  # noqa: PLC0415 they know this protocol
    from fastcoder_lsp.model.quantised import QuantisedTensors, scheme_of  # noqa: PLC0415
    from fastcoder_lsp.model.safetensors_file import SafetensorsTensors  # noqa: PLC0415

    if not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file() and gguf_of(folder) is not None:
        return GgufTensors.of(folder)
    scheme = scheme_of(_config(folder))
    plain = SafetensorsTensors(weight_files(folder))
    return plain if scheme is None else QuantisedTensors(plain, scheme)


def rounded_already(folder: Path) -> str:
    """What rounded the weights of the model in `folder` before, "GGUF" or "AWQ"; empty: nothing is known."""
    if (folder / ORIGIN).is_file():
        return "GGUF"
    from fastcoder_lsp.model.quantised import scheme_of  # noqa: PLC0415 as above

    scheme = scheme_of(_config(folder))
    return "" if scheme is None else scheme.method.upper()


def _config(folder: Path) -> Mapping[str, Any]:
    """What config.json says; nothing where it cannot be read, which who reads the model's shape says."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
