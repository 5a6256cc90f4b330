"""The KV cache of one text: keys and values, and optional hidden states, in memory that is allocated as it is written.

Manages that memory and copies prefixes; kernels see only its arrays.
"""

from collections.abc import Sequence

import numpy as np

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.halves import padded
from fastcoder_lsp.engine.int8.memory import Cache
from fastcoder_lsp.engine.int8.tiles import BLOCK
from fastcoder_lsp.engine.lazy_memory import CAN_GIVE_BACK, LazyMemory

_EACH = np.dtype(np.uint16).itemsize


class SlotMemory:
    """Keys and values of at least `capacity` slots, and hidden states behind some layers.

    Args:
        shape: of the model.
        capacity: slots at least.
        layers: the layers whose hidden states are kept, each from 1 on.

    Attributes:
        arrays: for the kernels.
        keys: their memory.
        values: likewise.
        states: of hidden states, [slots, one for each of `layers`, width].
        touched: slots from the first on that take memory.
    """

    def __init__(self, shape: Shape, capacity: int, layers: Sequence[int] = ()) -> None:
        self._shape, self._blocks = shape, -(-capacity // BLOCK)
        self.layers = tuple(layers)
        dim, kept = shape.head_dim, padded(shape.head_dim)
        self.keys = LazyMemory((shape.layers, shape.kv_heads, self._blocks, dim, BLOCK), np.uint16)
        self.values = LazyMemory((shape.layers, shape.kv_heads, self._blocks * BLOCK, kept), np.uint16)
        self._block_bytes = ((self.keys, BLOCK * dim * _EACH), (self.values, BLOCK * kept * _EACH))
        wanted_L = np.full(shape.layers, -1, np.int64)
        wanted_L[[layer - 1 for layer in self.layers]] = np.arange(len(self.layers))
        slots = self._blocks * BLOCK if self.layers else 0
        self.states = LazyMemory((slots, len(self.layers), shape.width), np.float32)
        self._state_bytes = len(self.layers) * shape.width * np.dtype(np.float32).itemsize
        self.arrays = Cache(self.keys.array, self.values.array, self.states.array, wanted_L)
        self.touched = 0

    def bytes_of(self, slots: int) -> int:
        """Memory of so many slots, in whole blocks."""
        parts = self._shape.layers * self._shape.kv_heads
        each = parts * sum(size for _, size in self._block_bytes) + BLOCK * self._state_bytes
        return -(-slots // BLOCK) * each

    def take(self, other: "SlotMemory", start: int, stop: int) -> None:
        """Copy the slots `start`…`stop` of `other`, in whole blocks; both caches agree up to `start`."""
        first, last = start // BLOCK, -(-stop // BLOCK)
        for mine, theirs, each in ((self.keys, other.keys, 1), (self.values, other.values, BLOCK)):
            mine.array[:, :, first * each : last * each] = theirs.array[:, :, first * each : last * each]
        if self.layers:
            self.states.array[first * BLOCK : last * BLOCK] = other.states.array[first * BLOCK : last * BLOCK]
        self.touched = max(self.touched, last * BLOCK)

    def trim(self, slots: int) -> None:
        """Free the memory of the blocks after the first `slots`."""
        kept = -(-slots // BLOCK)
        if not CAN_GIVE_BACK or kept * BLOCK >= self.touched:
            return
        used = -(-self.touched // BLOCK)
        for memory, block in self._block_bytes:
            for part in range(self._shape.layers * self._shape.kv_heads):
                start = part * self._blocks
                memory.give_back((start + kept) * block, (start + used) * block)
        each = BLOCK * self._state_bytes
        self.states.give_back(kept * each, used * each)
        self.touched = kept * BLOCK
