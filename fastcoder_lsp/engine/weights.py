"""A model's tensors in the ordinary transformers format, read from safetensors files one at a time.

Owns opening and naming them; converts nothing. Never reads pickles.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from fastcoder_lsp.engine.architecture import BROKEN_HINT, Shape
from fastcoder_lsp.errors import ModelInvalidError

if TYPE_CHECKING:
    import torch

NORM = "model.norm.weight"
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


class Weights:
    """Tensors by name, read when asked for. Made by `open_weights`."""

    def __init__(self, files: dict[str, safe_open]) -> None:
        self._files = files

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def get(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` as fp32.

        Raises:
            ModelInvalidError: it is absent or not of this shape.
        """
        found = self.raw(name, *shape).float()
        if not bool(found.isfinite().all()):
            raise ModelInvalidError(f"{name} holds numbers that are not finite", BROKEN_HINT)
        return found

    def raw(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` in the precision of its file; raises like `get`."""
        if name not in self._files:
            raise ModelInvalidError(f"the model's files hold no {name}", BROKEN_HINT)
        opened: Any = self._files[name]
        try:
            tensor: torch.Tensor = opened.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelInvalidError(f"{name} cannot be read: {error}", BROKEN_HINT) from error
        if tuple(tensor.shape) != shape:
            raise ModelInvalidError(f"{name} is {tuple(tensor.shape)}, config.json says {shape}", BROKEN_HINT)
        return tensor

    def optional(self, name: str, *shape: int) -> "torch.Tensor | None":
        """Like `get`, but None where there is none: biases."""
        return self.get(name, *shape) if name in self else None

    def head(self, shape: Shape) -> "torch.Tensor":
        """The head's rows, which are the embedding's where the file has none of its own (tied)."""
        return self.get(HEAD if HEAD in self else EMBEDDING, shape.vocabulary, shape.width)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model, one or several by its index.

    Raises:
        ModelInvalidError: there are none, or one that the index names is missing.
    """
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        raise ModelInvalidError(
            f"{folder} holds no safetensors weights", "pickled weights are not read; use safetensors or GGUF"
        )
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelInvalidError(f"{index} is damaged: {error}", BROKEN_HINT) from error
    if missing := [name for name in names if not (folder / str(name)).is_file()]:
        raise ModelInvalidError(f"{folder} lacks {', '.join(map(str, missing))}", BROKEN_HINT)
    return [folder / str(name) for name in names]


@contextmanager
def open_weights(folder: Path) -> Iterator[Weights]:
    """The tensors of a model's folder, while the block lasts.

    Raises:
        ModelInvalidError: a file is missing or damaged.
    """
    with ExitStack() as stack:
        files: dict[str, safe_open] = {}
        for path in weight_files(folder):
            try:
                opened = stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelInvalidError(f"{path} is damaged: {error}", BROKEN_HINT) from error
            files |= dict.fromkeys(opened.keys(), opened)
        yield Weights(files)
