"""The protocol of a model's arithmetic below the engine: rows in, logits out, and a KV cache by slots.

A backend knows nothing of prompts, acceptance or sampling.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one forward pass after `cached` slots of the KV cache.

    Row i holds `tokens[i]`, writes slot `cached + i`, stands at position `cached + depths[i]`, and sees the cache, its
    ancestors by `parents` (-1: the cache), and itself. The pass computes logits for the rows from `logits_from` on.
    `skipped`: parts of the model that are left out, of layer l its attention as 2l and its inner layer as 2l + 1; only
    backends with `sublayers` support it.
    """

    tokens: npt.NDArray[np.int64]
    parents: npt.NDArray[np.int64]
    depths: npt.NDArray[np.int64]
    cached: int
    logits_from: int
    skipped: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def chain(cls, tokens: Sequence[int], cached: int) -> "Rows":
        """A stretch of text without logits: a chunk of a prefill."""
        count = np.arange(len(tokens), dtype=np.int64)
        return cls(np.asarray(tokens, dtype=np.int64), count - 1, count, cached, len(tokens))

    def ancestors(self) -> list[list[int]]:
        """For each row the rows of this pass that it sees, from the root down, itself last."""
        seen: list[list[int]] = []
        for row, parent in enumerate(self.parents.tolist()):
            seen.append([*(seen[parent] if parent >= 0 else []), row])
        return seen


class Backend(Protocol):
    """A model on a device with `capacity` slots of KV cache."""

    name: str
    device: str
    vocabulary: int
    capacity: int
    chunk: int
    """Rows of one prefill chunk; cancellation is checked between chunks."""

    def forward(self, rows: Rows) -> npt.NDArray[np.float32] | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        ...

    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the slots `cached + path[i]` to `cached + i`; `path` ascends, so the order of copying is safe."""
        ...

    def close(self) -> None:
        """Free the memory."""
        ...


@runtime_checkable
class SkimmingBackend(Backend, Protocol):
    """A backend that can leave parts of its model out (`Rows.skipped`)."""

    @property
    def sublayers(self) -> int:
        """How many parts there are: two a layer."""
        ...
