"""A model's tensors, read whole or a few rows at a time: for the CPU's kernels by numpy, for other engines by torch.

Each tensor is checked to be present, finite, and of the shape in config.json. Names are Llama's, and a model's
multipliers are applied (`architecture.Multipliers`), so that engines need to know neither.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.core.files import read_json
from fastcoder_lsp.engine.architecture import BROKEN_HINT, Multipliers, Shape, multipliers
from fastcoder_lsp.errors import ModelInvalidError, ResourceError
from fastcoder_lsp.model.tensors import Tensors, open_tensors

if TYPE_CHECKING:
    import torch

NORM = "model.norm.weight"
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_PART = re.compile(r"(.*\.)(mlp\.(?:gate|up|down)_proj)(\..*)")
_GRANITE_4 = {
    "mlp.gate_proj": ("shared_mlp.input_linear", 0, 2),
    "mlp.up_proj": ("shared_mlp.input_linear", 1, 2),
    "mlp.down_proj": ("shared_mlp.output_linear", 0, 1),
}
"""Llama's name → Granite 4's, the index of its part, and the number of parts."""


class Weights:
    """Tensors by name, read on demand. Made by `open_weights`."""

    def __init__(self, tensors: Tensors, factors: Multipliers) -> None:
        self._tensors, self._factors = tensors, factors

    def __contains__(self, name: str) -> bool:
        return self._place(name)[0] in self._tensors

    def rows(self, name: str, start: int, stop: int, *shape: int) -> Floats:
        """The rows `start` to `stop` of the tensor `name` of this shape, as fp32.

        Raises ModelInvalidError if it is absent, of another shape or not finite, ResourceError for lack of memory.
        """
        held, part = self._check(name, shape)
        factor = self._factor(name)
        try:
            found = self._tensors.rows(held, start + part * shape[0], stop + part * shape[0])
            if factor != 1:
                found = found * np.float32(factor)
            finite = bool(np.isfinite(found).all())
        except MemoryError as error:
            raise _no_memory(name) from error
        if not finite:
            raise ModelInvalidError(f"{name} contains infinite numbers or NaN", BROKEN_HINT)
        return found

    def array(self, name: str, *shape: int) -> Floats:
        """The tensor `name` as fp32; raises like `rows`."""
        return self.rows(name, 0, shape[0], *shape)

    def optional_array(self, name: str, *shape: int) -> Floats | None:
        """Like `array`, but None if there is none: biases."""
        return self.array(name, *shape) if name in self else None

    def kind(self, name: str, *shape: int) -> str:
        """The type of the tensor's numbers, such as "BF16"; raises like `rows`."""
        held, _ = self._check(name, shape)
        return self._tensors.kind(held) if self._factor(name) == 1 else "F32"

    def get(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` as fp32; raises like `rows`."""
        import torch  # noqa: PLC0415 the CPU's own kernels do without

        return torch.from_numpy(_writeable(self.array(name, *shape)))

    def raw(self, name: str, *shape: int) -> "torch.Tensor":
        """The tensor `name` in its file's precision, or fp32 where it is computed; raises like `rows`."""
        import torch  # noqa: PLC0415 as above

        held, _ = self._check(name, shape)
        if held != name or self._factor(name) != 1:
            return self.get(name, *shape)
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
        """Like `get`, but None if there is none: biases."""
        return self.get(name, *shape) if name in self else None

    def head_name(self) -> str:
        """The tensor of the head; the embedding if the file has none of its own (tied)."""
        return HEAD if HEAD in self else EMBEDDING

    def head(self, shape: Shape) -> "torch.Tensor":
        """The head's rows."""
        return self.get(self.head_name(), shape.vocabulary, shape.width)

    def _factor(self, name: str) -> float:
        """The factor of a tensor; for a tied head, the norm undoes the embedding's."""
        factors = self._factors
        if name == NORM:
            return factors.logits / (1.0 if HEAD in self else factors.embedding)
        if name == EMBEDDING:
            return factors.embedding
        if ".q_proj." in name:
            return factors.attention
        return factors.residual if ".o_proj." in name or ".down_proj." in name else 1.0

    def _place(self, name: str) -> tuple[str, int, int]:
        """The tensor in the file that holds `name`, the index of its part, and the number of equal parts."""
        if name not in self._tensors and (found := _PART.fullmatch(name)):
            held, part, parts = _GRANITE_4[found[2]]
            if (whole := found[1] + held + found[3]) in self._tensors:
                return whole, part, parts
        return name, 0, 1

    def _check(self, name: str, shape: tuple[int, ...]) -> tuple[str, int]:
        """The tensor in the file, and its part; checks the shape, since a damaged header may claim any size."""
        held, part, parts = self._place(name)
        if held not in self._tensors:
            raise ModelInvalidError(f"the model's files lack {name}", BROKEN_HINT)
        said, wanted = self._tensors.shape(held), (parts * shape[0], *shape[1:])
        if said != wanted:
            raise ModelInvalidError(f"{held} has the shape {said}, but config.json says {wanted}", BROKEN_HINT)
        return held, part


def _writeable(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return array if array.flags.writeable else array.copy()


def _no_memory(name: str) -> ResourceError:
    return ResourceError(f"memory ran out while reading {name}", "Close other programs, or use a smaller model.")


@contextmanager
def open_weights(folder: Path) -> Iterator[Weights]:
    """The tensors of a model's folder, while the context is open; ModelInvalidError for a missing or damaged file."""
    tensors = open_tensors(folder)
    try:
        yield Weights(tensors, multipliers(read_json(folder / "config.json")))
    finally:
        tensors.close()
