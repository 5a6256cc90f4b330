"""A model's tensors in the ordinary transformers format, read from safetensors files one at a time.

Owns opening and naming them; converts nothing. Never reads pickles.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from fastcoder_lsp.engine.architecture import BROKEN_HINT, Shape
from fastcoder_lsp.errors import ModelInvalidError, ResourceError
from fastcoder_lsp.model.files import weight_files

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
        found = self.raw(name, *shape)
        if not found.is_floating_point():
            raise ModelInvalidError(f"{name} holds {found.dtype}, not numbers with a fraction", BROKEN_HINT)
        found = _made(found.float, name)
        if not bool(found.isfinite().all()):
            raise ModelInvalidError(f"{name} holds numbers that are not finite", BROKEN_HINT)
        return found

    def raw(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` in the precision of its file; raises like `get`."""
        if name not in self._files:
            raise ModelInvalidError(f"the model's files hold no {name}", BROKEN_HINT)
        opened: Any = self._files[name]
        try:
            # its shape first: what a damaged head claims is not read
            said = tuple(opened.get_slice(name).get_shape())
            if said != shape:
                raise ModelInvalidError(f"{name} is {said}, config.json says {shape}", BROKEN_HINT)
            tensor: torch.Tensor = _made(lambda: opened.get_tensor(name), name)
        except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
            raise ModelInvalidError(f"{name} cannot be read: {error}", BROKEN_HINT) from error
        return tensor

    def optional(self, name: str, *shape: int) -> "torch.Tensor | None":
        """Like `get`, but None where there is none: biases."""
        return self.get(name, *shape) if name in self else None

    def head(self, shape: Shape) -> "torch.Tensor":
        """The head's rows, which are the embedding's where the file has none of its own (tied)."""
        return self.get(HEAD if HEAD in self else EMBEDDING, shape.vocabulary, shape.width)


def _made(make: "Callable[[], torch.Tensor]", name: str) -> "torch.Tensor":
    """What `make` gives; torch says it has no memory by a plain RuntimeError."""
    try:
        return make()
    except RuntimeError as error:
        if "allocate memory" not in str(error) and "not enough memory" not in str(error):
            raise ModelInvalidError(f"{name} cannot be read: {error}", BROKEN_HINT) from error
        raise ResourceError(
            f"memory ran out while {name} was read", "Close other programs, or take a smaller model."
        ) from error


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
            except (SafetensorError, OSError, ValueError) as error:
                raise ModelInvalidError(f"{path} is damaged: {error}", BROKEN_HINT) from error
            files |= dict.fromkeys(opened.keys(), opened)
        yield Weights(files)
