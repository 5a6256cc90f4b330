"""Operations on single rows between the products: norms, the gate, rounding to whole numbers. A phase's jobs are rows.

`four_bytes` is of the next product (`DotKind.four_bytes`): a row's numbers are stored as bytes or as words. Sums run in
16 lanes, each over every 16th value, folded by halves: an order that depends only on the row's length.
"""

import numpy as np

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.engine.int8.memory import Cache, Scratch
from fastcoder_lsp.engine.int8.simd import (
    LANES,
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
from fastcoder_lsp.engine.int8.sync import await_jobs, finish_job, take_job
from fastcoder_lsp.engine.int8.tiles import store_bytes, store_words
from fastcoder_lsp.kernels import inner as compiled


@compiled
def norm_rows(
    work: Scratch, phase: int, first: int, count: int, weight_E: Floats, eps: np.float32, four_bytes: int
) -> None:
    """Normalise the state's rows from `first` on and round them for the next product."""
    row = take_job(work.counters, phase)
    while row < count:
        _norm_row(work.x_ME[first + row], weight_E, eps, work.wide_MN[row])
        _quantise_row(work, row, count, work.wide_MN[row], len(weight_E), four_bytes)
        finish_job(work.counters, phase)
        row = take_job(work.counters, phase)
    await_jobs(work.counters, phase, count)


@compiled
def centre_rows(
    work: Scratch, phase: int, first: int, count: int, weight_E: Floats, eps: np.float32, four_bytes: int
) -> None:
    """`norm_rows` by LayerNorm; offsets follow the scales."""
    row = take_job(work.counters, phase)
    while row < count:
        _centre_row(work.x_ME[first + row], weight_E, eps, work.wide_MN[row])
        _quantise_row(work, row, count, work.wide_MN[row], len(weight_E) // 2, four_bytes)
        finish_job(work.counters, phase)
        row = take_job(work.counters, phase)
    await_jobs(work.counters, phase, count)


@compiled
def quantise_rows(work: Scratch, phase: int, count: int, four_bytes: int) -> None:
    """Round the output of attention."""
    row = take_job(work.counters, phase)
    while row < count:
        _quantise_row(work, row, count, work.mixed_MQ[row], work.mixed_MQ.shape[1], four_bytes)
        finish_job(work.counters, phase)
        row = take_job(work.counters, phase)
    await_jobs(work.counters, phase, count)


@compiled
def gate_rows(work: Scratch, phase: int, count: int, inner: int, four_bytes: int) -> None:
    """silu(gate) · up of every row, rounded."""
    row = take_job(work.counters, phase)
    while row < count:
        _swiglu_row(work.wide_MN[row], inner)
        _quantise_row(work, row, count, work.wide_MN[row], inner, four_bytes)
        finish_job(work.counters, phase)
        row = take_job(work.counters, phase)
    await_jobs(work.counters, phase, count)


@compiled
def gelu_rows(work: Scratch, phase: int, count: int, inner: int, four_bytes: int) -> None:
    """GELU of every row, by tanh, rounded."""
    row = take_job(work.counters, phase)
    while row < count:
        _gelu_row(work.wide_MN[row], inner)
        _quantise_row(work, row, count, work.wide_MN[row], inner, four_bytes)
        finish_job(work.counters, phase)
        row = take_job(work.counters, phase)
    await_jobs(work.counters, phase, count)


@compiled
def keep_rows(cache: Cache, work: Scratch, phase: int, first: int, count: int, which: int) -> None:
    """Copy the state's rows to their slots, from `first` on; no thread continues before all are copied."""
    row = take_job(work.counters, phase)
    while row < count:
        source, target = work.x_ME[row], cache.states_CSE[first + row, which]
        for place in range(len(target)):
            target[place] = source[place]
        finish_job(work.counters, phase)
        row = take_job(work.counters, phase)
    await_jobs(work.counters, phase, count)


@compiled
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


@compiled
def _centre_row(x_E: Floats, weight_E: Floats, eps: np.float32, out: Floats) -> None:
    size = len(weight_E) // 2
    total = v_splat(np.float32(0))
    for at in range(0, size, LANES):
        total = v_add(total, v_load(x_E.ctypes.data + 4 * at))
    mean = v_splat(v_sum(total) / np.float32(size))
    squares = v_splat(np.float32(0))
    for at in range(0, size, LANES):
        value = v_sub(v_load(x_E.ctypes.data + 4 * at), mean)
        squares = v_fma(value, value, squares)
    scale = v_splat(np.float32(1) / np.sqrt(v_sum(squares) / np.float32(size) + eps))
    for at in range(0, size, LANES):
        value = v_mul(v_sub(v_load(x_E.ctypes.data + 4 * at), mean), scale)
        value = v_mul(value, v_load(weight_E.ctypes.data + 4 * at))
        v_store(out.ctypes.data + 4 * at, v_add(value, v_load(weight_E.ctypes.data + 4 * (size + at))))


@compiled
def norm_head(head_D: int, dim: int, weight_D: Floats, eps: np.float32) -> None:
    """RMSNorm of the `dim` numbers at an address, in place."""
    squares = v_splat(np.float32(0))
    for at in range(0, dim, LANES):
        value = v_load(head_D + 4 * at)
        squares = v_fma(value, value, squares)
    scale = v_splat(np.float32(1) / np.sqrt(v_sum(squares) / np.float32(dim) + eps))
    for at in range(0, dim, LANES):
        value = v_mul(v_load(head_D + 4 * at), scale)
        v_store(head_D + 4 * at, v_mul(value, v_load(weight_D.ctypes.data + 4 * at)))


@compiled
def _quantise_row(work: Scratch, slot: int, count: int, values: Floats, size: int, four_bytes: int) -> None:
    """One of `count` rows as whole numbers, in the layout of `DotKind.panel_of`."""
    peak = v_splat(np.float32(1e-9))
    for at in range(0, size, LANES):
        peak = v_max(peak, v_abs(v_load(values.ctypes.data + 4 * at)))
    highest = v_peak(peak)
    work.scales_M[slot] = highest * np.float32(1 / 127)
    inverse = np.float32(127) / highest
    panel = work.panel if count > 1 else 1
    place, apart = (slot // panel) * size * panel + (slot % panel) * 4, four_bytes * panel
    first = work.bytes_PK.ctypes.data + place * four_bytes // 4
    if four_bytes == 4:
        for at in range(0, size, LANES):
            store_bytes(first + at * panel, v_load(values.ctypes.data + 4 * at), inverse, apart)
    else:
        for at in range(0, size, LANES):
            store_words(first + 2 * at * panel, v_load(values.ctypes.data + 4 * at), inverse, apart)


@compiled
def _swiglu_row(gate_up: Floats, inner: int) -> None:
    one = v_splat(np.float32(1))
    zero = v_splat(np.float32(0))
    for at in range(0, inner, LANES):
        gate = v_load(gate_up.ctypes.data + 4 * at)
        up = v_load(gate_up.ctypes.data + 4 * (inner + at))
        opened = v_div(gate, v_add(one, v_exp(v_sub(zero, gate))))
        v_store(gate_up.ctypes.data + 4 * at, v_mul(opened, up))


@compiled
def _gelu_row(values: Floats, inner: int) -> None:
    """x · sigmoid(2u), which is x/2 · (1 + tanh u), with u = √(2/π) · (x + 0.044715 x³)."""
    one, zero = v_splat(np.float32(1)), v_splat(np.float32(0))
    cubic, linear = v_splat(np.float32(0.07135481282989)), v_splat(np.float32(1.595769121605731))
    for at in range(0, inner, LANES):
        x = v_load(values.ctypes.data + 4 * at)
        twice = v_mul(x, v_fma(v_mul(x, x), cubic, linear))
        v_store(values.ctypes.data + 4 * at, v_div(x, v_add(one, v_exp(v_sub(zero, twice)))))
