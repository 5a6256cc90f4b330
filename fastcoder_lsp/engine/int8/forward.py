"""One forward pass as compiled code: attention, and the order of the phases; every thread of the team runs all of it.

Attention rotates queries and keys, computes scores over the columns that a row sees and their softmax, and mixes
values, in the order of the columns' positions. Keys and values are rounded to 16 bits once, when they are written: all
rows see the same. A column's score and its share in the mix do not depend on its slot, so a row's bits don't depend on
the tree.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.memory import Cache, Packed, Scratch, VisibleSlots
from fastcoder_lsp.engine.int8.packing import kind_of
from fastcoder_lsp.engine.int8.product import make_multiply
from fastcoder_lsp.engine.int8.row_kernels import (
    centre_rows,
    gate_rows,
    gelu_rows,
    keep_rows,
    norm_head,
    norm_rows,
    quantise_rows,
)
from fastcoder_lsp.engine.int8.simd import (
    LANES,
    narrow,
    place_of,
    v_add,
    v_exp,
    v_load,
    v_max,
    v_peak,
    v_splat,
    v_store,
    v_sub,
    v_sum,
)
from fastcoder_lsp.engine.int8.sync import await_jobs, finish_job, take_job
from fastcoder_lsp.engine.int8.tiles import BLOCK, mix_tile, score_tile
from fastcoder_lsp.kernels import NONE, inner, tagged, unkept


def make_turn(group: int, dim: int, tag: str, *, normed: bool) -> Any:
    """The phase that rotates (and norms, if `normed`) queries and keys, and writes keys and values; jobs are rows."""
    turn_row = _make_turn_row(group, dim, tag)
    if normed:
        turn_row = _after_norms(turn_row, group, dim, tag)

    @tagged(tag)
    def turn(packed: Packed, cache: Cache, work: Scratch, places: VisibleSlots, layer: int, phase: int) -> None:
        row = take_job(work.counters, phase)
        while row < places.rows:
            turn_row(packed, cache, work, places, layer, row)
            finish_job(work.counters, phase)
            row = take_job(work.counters, phase)
        await_jobs(work.counters, phase, places.rows)

    return turn


def make_attend(group: int, dim: int, tag: str) -> Any:
    """The compiled phase that mixes values; its jobs are key/value heads of rows."""
    attend_row = _make_attend_row(group, dim, tag)

    @tagged(tag)
    def attend(cache: Cache, work: Scratch, places: VisibleSlots, layer: int, phase: int, thread: int) -> None:
        heads = cache.keys_LKBDx.shape[1]
        jobs = places.rows * heads
        job = take_job(work.counters, phase)
        while job < jobs:
            attend_row(cache, work, places, layer, job // heads, job % heads, thread)
            finish_job(work.counters, phase)
            job = take_job(work.counters, phase)
        await_jobs(work.counters, phase, jobs)

    return attend


@unkept
def move_slots(cache: Cache, source: Int64s, target: Int64s) -> None:
    """Copy keys, values and hidden states of the slots `source` to `target`, one after the other."""
    layers, heads, _, dim, _ = cache.keys_LKBDx.shape
    kept = cache.values_LKCD.shape[3]
    for layer in range(layers):
        for head in range(heads):
            keys_BDx, values_CD = cache.keys_LKBDx[layer, head], cache.values_LKCD[layer, head]
            for index in range(len(source)):
                old, new = source[index], target[index]
                for d in range(dim):
                    keys_BDx[new // BLOCK, d, place_of(new % BLOCK)] = keys_BDx[old // BLOCK, d, place_of(old % BLOCK)]
                for d in range(kept):
                    values_CD[new, d] = values_CD[old, d]
    states_CSE = cache.states_CSE
    for index in range(len(source)):
        old, new = source[index], target[index]
        for which in range(states_CSE.shape[1]):
            for place in range(states_CSE.shape[2]):
                states_CSE[new, which, place] = states_CSE[old, which, place]


def _after_norms(turn_row: Any, group: int, dim: int, tag: str) -> Any:
    @tagged(f"{tag}_normed")
    def turn_normed_row(
        packed: Packed, cache: Cache, work: Scratch, places: VisibleSlots, layer: int, row: int
    ) -> None:
        kv_heads = cache.keys_LKBDx.shape[1]
        start = work.wide_MN[row].ctypes.data
        for head in range(kv_heads * (group + 1)):
            side = 0 if head < kv_heads * group else 1
            norm_head(start + 4 * head * dim, dim, packed.head_norms_L2D[layer, side], packed.eps)
        turn_row(packed, cache, work, places, layer, row)

    return turn_normed_row


def _make_turn_row(group: int, dim: int, tag: str) -> Any:
    """Rotate a row's queries and keys by its position; keys and values go to its slot."""
    half = dim // 2
    scale = np.float32(dim**-0.5)

    @tagged(tag)
    def turn_row(packed: Packed, cache: Cache, work: Scratch, places: VisibleSlots, layer: int, row: int) -> None:
        kv_heads = cache.keys_LKBDx.shape[1]
        heads = kv_heads * group
        slot = places.cached + row
        block, column = slot // BLOCK, place_of(slot % BLOCK)
        cos_H, sin_H = packed.cos_CH[places.position_M[row]], packed.sin_CH[places.position_M[row]]
        source, query = work.wide_MN[row], work.query_MQ[row]
        for head in range(heads):
            for i in range(half):
                low, high = source[head * dim + i], source[head * dim + half + i]
                query[head * dim + i] = (low * cos_H[i] - high * sin_H[i]) * scale
                query[head * dim + half + i] = (high * cos_H[i] + low * sin_H[i]) * scale
        for head in range(kv_heads):
            keys = (heads + head) * dim
            values = (heads + kv_heads + head) * dim
            for i in range(half):
                low, high = source[keys + i], source[keys + half + i]
                cache.keys_LKBDx[layer, head, block, i, column] = narrow(low * cos_H[i] - high * sin_H[i])
                cache.keys_LKBDx[layer, head, block, half + i, column] = narrow(high * cos_H[i] + low * sin_H[i])
            for i in range(dim):
                cache.values_LKCD[layer, head, slot, place_of(i)] = narrow(source[values + i])

    return turn_row


def _make_attend_row(group: int, dim: int, tag: str) -> Any:
    """Attention of one row over the heads that share one key/value head."""
    score, mix = score_tile(group, dim), mix_tile(group, dim)

    @tagged(tag)
    def attend_row(
        cache: Cache, work: Scratch, places: VisibleSlots, layer: int, row: int, head: int, thread: int
    ) -> None:
        plain, first, last = places.plain_M[row], places.rest_from_M[row], places.rest_from_M[row + 1]
        total = plain + last - first
        padded = (total + LANES - 1) // LANES * LANES
        scores, stride = work.scores_TGC[thread], work.scores_TGC.shape[2] * 4
        spare = work.scores_TGC.shape[2] - LANES - BLOCK
        query = work.query_MQ[row][head * group * dim :]
        out = work.mixed_MQ[row][head * group * dim :]
        keys_BDx, values_CD = cache.keys_LKBDx[layer, head], cache.values_LKCD[layer, head]
        for block in range((plain + BLOCK - 1) // BLOCK):
            place = scores.ctypes.data + block * BLOCK * 4
            score(query.ctypes.data, keys_BDx[block].ctypes.data, place, stride)
        scored = NONE
        for other in range(first, last):
            slot = places.rest[other]
            if slot // BLOCK + 1 != scored:  # scoring a whole block is no slower than a few of its columns
                score(query.ctypes.data, keys_BDx[slot // BLOCK].ctypes.data, scores.ctypes.data + 4 * spare, stride)
                scored = slot // BLOCK + 1
            for g in range(group):
                scores[g, plain + other - first] = scores[g, spare + slot % BLOCK]
        for g in range(group):
            scores[g, total:padded] = -np.inf
            _soften(scores[g], padded)
            out[g * dim : (g + 1) * dim] = 0
        mix(scores.ctypes.data, stride, values_CD.ctypes.data, 0, plain, out.ctypes.data)
        for other in range(first, last):
            slot, at = places.rest[other], plain + other - first
            mix(scores.ctypes.data + 4 * (at - slot), stride, values_CD.ctypes.data, slot, slot + 1, out.ctypes.data)
        for g in range(group):
            inverse = np.float32(1) / scores[g, scores.shape[1] - 1]
            for d in range(dim):
                out[g * dim + d] *= inverse

    return attend_row


@inner
def _soften(scores_C: Floats, padded: int) -> None:
    """exp(score − peak) of the first `padded` columns; their sum goes to the last place of the row."""
    start = scores_C.ctypes.data
    peak = v_load(start)
    for at in range(LANES, padded, LANES):
        peak = v_max(peak, v_load(start + 4 * at))
    highest = v_splat(v_peak(peak))
    total = v_splat(np.float32(0))
    for at in range(0, padded, LANES):
        weight = v_exp(v_sub(v_load(start + 4 * at), highest))
        v_store(start + 4 * at, weight)
        total = v_add(total, weight)
    scores_C[len(scores_C) - 1] = v_sum(total)


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
