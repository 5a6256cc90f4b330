"""A single row by i8mm, where the number of instructions is the limit: one load for four registers of weights.

Generates its code. Every 16 bytes of weights are multiplied once, so multiplying takes one instruction in 16 byte
products, and loading by pairs one in 32: 0.094. `ld1` loads four registers: 0.078, and 256 bytes of the row per
iteration keep the overhead below 0.002. (Arm Architecture Reference Manual, C7.2: LD1 multiple structures, USMMLA.)
"""

from collections.abc import Sequence

from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.dot_neon import BYTES, FOUR, SIZE, load_four, usmmla
from fastcoder_lsp.engine.int8.simd import I32, I64, LANES, load_at
from fastcoder_lsp.engine.int8.tiles import Loop

PAIRS = LANES // 2
"""Registers of eight bytes each of two columns, for all columns."""
TURN = 16
"""Registers of the row per iteration of the long loop: 327 instructions do 4,096 byte products."""


def product_of_a_row_in_eights(
    builder: ir.IRBuilder, _kind: DotKind, _rows: int, places: Sequence[ir.Value]
) -> list[list[ir.Value]]:
    """Σ x·w of one row of `places[0]` and weights [K/8][16][8] at `places[1]`, K/4, as `neon.product_in_eights`.

    `usmmla` takes 16 bytes of the row as two rows of eight. Weights of the first eight give their sums in the lower
    half of a register, those of the second in the upper half; the other halves are ignored. Half of the multiplications
    are wasted, but no register has to be made that holds the same eight bytes twice.
    """
    x, w, groups, _ = places
    registers = builder.lshr(groups, ir.Constant(I64, 2))
    turns = builder.udiv(registers, ir.Constant(I64, TURN))
    start = [ir.Constant(FOUR, [0] * 4)] * (2 * PAIRS)
    loop = Loop(builder, ir.Constant(I64, 0), turns, [x, w, *start])
    x_here, w_here, *sums = loop.carried
    for _ in range(TURN // 4):
        rows, x_here, _ = load_four(builder, x_here, [])
        for row in rows:
            w_here = _multiply(builder, sums, row, w_here)
    x_here, w_here, *sums = loop.close([x_here, w_here, *sums])
    loop = Loop(builder, builder.mul(turns, ir.Constant(I64, TURN)), registers, [x_here, w_here, *sums])
    x_here, w_here, *sums = loop.carried
    w_here = _multiply(builder, sums, load_at(builder, x_here, BYTES, align=SIZE), w_here)
    _, _, *done = loop.close([builder.add(x_here, ir.Constant(I64, SIZE)), w_here, *sums])
    return [[_columns(builder, done, part) for part in range(LANES // 4)]]


def _multiply(builder: ir.IRBuilder, sums: list[ir.Value], row: ir.Value, w_here: ir.Value) -> ir.Value:
    """Add 16 bytes of the row times those of all columns; returns the address of the next weights, too."""
    for first in range(0, len(sums), 4):
        before = slice(first - 4, first) if first else slice(len(sums) - 4, len(sums))
        weights, w_here, sums[before] = load_four(builder, w_here, sums[before])
        for number, weight in enumerate(weights, first):
            sums[number] = usmmla(builder, sums[number], row, weight)
    return w_here


def _columns(builder: ir.IRBuilder, sums: Sequence[ir.Value], part: int) -> ir.Value:
    """Four columns' sums: of the first eight bytes and of the second."""
    first, second = (
        builder.shuffle_vector(*sums[half + 2 * part : half + 2 * part + 2], ir.Constant(ir.VectorType(I32, 4), lanes))
        for half, lanes in ((0, [0, 1, 4, 5]), (PAIRS, [2, 3, 6, 7]))
    )
    return builder.add(first, second)
