"""The kernels' data, as plain tuples of arrays; no code.

Legend: M rows, L layers, E width, K key/value heads, G query heads of each, C slots of the KV cache, D head dimension,
P panels of rows, B blocks of columns, S hidden states of a slot.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class Product(NamedTuple):
    """Matrices of one size, packed. `sums`: Σ w·128.

    `weights_LBKx`: per block of columns [K/4][vectors][16][4], or [K/32] lines of four-bit weights (`int4.unfold`).
    """

    weights_LBKx: npt.NDArray[np.int8]
    sums_LN: npt.NDArray[np.int32]
    scales_LN: Floats
    biases_LN: Floats


class Packed(NamedTuple):
    """A model's weights in the kernels' layout.

    Offsets of a LayerNorm follow its scales. `head_norms_L2D`: scales of queries and keys, of size 0 if they are not
    normed.
    """

    qkv: Product
    out: Product
    gate_up: Product
    down: Product
    head: Product
    norm1_LE: Floats
    norm2_LE: Floats
    norm_E: Floats
    head_norms_L2D: Floats
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
    unfolded_TB: npt.NDArray[np.int8]
    counters: npt.NDArray[np.int64]
    panel: int


class Cache(NamedTuple):
    """Keys in blocks of 32 columns, rotated; values column by column; both in 16 bits, as in `halves`.

    `states_CSE`: the hidden states of each slot; `wanted_L`: which of the S is taken behind each layer, -1 for none.
    """

    keys_LKBDx: npt.NDArray[np.uint16]
    values_LKCD: npt.NDArray[np.uint16]
    states_CSE: Floats
    wanted_L: npt.NDArray[np.int64]


class VisibleSlots(NamedTuple):
    """The slots that rows see: 0…`plain_M`, then those of `rest`[`rest_from_M`…]; `position_M` rotates the keys.

    `skipped_L2`: whether a layer's attention, and its inner layer, are left out.
    """

    cached: int
    rows: int
    logits_from: int
    position_M: npt.NDArray[np.int64]
    plain_M: npt.NDArray[np.int64]
    rest_from_M: npt.NDArray[np.int64]
    rest: npt.NDArray[np.int64]
    skipped_L2: npt.NDArray[np.int64]
