"""The KV cache: one tensor for all layers, written by slots, moved on the device; and copies of other prefixes.

A program reads only the first slots, its bucket. The shelf keeps prefixes of other documents, so that returning to one
costs a copy.

Legend: L layers, K key/value heads, C slots, D head dimension, T rows of a program, S layers whose states are kept, E
width of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fastcoder_lsp.core import Tokens
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.torch_engines.graphs.device import Device


@dataclass(frozen=True, slots=True)
class Saved:
    """Copies of the first slots: keys and values, and hidden states [S, C, E] if they were kept."""

    slots_2LKCD: torch.Tensor
    states_SCE: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.slots_2LKCD.nbytes + self.states_SCE.nbytes


class StaticCache:
    """Keys and values of `capacity` slots, in place for the life of the engine: captured programs hold their address.

    A program writes its rows to the slots after the cached text, accepted or not; the next one overwrites those that
    were not accepted. No program writes to the slots of the cached text.
    """

    def __init__(self, shape: Shape, capacity: int, dtype: torch.dtype, device: Device) -> None:
        self.capacity = capacity
        size = (2, shape.layers, shape.kv_heads, capacity, shape.head_dim)
        self._slots_2LKCD = torch.zeros(size, dtype=dtype, device=device.place)
        self._width = shape.width
        self.state_layers: tuple[int, ...] = ()  # the layers behind which hidden states are kept, each from 1 on
        self._states_SCE = self._no_states(())

    def layer(self, layer: int, bucket: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer's first slots, [K, C, D] each; views."""
        keys_KCD, values_KCD = self._slots_2LKCD[:, layer].unbind()
        return keys_KCD[:, :bucket], values_KCD[:, :bucket]

    def store(self, layer: int, slots_T: torch.Tensor, keys_KTD: torch.Tensor, values_KTD: torch.Tensor) -> None:
        """Write the rows' keys and values into their slots."""
        keys_KCD, values_KCD = self._slots_2LKCD[:, layer].unbind()
        keys_KCD.index_copy_(1, slots_T, keys_KTD)
        values_KCD.index_copy_(1, slots_T, values_KTD)

    def keep_states(self, layers: Sequence[int]) -> None:
        """Keep these layers' states in programs captured from now on; after torch.OutOfMemoryError old ones stay."""
        self._states_SCE = self._no_states(layers)
        self.state_layers = tuple(layers)

    def store_states(self, layer: int, slots_T: torch.Tensor, hidden_TE: torch.Tensor) -> None:
        """Write the output of layer `layer` into the rows' slots, if it is kept."""
        if layer in self.state_layers:
            self._states_SCE[self.state_layers.index(layer)].index_copy_(0, slots_T, hidden_TE)

    def states(self, start: int, stop: int) -> torch.Tensor:
        """Hidden states of some slots, [C, S, E]; a view."""
        return self._states_SCE[:, start:stop].transpose(0, 1)

    def move(self, sources_T: torch.Tensor, targets_T: torch.Tensor) -> None:
        """Move slots; all are read before any is written."""
        self._slots_2LKCD.index_copy_(3, targets_T, self._slots_2LKCD.index_select(3, sources_T))
        if self.state_layers:
            self._states_SCE.index_copy_(1, targets_T, self._states_SCE.index_select(1, sources_T))

    def panels(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The data of slots as panels: keys and values of every head [2·L·K, C, D], and states [S, C, E]."""
        return self._slots_2LKCD.flatten(0, 2), self._states_SCE

    def save(self, count: int) -> Saved:
        """A copy of the first `count` slots of all layers."""
        return Saved(self._slots_2LKCD[:, :, :, :count].clone(), self._states_SCE[:, :count].clone())

    def restore(self, saved: Saved, count: int) -> None:
        """Restore the first `count` slots of a copy that kept the same states."""
        self._slots_2LKCD[:, :, :, :count].copy_(saved.slots_2LKCD[:, :, :, :count])
        self._states_SCE[:, :count].copy_(saved.states_SCE[:, :count])

    def _no_states(self, layers: Sequence[int]) -> torch.Tensor:
        slots = self._slots_2LKCD
        return torch.zeros(len(layers), self.capacity, self._width, dtype=slots.dtype, device=slots.device)


WORTH = 64  # tokens that must be gained, or lost, for a copy to be worth it
ENTRIES = 8


@dataclass(frozen=True, slots=True)
class _SavedSlots:
    """Tokens and a copy of their slots."""

    tokens: tuple[int, ...]
    slots: Saved


class SavedPrefixes:
    """Kept prefixes, the latest last; at most `limit_bytes` of them together."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept: list[_SavedSlots] = []

    def __len__(self) -> int:
        return len(self._kept)

    def exchange(self, cache: StaticCache, held: Tokens, wanted: Tokens) -> int:
        """Prepare for `wanted`: shelve what of `held` would be lost, restore a better prefix; returns its length."""
        shared = common_prefix(held, wanted)
        best = max(self._kept, key=lambda kept: common_prefix(kept.tokens, wanted), default=None)
        found = common_prefix(best.tokens, wanted) if best is not None else 0
        if len(held) - shared >= WORTH and shared < len(wanted):
            self._keep(cache, held)
        if best is None or found < shared + WORTH:
            return shared
        cache.restore(best.slots, found)
        if best in self._kept:
            self._kept.remove(best)
            self._kept.append(best)
        return found

    def clear(self) -> None:
        """Drop all copies."""
        self._kept.clear()

    def _keep(self, cache: StaticCache, tokens: Tokens) -> None:
        """Copy the slots of `tokens`, in place of a copy that is a prefix of them."""
        new = tuple(tokens)
        self._kept = [kept for kept in self._kept if common_prefix(kept.tokens, new) < len(kept.tokens)]
        while len(self._kept) >= ENTRIES:
            del self._kept[0]
        try:
            slots = cache.save(len(new))
        except torch.OutOfMemoryError:
            self._kept.clear()  # a shelf is optional
            return
        self._kept.append(_SavedSlots(new, slots))
        while self._kept and sum(kept.slots.nbytes for kept in self._kept) > self._limit:
            del self._kept[0]
