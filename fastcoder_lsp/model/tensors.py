"""A model's tensors as plain numbers, read a few rows at a time, in whatever kind of file they lie.

Owns the protocol; `open_tensors` chooses the file for a model's folder. Names are those of the transformers format.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt


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
