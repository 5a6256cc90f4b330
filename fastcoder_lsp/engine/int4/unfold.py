"""Four-bit weights as bytes in registers, as LLVM code: a product of few rows, and a block for many.

Owns code generation. A line of a block holds 32 numbers of each column: a byte g for each of them, then four times, for
each column, four bytes of two codes u each: of the numbers 8j…8j+3 in the low halves, of 8j+4…8j+7 in the high ones.
u = q + 8 where g > 0 and 7 − q where g < 0, so that g·q = |g|·u − (8|g| or 7|g|): one product of 16-bit words, of which
neither byte overflows (15 · 15 < 256), and one difference of bytes.
"""

from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.simd import F32, I8, I32, I64, LANES, intrinsic, load_at, store_at
from fastcoder_lsp.engine.int8.tiles import AHEAD, Loop, columns_at, offset, prefetch, put_row, register_of, totals_of

STEPS = GROUP // 8
"""Pieces of a line: eight numbers of each column."""


def folded_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times `kind.vectors`·16 columns, as `tiles.product_tile`; its third argument counts lines."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, lines, sums, scales, biases, row_scales, out, stride = arguments
        parts = LANES // kind.lanes
        register = register_of(kind)
        zeros = [ir.Constant(register, [0] * register.count)] * (rows * kind.vectors * parts)
        loop = Loop(builder, ir.Constant(I64, 0), lines, zeros)
        x_here = offset(builder, x, loop.index, GROUP * kind.panel)
        sums_now = loop.carried
        for piece, weights in enumerate(_line(builder, kind, offset(builder, w, loop.index, kind.line_bytes))):
            carried, sums_now = iter(sums_now), []
            for row in range(rows):
                x_row = load_at(builder, x_here, I32, 4 * (piece * kind.panel + row))
                sums_now += [kind.emit(builder, next(carried), weight, x_row) for weight in weights]
        done = iter(loop.close(sums_now))
        columns = columns_at(builder, kind, sums, scales, biases)
        for row in range(rows):
            target = builder.add(out, builder.mul(stride, ir.Constant(I64, row)))
            scale = load_at(builder, row_scales, F32, 4 * row)
            put_row(builder, totals_of(builder, kind, done), columns, scale, target, add=add)
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 9)
    return intrinsic(lambda _typing, _x, _w, _k, _sums, _scales, _biases, _rows, _out, _stride: (signature, generate))


def unfold_block(kind: DotKind) -> Any:
    """Write a block's weights as the bytes [K/4][vectors][16][4] that the products of `int8` read.

    The intrinsic's arguments: address of the block, its lines, address of the bytes.
    """

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        w, lines, target = arguments
        loop = Loop(builder, ir.Constant(I64, 0), lines, [])
        here = offset(builder, target, loop.index, GROUP * LANES * kind.vectors)
        size = 4 * kind.lanes
        for piece, weights in enumerate(_line(builder, kind, offset(builder, w, loop.index, kind.line_bytes))):
            for place, weight in enumerate(weights):
                store_at(builder, weight, here, (piece * len(weights) + place) * size, align=size)
        loop.close([])
        return context.get_dummy_value()

    return intrinsic(lambda _typing, _w, _lines, _target: (nt.void(*[nt.intp] * 3), generate))


def _line(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value) -> Any:
    """The registers of a line, by fours of numbers: a generator, so that few are alive at a time."""
    for at in range(0, kind.line_bytes, 64):
        prefetch(builder, w_here, at + AHEAD)
    parts = LANES // kind.lanes
    places = [(vector, part) for vector in range(kind.vectors) for part in range(parts)]
    factors = [_factors(builder, kind, w_here, LANES * vector + kind.lanes * part) for vector, part in places]
    codes_at = LANES * kind.vectors
    bytes_, size = ir.VectorType(I8, 4 * kind.lanes), 4 * kind.lanes
    low_half = ir.Constant(bytes_, [15] * size)
    for step in range(STEPS):
        start = codes_at + step * 4 * LANES * kind.vectors
        pairs = [
            load_at(builder, w_here, bytes_, start + 4 * LANES * vector + size * part, align=16)
            for vector, part in places
        ]
        yield [_times(builder, kind, builder.and_(pair, low_half), *f) for pair, f in zip(pairs, factors, strict=True)]
        words = ir.VectorType(ir.IntType(16), 2 * kind.lanes)
        four = ir.Constant(words, [4] * words.count)
        high = [builder.bitcast(builder.lshr(builder.bitcast(pair, words), four), bytes_) for pair in pairs]
        yield [_times(builder, kind, builder.and_(pair, low_half), *f) for pair, f in zip(high, factors, strict=True)]


def _factors(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, place: int) -> tuple[ir.Value, ir.Value]:
    """Of each column, |g| in every word and what is taken away in every byte."""
    narrow = ir.VectorType(I8, kind.lanes)
    g = load_at(builder, w_here, narrow, place, align=kind.lanes)
    zero = ir.Constant(narrow, [0] * kind.lanes)
    positive = builder.icmp_signed(">", g, zero)
    size = builder.select(positive, g, builder.sub(zero, g))
    taken = builder.sub(builder.shl(size, ir.Constant(narrow, [3] * kind.lanes)), size)
    taken = builder.add(taken, builder.select(positive, g, zero))
    everywhere = [lane for lane in range(kind.lanes) for _ in range(4)]
    in_words = [place for lane in range(kind.lanes) for place in (lane, kind.lanes, lane, kind.lanes)]
    spread = builder.shuffle_vector(taken, zero, _lanes(everywhere))
    words = builder.shuffle_vector(size, zero, _lanes(in_words))
    return builder.bitcast(words, ir.VectorType(ir.IntType(16), 2 * kind.lanes)), spread


def _times(builder: ir.IRBuilder, kind: DotKind, codes: ir.Value, size: ir.Value, taken: ir.Value) -> ir.Value:
    """The bytes g·q of codes, four of a column in each lane."""
    product = builder.mul(builder.bitcast(codes, size.type), size)
    values = builder.sub(builder.bitcast(product, taken.type), taken)
    return builder.bitcast(values, ir.VectorType(I32, kind.lanes))


def _lanes(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(places)), places)
