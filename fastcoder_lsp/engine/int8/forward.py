"""One forward pass as compiled code: the order of its phases. Every thread of the team calls the same function."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.attention import make_attend, make_turn
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.memory import Cache, Packed, Scratch, VisibleSlots
from fastcoder_lsp.engine.int8.packing import kind_of
from fastcoder_lsp.engine.int8.product import make_multiply
from fastcoder_lsp.engine.int8.row_kernels import centre_rows, gate_rows, gelu_rows, keep_rows, norm_rows, quantise_rows
from fastcoder_lsp.kernels import NONE, tagged

PHASES = 11  # phases of one layer, the last for hidden states; the head needs two


@dataclass(frozen=True, slots=True)
class KernelShape:
    """The parameters of a pass's machine code, beside the CPU: `group` query heads to a key/value head, of size `dim`.

    `normed`: whether they are normed before the rotation. `starcoder`: of `Shape`.
    """

    group: int
    dim: int
    normed: bool = False
    starcoder: bool = False

    @classmethod
    def of(cls, shape: Shape) -> Self:
        """The parameters of a model."""
        return cls(shape.group, shape.head_dim, shape.norms_heads, shape.starcoder)

    @property
    def name(self) -> str:
        """Identifies its machine code."""
        return f"{self.group}-{self.dim}{'-normed' * self.normed}{'-starcoder' * self.starcoder}"


def make_forward(kind: DotKind, heads: KernelShape) -> Any:
    """The compiled function `forward(packed, cache, work, places, thread, threads)`.

    In a pass without logits the last layer ends with its keys and values, unless its hidden states are kept: the rest
    is never read.
    """
    tag = f"{kind.name}-{heads.name}".replace("-", "_")
    norm, activate = (centre_rows, gelu_rows) if heads.starcoder else (norm_rows, gate_rows)
    multiply, multiply_add = make_multiply(kind, tag, add=False), make_multiply(kind, tag, add=True)
    multiply_qkv, multiply_add_out = multiply, multiply_add
    if kind.in_bytes is not None:
        multiply_qkv = make_multiply(kind_of(kind, "qkv"), f"{tag}_qkv", add=False)
        multiply_add_out = make_multiply(kind_of(kind, "out"), f"{tag}_out", add=True)
    attend = make_attend(heads.group, heads.dim, tag)
    turn = make_turn(heads.group, heads.dim, tag, normed=heads.normed)
    line = kind.line
    in_attention, four = (np.int64(some.four_bytes) for some in (kind_of(kind, "qkv"), kind))

    @tagged(tag, called=True)
    def forward(packed: Packed, cache: Cache, work: Scratch, places: VisibleSlots, thread: int, threads: int) -> None:
        rows, layers, phase = places.rows, cache.keys_LKBDx.shape[0], NONE
        inner = packed.down.weights_LBKx.shape[2] * line
        for layer in range(layers):
            if places.skipped_L2[layer, 0] == 0:
                norm(work, phase, NONE, rows, packed.norm1_LE[layer], packed.eps, in_attention)
                multiply_qkv(work, phase + 1, packed.qkv, layer, rows, work.wide_MN, thread, threads)
                turn(packed, cache, work, places, layer, phase + 2)
                if layer == layers - 1 and places.logits_from == rows and cache.wanted_L[layer] < 0:
                    return
                attend(cache, work, places, layer, phase + 3, thread)
                quantise_rows(work, phase + 4, rows, in_attention)
                multiply_add_out(work, phase + 5, packed.out, layer, rows, work.x_ME, thread, threads)
            if places.skipped_L2[layer, 1] == 0:
                norm(work, phase + 6, NONE, rows, packed.norm2_LE[layer], packed.eps, four)
                multiply(work, phase + 7, packed.gate_up, layer, rows, work.wide_MN, thread, threads)
                activate(work, phase + 8, rows, inner, four)
                multiply_add(work, phase + 9, packed.down, layer, rows, work.x_ME, thread, threads)
            if cache.wanted_L[layer] >= 0:
                keep_rows(cache, work, phase + 10, places.cached, rows, cache.wanted_L[layer])
            phase += PHASES
        if places.logits_from == rows:
            return
        wanted = rows - places.logits_from
        norm(work, phase, places.logits_from, wanted, packed.norm_E, packed.eps, four)
        multiply(work, phase + 1, packed.head, NONE, wanted, work.logits_RV, thread, threads)

    return forward


def make_products(kind: DotKind, heads: KernelShape) -> Any:
    """The compiled function `products(packed, work, rows, thread, threads)`: only a pass's products."""
    tag = f"{kind.name}-{heads.name}".replace("-", "_")
    multiply = multiply_attention = make_multiply(kind, tag, add=False)
    if kind.in_bytes is not None:
        multiply_attention = make_multiply(kind.in_bytes, f"{tag}_bytes", add=False)

    @tagged(tag, called=True)
    def products(packed: Packed, work: Scratch, rows: int, thread: int, threads: int) -> None:
        phase = NONE
        for layer in range(packed.norm1_LE.shape[0]):
            multiply_attention(work, phase, packed.qkv, layer, rows, work.wide_MN, thread, threads)
            multiply_attention(work, phase + 1, packed.out, layer, rows, work.wide_MN, thread, threads)
            multiply(work, phase + 2, packed.gate_up, layer, rows, work.wide_MN, thread, threads)
            multiply(work, phase + 3, packed.down, layer, rows, work.wide_MN, thread, threads)
            phase += PHASES
        multiply(work, phase, packed.head, NONE, rows, work.logits_RV, thread, threads)

    return products
