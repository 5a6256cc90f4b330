"""The KV cache of one text: keys and values in memory that is taken as it is used.

Owns that memory, copies of its beginning, and what is given back of it. Kernels see its arrays alone.
"""

import numpy as np

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.halves import padded
from fastcoder_lsp.engine.int8.memory import Cache
from fastcoder_lsp.engine.int8.tiles import BLOCK
from fastcoder_lsp.engine.lazy_memory import CAN_GIVE_BACK, LazyMemory

_EACH = np.dtype(np.uint16).itemsize


class SlotMemory:
    """Keys and values of `capacity` slots at least.

    Attributes:
        arrays: what kernels read and write.
        keys: the memory of them.
        values: likewise.
        touched: slots from the first on that take memory.
    """

    def __init__(self, shape: Shape, capacity: int) -> None:
        self._shape, self._blocks = shape, -(-capacity // BLOCK)
        dim, kept = shape.head_dim, padded(shape.head_dim)
        self.keys = LazyMemory((shape.layers, shape.kv_heads, self._blocks, dim, BLOCK), np.uint16)
        self.values = LazyMemory((shape.layers, shape.kv_heads, self._blocks * BLOCK, kept), np.uint16)
        self._block_bytes = ((self.keys, BLOCK * dim * _EACH), (self.values, BLOCK * kept * _EACH))
        self.arrays = Cache(self.keys.array, self.values.array)
        self.touched = 0

    def bytes_of(self, slots: int) -> int:
        """Memory of so many slots, in whole blocks."""
        parts = self._shape.layers * self._shape.kv_heads
        return -(-slots // BLOCK) * parts * sum(size for _, size in self._block_bytes)

    def take(self, other: "SlotMemory", start: int, stop: int) -> None:
        """Copy the slots `start`…`stop` of `other`, in whole blocks: those that both begin with are the same."""
        first, last = start // BLOCK, -(-stop // BLOCK)
        for mine, theirs, each in ((self.keys, other.keys, 1), (self.values, other.values, BLOCK)):
            mine.array[:, :, first * each : last * each] = theirs.array[:, :, first * each : last * each]
        self.touched = max(self.touched, last * BLOCK)

    def trim(self, slots: int) -> None:
        """Give back the memory of the blocks behind the first `slots`."""
        kept = -(-slots // BLOCK)
        if not CAN_GIVE_BACK or kept * BLOCK >= self.touched:
            return
        used = -(-self.touched // BLOCK)
        for memory, block in self._block_bytes:
            for part in range(self._shape.layers * self._shape.kv_heads):
                start = part * self._blocks
                memory.give_back((start + kept) * block, (start + used) * block)
        self.touched = kept * BLOCK
