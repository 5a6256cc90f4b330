"""The KV cache: one tensor for all layers, written by slots, moved on the device.

Owns keys and values and nothing about which tokens they are of. A program looks at the first slots only, its bucket.

Legend: L layers, K key/value heads, C slots, D head dimension, T rows of a program.
"""

import torch

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.device import Device


class StaticCache:
    """Keys and values of `capacity` slots, in place for the life of the engine: captured programs hold their address.

    A program writes its rows' slots from the end of what counts, whether they will be kept or not; what is not kept is
    overwritten by the next. Nothing before the end of what counts is ever written.
    """

    def __init__(self, shape: Shape, capacity: int, dtype: torch.dtype, device: Device) -> None:
        self.capacity = capacity
        size = (2, shape.layers, shape.kv_heads, capacity, shape.head_dim)
        self._slots_2LKCD = torch.zeros(size, dtype=dtype, device=device.place)

    def layer(self, layer: int, bucket: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer's first slots, [K, C, D] each; views."""
        keys_KCD, values_KCD = self._slots_2LKCD[:, layer].unbind()
        return keys_KCD[:, :bucket], values_KCD[:, :bucket]

    def store(self, layer: int, slots_T: torch.Tensor, keys_KTD: torch.Tensor, values_KTD: torch.Tensor) -> None:
        """Write the rows' keys and values into their slots."""
        keys_KCD, values_KCD = self._slots_2LKCD[:, layer].unbind()
        keys_KCD.index_copy_(1, slots_T, keys_KTD)
        values_KCD.index_copy_(1, slots_T, values_KTD)

    def move(self, sources_T: torch.Tensor, targets_T: torch.Tensor) -> None:
        """Move slots; all are read before any is written."""
        self._slots_2LKCD.index_copy_(3, targets_T, self._slots_2LKCD.index_select(3, sources_T))

    def save(self, count: int) -> torch.Tensor:
        """A copy of the first `count` slots of all layers."""
        return self._slots_2LKCD[:, :, :, :count].clone()

    def restore(self, saved: torch.Tensor, count: int) -> None:
        """Put the first `count` slots of such a copy back."""
        self._slots_2LKCD[:, :, :, :count].copy_(saved[:, :, :, :count])
