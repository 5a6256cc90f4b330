"""The protocols of a model's arithmetic below the engine: rows in, logits out, and a KV cache by slots.

Hidden states for drafters are stored beside keys and values, slot by slot, so that truncation, accepted paths and
prefix copies apply to them too. None are kept before the first request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.core.arrays import Floats, Int64s


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one forward pass after `cached` slots of the KV cache.

    Row i holds `tokens[i]`, writes slot `cached + i`, stands at position `cached + depths[i]`, and sees the cache, its
    ancestors by `parents` (-1: the cache), and itself. The pass computes logits for the rows from `logits_from` on.
    """

    tokens: Int64s
    parents: Int64s
    depths: Int64s
    cached: int
    logits_from: int
    skipped: frozenset[int] = frozenset()
    """Parts left out: of layer l its attention as 2l, its inner layer as 2l + 1; only with `sublayers`."""

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
    chunk: int  # rows of one prefill chunk; cancellation is checked between chunks

    def forward(self, rows: Rows) -> Floats | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""

    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the slots `cached + path[i]` to `cached + i`; `path` ascends, so the order of copying is safe."""

    def close(self) -> None:
        """Free the memory."""


@runtime_checkable
class SkimmingBackend(Backend, Protocol):
    """A backend that can leave parts of its model out (`Rows.skipped`)."""

    @property
    def sublayers(self) -> int:
        """How many parts there are: two a layer."""


@runtime_checkable
class KeepingBackend(Backend, Protocol):
    """A backend that can keep hidden states: for each slot, the output of some layers."""

    @property
    def layers(self) -> int:
        """Blocks of the model."""

    @property
    def kept_layers(self) -> tuple[int, ...]:
        """The layers behind which hidden states are kept, each from 1 on."""

    def last_norm(self) -> tuple[Floats, float]:
        """The weights of the norm before the head, and its ε: scales [E], or scales and offsets [2 E] for LayerNorm."""

    def keep_states(self, layers: Sequence[int]) -> None:
        """Keep the states behind these layers from now on; empties the KV cache."""

    def states(self, start: int, stop: int) -> Floats:
        """The states of the slots `start`…`stop`, [slots, kept layers, E]."""

    def embed(self, tokens: Int64s) -> Floats:
        """The embeddings of tokens, [tokens, E]."""


def can_keep(backend: Backend, layers: Sequence[int]) -> TypeGuard[KeepingBackend]:
    """Whether `backend` keeps hidden states, and its model has these layers."""
    if not isinstance(backend, KeepingBackend):
        return False
    return all(layer == NORMED or 1 <= layer <= backend.layers for layer in layers)


def with_layers(backend: KeepingBackend, layers: Sequence[int]) -> tuple[int, ...] | None:
    """The layers that `backend` must keep besides its own so that `layers` can be read; None if it has them."""
    wanted = {backend.layers if layer == NORMED else layer for layer in layers}
    kept = set(backend.kept_layers)
    return None if wanted <= kept else tuple(sorted(wanted | kept))


def read_states(backend: KeepingBackend, layers: Sequence[int], start: int, stop: int) -> Floats:
    """Hidden states of some slots, [slots, layers, E], in the order of `layers`; a copy."""
    kept = backend.kept_layers
    found = backend.states(start, stop)
    parts = []
    for layer in layers:
        state_TE = found[:, kept.index(backend.layers if layer == NORMED else layer)]
        parts.append(_normed(state_TE, *backend.last_norm()) if layer == NORMED else state_TE)
    return np.stack(parts, axis=1)


def _normed(state_TE: Floats, weight_E: Floats, eps: float) -> Floats:
    size = state_TE.shape[1]
    if len(weight_E) > size:
        state_TE = state_TE - state_TE.mean(axis=1, keepdims=True, dtype=np.float32)
    scale_T = 1 / np.sqrt(np.mean(np.square(state_TE), axis=1, dtype=np.float32) + np.float32(eps))
    normed_TE = state_TE * scale_T[:, None] * weight_E[:size]
    if len(weight_E) > size:
        normed_TE = normed_TE + weight_E[size:]
    return normed_TE.astype(np.float32, copy=False)
