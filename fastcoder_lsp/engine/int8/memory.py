"""The kernels' data, as plain tuples of arrays, and the memory of a KV cache, which is allocated as it is written.

Legend: M rows, L layers, E width, K key/value heads, G query heads of each, C slots of the KV cache, D head dimension,
P panels of rows, B blocks of columns, S hidden states of a slot.
"""

import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Floats, Int8s, Int32s, Int64s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.simd import padded
from fastcoder_lsp.engine.int8.tiles import BLOCK


class LazyMemory:
    """An array of zeros in anonymous memory."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        # Private: a shared mapping, Python's default, frees no memory before its end.
        private = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        self._map = mmap.mmap(-1, max(size, 1), **private)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.array: npt.NDArray[Any] = np.frombuffer(self._map, dtype=dtype, count=size // np.dtype(dtype).itemsize)
        self.array = self.array.reshape(shape)

    def give_back(self, start: int, stop: int) -> None:
        """Free the whole pages within the bytes `start`…`stop`, if the system can; their content is undefined then."""
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, stop // mmap.PAGESIZE * mmap.PAGESIZE
        if CAN_GIVE_BACK and first < last:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)


CAN_GIVE_BACK = hasattr(mmap, "MADV_DONTNEED") and hasattr(mmap, "MADV_NOHUGEPAGE")
"""Only Linux frees the pages at once; the flag is weaker elsewhere."""


class Product(NamedTuple):
    """Matrices of one size, packed. `sums`: Σ w·128."""

    weights_LBKx: Int8s
    """Per block of columns [K/4][vectors][16][4], or [K/32] lines of four-bit weights (`int4.unfold`)."""
    sums_LN: Int32s
    scales_LN: Floats
    biases_LN: Floats


class Packed(NamedTuple):
    """A model's weights in the kernels' layout; offsets of a LayerNorm follow its scales."""

    qkv: Product
    out: Product
    gate_up: Product
    down: Product
    head: Product
    norm1_LE: Floats
    norm2_LE: Floats
    norm_E: Floats
    head_norms_L2D: Floats  # scales of queries and keys, of size 0 if they are not normed
    cos_CH: Floats
    sin_CH: Floats
    eps: np.float32


class Scratch(NamedTuple):
    """Memory of a pass: the rows' state `x_ME`, numbers and scales of the current rows, and the output of products.

    `bytes_PK`: bytes, or words where the kind is `wide`. `scores_TGC` ends with room for one more block, and for a sum.
    `unfolded_TB`: for each thread, the unpacked bytes of a block of four-bit weights. `panel`: `DotKind.panel` of the
    bytes of more than one row.
    """

    x_ME: Floats
    bytes_PK: npt.NDArray[np.uint8]
    scales_M: Floats
    wide_MN: Floats
    query_MQ: Floats
    mixed_MQ: Floats
    scores_TGC: Floats
    logits_RV: Floats
    unfolded_TB: Int8s
    counters: Int64s
    panel: int


class Cache(NamedTuple):
    """Keys in blocks of 32 columns, rotated; values column by column; both in 16 bits, as in `simd`."""

    keys_LKBDx: npt.NDArray[np.uint16]
    values_LKCD: npt.NDArray[np.uint16]
    states_CSE: Floats  # the hidden states of each slot
    wanted_L: Int64s  # which of the S is taken behind each layer, -1 for none


class VisibleSlots(NamedTuple):
    """The slots that rows see: 0…`plain_M`, then those of `rest`[`rest_from_M`…]; `position_M` rotates the keys."""

    cached: int
    rows: int
    logits_from: int
    position_M: Int64s
    plain_M: Int64s
    rest_from_M: Int64s
    rest: Int64s
    skipped_L2: Int64s  # whether a layer's attention, and its inner layer, are left out


_EACH = np.dtype(np.uint16).itemsize


class SlotMemory:
    """Keys and values of at least `capacity` slots, and hidden states behind some `layers`, counted from 1.

    `arrays` is for the kernels; `keys`, `values` and `states` [slots, one for each of `layers`, width] are their
    memory.
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
        self.touched = 0  # slots from the first on that take memory

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
