"""A model's tensors, read whole or a few rows at a time: for the CPU's kernels by numpy, for other engines by torch.

Owns the checks of what is read: there, of the shape that config.json says, finite. Converts nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.engine.architecture import BROKEN_HINT, Shape
from fastcoder_lsp.errors import ModelInvalidError, ResourceError
from fastcoder_lsp.model.tensors import Tensors, open_tensors

if TYPE_CHECKING:
    import torch

NORM = "model.norm.weight"
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"

Floats = npt.NDArray[np.float32]


class Weights:
    """Tensors by name, read when asked for. Made by `open_weights`."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def rows(self, name: str, start: int, stop: int, *shape: int) -> Floats:
        """The rows `start` to `stop` of the tensor `name`, which is of this shape, as fp32.

        Raises:
            ModelInvalidError: it is absent, of another shape, or holds what is no finite number.
            ResourceError: there is no memory for it.
        """
        self._check(name, shape)
        try:
            found = self._tensors.rows(name, start, stop)
            finite = bool(np.isfinite(found).all())
        except MemoryError as error:
            raise _no_memory(name) from error
        if not finite:
            raise ModelInvalidError(f"{name} contains numbers that are not finite", BROKEN_HINT)
        return found

    def array(self, name: str, *shape: int) -> Floats:
        """The tensor `name` as fp32; raises like `rows`."""
        return self.rows(name, 0, shape[0], *shape)

    def optional_array(self, name: str, *shape: int) -> Floats | None:
        """Like `array`, but None where there is none: biases."""
        return self.array(name, *shape) if name in self else None

    def kind(self, name: str, *shape: int) -> str:
        """What the tensor's numbers are kept as, "BF16" or another; raises like `rows`."""
        self._check(name, shape)
        return self._tensors.kind(name)

    def get(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` as fp32; raises like `rows`."""
        import torch  # noqa: PLC0415 the CPU's own kernels do without

        return torch.from_numpy(_writeable(self.array(name, *shape)))

    def raw(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` in the precision of its file, fp32 for blocks of a GGUF; raises like `rows`."""
        import torch  # noqa: PLC0415 as above

        self._check(name, shape)
        try:
            found = _writeable(self._tensors.raw(name))
            if self._tensors.kind(name) == "BF16" and found.dtype == np.uint16:
                return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(found)
        except MemoryError as error:
            raise _no_memory(name) from error
        except TypeError as error:
            raise ModelInvalidError(f"{name} cannot be read: {error}", BROKEN_HINT) from error

    def optional(self, name: str, *shape: int) -> "torch.Tensor | None":
        """Like `get`, but None where there is none: biases."""
        return self.get(name, *shape) if name in self else None

    def head_name(self) -> str:
        """The tensor of the head, which is the embedding where the file has none of its own (tied)."""
        return HEAD if HEAD in self else EMBEDDING

    def head(self, shape: Shape) -> "torch.Tensor":
        """The head's rows."""
        return self.get(self.head_name(), shape.vocabulary, shape.width)

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        """Its shape, before anything is read: what a damaged head claims is not."""
        if name not in self._tensors:
            raise ModelInvalidError(f"the model's files lack {name}", BROKEN_HINT)
        said = self._tensors.shape(name)
        if said != shape:
            raise ModelInvalidError(f"{name} has the shape {said}, but config.json says {shape}", BROKEN_HINT)


def _writeable(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """The same: torch shares the memory, and wants it to be its own."""
    return array if array.flags.writeable else array.copy()


def _no_memory(name: str) -> ResourceError:
    return ResourceError(f"memory ran out while reading {name}", "Close other programs, or use a smaller model.")


@contextmanager
def open_weights(folder: Path) -> Iterator[Weights]:
    """The tensors of a model's folder, while the block lasts.

    Raises:
        ModelInvalidError: a file is missing or damaged.
    """
    tensors = open_tensors(folder)
    try:
        yield Weights(tensors)
    finally:
        tensors.close()
