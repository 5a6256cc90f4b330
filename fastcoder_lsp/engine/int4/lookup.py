"""Products of more than a few rows by four-bit weights: bytes are looked up while earlier ones are multiplied.

Generates code for AVX-512. Multiplying by g would use the units that byte products keep busy; shuffles use others. A
shuffle looks each 128-bit part of four columns' 16 bytes up in a table of its own, the products of the column's g with
every q, so the columns of four registers are transposed into parts, and back: whole numbers, as in `unfold`. The code
alternates these instructions with the products of the bytes looked up before: in sequence, products would fill the
processor's queue, and the shuffles would wait for their end.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.simd import I8, I32, I64, LANES, VECTOR_I32, call_named, intrinsic, load_at
from fastcoder_lsp.engine.int8.tiles import AHEAD, Loop, offset, prefetch, put_rows

BYTES, PART, WORDS = ir.VectorType(I8, 4 * LANES), ir.VectorType(I8, LANES), ir.VectorType(ir.IntType(16), 2 * LANES)
LARGEST = 15  # sizes of g: there are tables for −15…15
PARTS = 4  # of a register; and registers of the codes of 16 columns, in a line


class Unfolding(NamedTuple):
    """The state of a line before its last half is multiplied."""

    ready: list[ir.Value]
    """Bytes of its first half, each fours of numbers of 16 columns; they are the low halves of its codes."""
    codes: list[ir.Value]  # codes: four columns each, one for each part
    tables: list[ir.Value]  # tables: the products of the column's factor, in each part


def lookup_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times 16 columns of four-bit weights, as `tiles.product_tile`.

    `kind.vectors` is one: each weight is looked up once for as many rows as have their sums in registers. Rows beyond a
    panel are the first ones of the next.
    """

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups, *places = arguments
        zero, none = ir.Constant(VECTOR_I32, [0] * LANES), ir.Constant(I64, 0)
        lines = builder.udiv(groups, ir.Constant(I64, GROUP // 4))
        loop = Loop(builder, none, lines, [zero] * rows + _flat(_begin(builder, w)))
        x_here = offset(builder, x, loop.index, GROUP * kind.panel)
        panels = [x_here, builder.add(x_here, builder.mul(groups, ir.Constant(I64, 4 * kind.panel)))]
        w_here, totals = offset(builder, w, loop.index, kind.line_bytes), list(loop.carried[:rows])

        def multiply(weights: ir.Value, piece: int) -> None:
            if piece <= kind.line_bytes // 64:
                prefetch(builder, w_here, 64 * piece + AHEAD)
            for row in range(rows):
                place = 4 * (piece * kind.panel + row % kind.panel)
                x_row = load_at(builder, panels[row // kind.panel], I32, place)
                totals[row] = kind.emit(builder, totals[row], weights, x_row)

        following = builder.add(loop.index, ir.Constant(I64, 1))
        following = builder.select(builder.icmp_signed("<", following, lines), following, loop.index)
        following = offset(builder, w, following, kind.line_bytes)
        known = _multiply_line(builder, multiply, _unflat(loop.carried[rows:]), following)
        done = loop.close(totals + _flat(known))
        put_rows(builder, kind, iter(done[:rows]), places, rows, add=add)
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 9)
    return intrinsic(lambda _typing, _x, _w, _k, _sums, _scales, _biases, _rows, _out, _stride: (signature, generate))


def _begin(builder: ir.IRBuilder, here: ir.Value) -> Unfolding:
    codes, tables = _codes(builder, here), _tables(builder, here)
    return Unfolding(_turned(builder, _looked_up(builder, codes, tables, high=False)), codes, tables)


def _multiply_line(builder: ir.IRBuilder, multiply: Any, known: Unfolding, following: ir.Value) -> Unfolding:
    """Emit eight products of a line, alternating with the look-ups that they and the line at `following` need."""
    found = _looked_up(builder, known.codes, known.tables, high=True)
    multiply(known.ready[0], 0)
    high = _turned(builder, found)
    multiply(known.ready[1], 2)
    codes = _codes(builder, following)
    multiply(known.ready[2], 4)
    tables = _tables(builder, following)
    multiply(known.ready[3], 6)
    multiply(high[0], 1)
    found = _looked_up(builder, codes, tables, high=False)
    multiply(high[1], 3)
    ready = _turned(builder, found)
    multiply(high[2], 5)
    multiply(high[3], 7)
    return Unfolding(ready, codes, tables)


def _flat(known: Unfolding) -> list[ir.Value]:
    return [*known.ready, *known.codes, *known.tables]


def _unflat(values: Sequence[ir.Value]) -> Unfolding:
    return Unfolding(*(list(values[at : at + PARTS]) for at in range(0, 3 * PARTS, PARTS)))


def _codes(builder: ir.IRBuilder, here: ir.Value) -> list[ir.Value]:
    """The codes of a line: the register i of four has in its part p those of column 4p + i, two of them in a byte."""
    pairs = [load_at(builder, here, VECTOR_I32, LANES + 4 * LANES * piece, align=LANES) for piece in range(PARTS)]
    return [builder.bitcast(columns, BYTES) for columns in _turned(builder, pairs)]


def _looked_up(builder: ir.IRBuilder, codes: list[ir.Value], tables: list[ir.Value], *, high: bool) -> list[ir.Value]:
    """The bytes g·q of either half of such registers."""
    mask, four, found = ir.Constant(BYTES, [15] * BYTES.count), ir.Constant(WORDS, [4] * WORDS.count), []
    for places, table in zip(codes, tables, strict=True):
        if high:
            places = builder.bitcast(builder.lshr(builder.bitcast(places, WORDS), four), BYTES)  # noqa: PLW2901
        found.append(builder.bitcast(_shuffled(builder, table, builder.and_(places, mask)), VECTOR_I32))
    return found


def _tables(builder: ir.IRBuilder, here: ir.Value) -> list[ir.Value]:
    """The tables of a line's columns, in the order of `_codes`."""
    of_zero = builder.add(builder.ptrtoint(_products(builder), I64), ir.Constant(I64, LANES * LARGEST))
    joined = [ir.Constant(ir.VectorType(I32, count), list(range(count))) for count in (2 * LANES, 4 * LANES)]
    found = []
    for first in range(PARTS):
        parts = []
        for column in range(first, LANES, PARTS):
            g = builder.sext(load_at(builder, here, I8, column, align=1), I64)
            parts.append(load_at(builder, offset(builder, of_zero, g, LANES), PART, align=LANES))
        halves = [builder.shuffle_vector(*parts[at : at + 2], joined[0]) for at in (0, 2)]
        found.append(builder.shuffle_vector(*halves, joined[1]))
    return found


def _products(builder: ir.IRBuilder) -> ir.GlobalVariable:
    """g·q for the g of each 16 bytes in turn, and the four bits of every q."""
    name = "products_of_four_bits"
    found = builder.module.globals.get(name)
    if found is None:
        values = [g * (bits - (bits & 8) * 2) for g in range(-LARGEST, LARGEST + 1) for bits in range(LANES)]
        kind = ir.ArrayType(I8, len(values))
        found = ir.GlobalVariable(builder.module, kind, name)
        found.linkage, found.global_constant, found.align = "internal", True, 64
        found.initializer = ir.Constant(kind, values)
    return found


def _turned(builder: ir.IRBuilder, four: Sequence[ir.Value]) -> list[ir.Value]:
    """Four registers of four parts of four numbers: number j of register i of each part becomes i of j."""

    def pick(one: ir.Value, other: ir.Value, numbers: Sequence[int]) -> ir.Value:
        lanes = [part + (at if at < PARTS else at - PARTS + LANES) for part in range(0, LANES, PARTS) for at in numbers]
        return builder.shuffle_vector(one, other, ir.Constant(VECTOR_I32, lanes))

    low, high = ((pick(four[0], four[1], some), pick(four[2], four[3], some)) for some in ([0, 4, 1, 5], [2, 6, 3, 7]))
    return [pick(one, other, some) for one, other in (low, high) for some in ([0, 1, 4, 5], [2, 3, 6, 7])]


def _shuffled(builder: ir.IRBuilder, table: ir.Value, places: ir.Value) -> ir.Value:
    """In each part, the bytes of `table` at `places`."""
    return call_named(builder, "llvm.x86.avx512.pshuf.b.512", BYTES, table, places)
