"""One forward pass as compiled code: what happens between the products, in which order, and who does it.

Owns the phases of a pass. Every thread of the team calls the same function; jobs are handed out one by one.
Floating-point sums run in a fixed order that depends on nothing but the row: 16 lanes, each over every 16th value,
folded by halves; attention adds its columns one after the other by their positions.

Legend: M rows, L layers, E width, K key/value heads, G query heads of each, C slots of the KV cache, D head dimension,
P panels of 8 rows, B blocks of columns.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.kernel_cache import compiled
from fastcoder_lsp.engine.int8.simd import (
    LANES,
    fma,
    v_abs,
    v_add,
    v_div,
    v_exp,
    v_fma,
    v_load,
    v_max,
    v_mul,
    v_peak,
    v_splat,
    v_store,
    v_sub,
    v_sum,
)
from fastcoder_lsp.engine.int8.sync import await_jobs, finish_jobs, take_job
from fastcoder_lsp.engine.int8.tiles import BLOCK, PANEL, mix_tile, product_tile, score_tile, store_bytes

PHASES = 10
"""Phases of one layer, and of the head (which needs two of them)."""

Floats = npt.NDArray[np.float32]
Counters = npt.NDArray[np.int64]


class Product(NamedTuple):
    """Matrices of one size, packed. `weights_LBKx`: for each block of columns [K/4][vectors][16][4]; `sums`: Σ w·128."""

    weights_LBKx: npt.NDArray[np.int8]
    sums_LN: npt.NDArray[np.int32]
    scales_LN: Floats
    biases_LN: Floats


class Packed(NamedTuple):
    """A model's weights as the kernels want them."""

    qkv: Product
    out: Product
    gate_up: Product
    down: Product
    head: Product
    norm1_LE: Floats
    norm2_LE: Floats
    norm_E: Floats
    cos_CH: Floats
    sin_CH: Floats
    eps: np.float32


class Work(NamedTuple):
    """Memory of a pass: the rows' state `x_ME`, bytes and scales of the rows at hand, and what products put out."""

    x_ME: Floats
    bytes_PK: npt.NDArray[np.uint8]
    scales_M: Floats
    wide_MN: Floats
    query_MQ: Floats
    mixed_MQ: Floats
    scores_TGC: Floats
    logits_RV: Floats
    counters: npt.NDArray[np.int64]


class Cache(NamedTuple):
    """Keys in blocks of 32 columns, turned; values column by column."""

    keys_LKBDx: Floats
    values_LKCD: Floats


class Places(NamedTuple):
    """What rows see: the slots 0…`plain_M`, then those of `rest`[`rest_from_M`…]; `position_M` turns the keys."""

    cached: int
    rows: int
    logits_from: int
    position_M: npt.NDArray[np.int64]
    plain_M: npt.NDArray[np.int64]
    rest_from_M: npt.NDArray[np.int64]
    rest: npt.NDArray[np.int64]


def make_forward(kind: DotKind, group: int, dim: int) -> Any:
    """The compiled function `forward(packed, cache, work, places, thread, threads)`, for heads of this size."""
    tag = f"{kind.name}_{group}_{dim}".replace("-", "_")
    multiply = _make_multiply(kind, tag, add=False)
    multiply_add = _make_multiply(kind, tag, add=True)
    attend, turn = _make_attend(group, dim, tag), _make_turn(group, dim, tag)

    @compiled(tag, nogil=True)
    def forward(packed: Packed, cache: Cache, work: Work, places: Places, thread: int, threads: int) -> None:
        counters, count = work.counters, places.rows
        layers, kv_heads = cache.keys_LKBDx.shape[0], cache.keys_LKBDx.shape[1]
        phase = 0
        for layer in range(layers):
            row = take_job(counters, phase)
            while row < count:
                _norm_row(work.x_ME[row], packed.norm1_LE[layer], packed.eps, work.wide_MN[row])
                _quantise_row(work, row, work.wide_MN[row], packed.norm1_LE.shape[1])
                finish_jobs(counters, phase, 1)
                row = take_job(counters, phase)
            await_jobs(counters, phase, count)
            multiply(counters, phase + 1, packed.qkv, layer, work, count, work.wide_MN, threads)
            row = take_job(counters, phase + 2)
            while row < count:
                turn(packed, cache, work, places, layer, row)
                finish_jobs(counters, phase + 2, 1)
                row = take_job(counters, phase + 2)
            await_jobs(counters, phase + 2, count)
            if layer == layers - 1 and places.logits_from == count:
                break
            jobs = count * kv_heads
            job = take_job(counters, phase + 3)
            while job < jobs:
                attend(cache, work, places, layer, job // kv_heads, job % kv_heads, thread)
                finish_jobs(counters, phase + 3, 1)
                job = take_job(counters, phase + 3)
            await_jobs(counters, phase + 3, jobs)
            row = take_job(counters, phase + 4)
            while row < count:
                _quantise_row(work, row, work.mixed_MQ[row], work.mixed_MQ.shape[1])
                finish_jobs(counters, phase + 4, 1)
                row = take_job(counters, phase + 4)
            await_jobs(counters, phase + 4, count)
            multiply_add(counters, phase + 5, packed.out, layer, work, count, work.x_ME, threads)
            row = take_job(counters, phase + 6)
            while row < count:
                _norm_row(work.x_ME[row], packed.norm2_LE[layer], packed.eps, work.wide_MN[row])
                _quantise_row(work, row, work.wide_MN[row], packed.norm2_LE.shape[1])
                finish_jobs(counters, phase + 6, 1)
                row = take_job(counters, phase + 6)
            await_jobs(counters, phase + 6, count)
            multiply(counters, phase + 7, packed.gate_up, layer, work, count, work.wide_MN, threads)
            inner = packed.down.weights_LBKx.shape[2] * 4
            row = take_job(counters, phase + 8)
            while row < count:
                _swiglu_row(work.wide_MN[row], inner)
                _quantise_row(work, row, work.wide_MN[row], inner)
                finish_jobs(counters, phase + 8, 1)
                row = take_job(counters, phase + 8)
            await_jobs(counters, phase + 8, count)
            multiply_add(counters, phase + 9, packed.down, layer, work, count, work.x_ME, threads)
            phase += PHASES
        if places.logits_from < count:
            wanted = count - places.logits_from
            row = take_job(counters, phase)
            while row < wanted:
                _norm_row(work.x_ME[places.logits_from + row], packed.norm_E, packed.eps, work.wide_MN[row])
                _quantise_row(work, row, work.wide_MN[row], packed.norm_E.shape[0])
                finish_jobs(counters, phase, 1)
                row = take_job(counters, phase)
            await_jobs(counters, phase, wanted)
            multiply(counters, phase + 1, packed.head, 0, work, wanted, work.logits_RV, threads)

    return forward


@njit(error_model="numpy")
def _norm_row(x_E: Floats, weight_E: Floats, eps: np.float32, out: Floats) -> None:
    size = len(weight_E)
    squares = v_splat(np.float32(0))
    for at in range(0, size, LANES):
        value = v_load(x_E.ctypes.data + 4 * at)
        squares = v_fma(value, value, squares)
    scale = np.float32(1) / np.sqrt(v_sum(squares) / np.float32(size) + eps)
    for at in range(0, size, LANES):
        value = v_mul(v_load(x_E.ctypes.data + 4 * at), v_splat(scale))
        v_store(out.ctypes.data + 4 * at, v_mul(value, v_load(weight_E.ctypes.data + 4 * at)))


@njit(error_model="numpy")
def _quantise_row(work: Work, slot: int, values: Floats, size: int) -> None:
    peak = v_splat(np.float32(1e-9))
    for at in range(0, size, LANES):
        peak = v_max(peak, v_abs(v_load(values.ctypes.data + 4 * at)))
    highest = v_peak(peak)
    work.scales_M[slot] = highest * np.float32(1 / 127)
    inverse = np.float32(127) / highest
    panel = work.bytes_PK.ctypes.data + (slot // PANEL) * size * PANEL + (slot % PANEL) * 4
    for at in range(0, size, LANES):
        store_bytes(panel + at * PANEL, v_load(values.ctypes.data + 4 * at), inverse)


@njit(error_model="numpy")
def _swiglu_row(gate_up: Floats, inner: int) -> None:
    one = v_splat(np.float32(1))
    zero = v_splat(np.float32(0))
    for at in range(0, inner, LANES):
        gate = v_load(gate_up.ctypes.data + 4 * at)
        up = v_load(gate_up.ctypes.data + 4 * (inner + at))
        opened = v_div(gate, v_add(one, v_exp(v_sub(zero, gate))))
        v_store(gate_up.ctypes.data + 4 * at, v_mul(opened, up))


def _make_multiply(kind: DotKind, tag: str, *, add: bool) -> Any:
    """The phase of one product: blocks of columns are the jobs, panels of rows follow each other inside."""
    columns = kind.vectors * LANES
    most = kind.rows
    tile1, tile2, tile4 = (product_tile(kind, rows, add=add) for rows in (1, 2, 4))
    tile8 = product_tile(kind, 8, add=add) if most == 8 else tile4

    @compiled(f"{tag}_{add}")
    def multiply(
        counters: Counters,
        phase: int,
        product: Product,
        layer: int,
        work: Work,
        count: int,
        out_MN: Floats,
        threads: int,
    ) -> None:
        blocks, groups = product.weights_LBKx.shape[1], product.weights_LBKx.shape[2]
        weights = product.weights_LBKx[layer].ctypes.data
        sums, scales = product.sums_LN[layer].ctypes.data, product.scales_LN[layer].ctypes.data
        biases, stride = product.biases_LN[layer].ctypes.data, out_MN.strides[0]
        share = max(1, blocks // (threads * 8))
        jobs = (blocks + share - 1) // share
        job = take_job(counters, phase)
        while job < jobs:
            for block in range(job * share, min(blocks, (job + 1) * share)):
                at, w = block * columns * 4, weights + block * groups * columns * 4
                for row in range(0, count, most):
                    x = work.bytes_PK.ctypes.data + (row // PANEL) * groups * 4 * PANEL + (row % PANEL) * 4
                    out, row_scales = out_MN.ctypes.data + row * stride + at, work.scales_M.ctypes.data + row * 4
                    left = count - row
                    if left == 1:
                        tile1(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
                    elif left == 2:
                        tile2(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
                    elif left <= 4 or most == 4:
                        tile4(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
                    else:
                        tile8(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
            finish_jobs(counters, phase, 1)
            job = take_job(counters, phase)
        await_jobs(counters, phase, jobs)

    return multiply


def _make_turn(group: int, dim: int, tag: str) -> Any:
    """Rotate a row's queries and keys by its position; keys and values go to its slot."""
    half = dim // 2
    scale = np.float32(dim**-0.5)

    @compiled(tag)
    def turn(packed: Packed, cache: Cache, work: Work, places: Places, layer: int, row: int) -> None:
        kv_heads = cache.keys_LKBDx.shape[1]
        heads = kv_heads * group
        slot = places.cached + row
        block, column = slot // BLOCK, slot % BLOCK
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
                cache.keys_LKBDx[layer, head, block, i, column] = low * cos_H[i] - high * sin_H[i]
                cache.keys_LKBDx[layer, head, block, half + i, column] = high * cos_H[i] + low * sin_H[i]
            for i in range(dim):
                cache.values_LKCD[layer, head, slot, i] = source[values + i]

    return turn


def _make_attend(group: int, dim: int, tag: str) -> Any:
    """Attention of one row over the heads that share one key/value head."""
    score, mix = score_tile(group, dim), mix_tile(group, dim)

    @compiled(tag)
    def attend(cache: Cache, work: Work, places: Places, layer: int, row: int, head: int, thread: int) -> None:
        plain, first, last = places.plain_M[row], places.rest_from_M[row], places.rest_from_M[row + 1]
        total = plain + last - first
        padded = (total + LANES - 1) // LANES * LANES
        scores, stride = work.scores_TGC[thread], work.scores_TGC.shape[2] * 4
        query = work.query_MQ[row][head * group * dim :]
        out = work.mixed_MQ[row][head * group * dim :]
        keys_BDx, values_CD = cache.keys_LKBDx[layer, head], cache.values_LKCD[layer, head]
        for block in range((plain + BLOCK - 1) // BLOCK):
            place = scores.ctypes.data + block * BLOCK * 4
            score(query.ctypes.data, keys_BDx[block].ctypes.data, place, stride)
        for g in range(group):
            for other in range(first, last):
                slot = places.rest[other]
                value = np.float32(0)
                for d in range(dim):
                    value = fma(query[g * dim + d], keys_BDx[slot // BLOCK, d, slot % BLOCK], value)
                scores[g, plain + other - first] = value
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

    return attend


@njit(error_model="numpy")
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


@njit(nogil=True)
def move_slots(cache: Cache, source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> None:
    """Copy keys and values of the slots `source` to `target`, one after the other."""
    layers, heads, _, dim, _ = cache.keys_LKBDx.shape
    for layer in range(layers):
        for head in range(heads):
            keys_BDx, values_CD = cache.keys_LKBDx[layer, head], cache.values_LKCD[layer, head]
            for index in range(len(source)):
                old, new = source[index], target[index]
                for d in range(dim):
                    keys_BDx[new // BLOCK, d, new % BLOCK] = keys_BDx[old // BLOCK, d, old % BLOCK]
                    values_CD[new, d] = values_CD[old, d]
