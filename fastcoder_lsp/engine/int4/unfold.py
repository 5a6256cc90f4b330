"""Four-bit weights unpacked to bytes in registers, as LLVM code: a product of few rows, and a block for many.

A line of a block holds 32 numbers of each column: a byte g for each of them, then four times, for each column, four
bytes of two q each: the numbers 8j…8j+3 in the low halves, 8j+4…8j+7 in the high ones.

Few rows multiply 16·q, which a mask makes of either half, sum up a group, and multiply its sum by g: whole numbers, so
their order changes nothing. For many rows g·q is written as bytes, once. With u = q + 8 where g > 0 and 7 − q where
g < 0, it is |g|·u − (8|g| or 7|g|): a product of words of 16 bits, of which neither byte overflows (15 · 15 < 256), and
a difference of bytes. The first of many rows are multiplied meanwhile.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import GROUP, UNFOLDING, DotKind
from fastcoder_lsp.engine.int8.simd import I8, I32, I64, LANES, intrinsic, load_at, store_at
from fastcoder_lsp.engine.int8.tiles import Loop, offset, prefetch, put_rows, register_of

PIECES = GROUP // 8  # pieces of a line, with eight numbers of each column
AHEAD = 1024
"""Distance in bytes of a single row's prefetches. More rows take longer over a line, and the hardware prefetcher
suffices: explicit prefetches cost them up to a third."""
Place = tuple[int, int]  # a register of a block's columns: its vector of 16, and the part of that


def folded_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times `kind.vectors`·16 columns of four-bit weights, as `tiles.product_tile`."""
    places = places_of(kind)
    # A group's sums are held beside the row's: with few registers, for one place at a time.
    together = [places] if kind.lanes == LANES else [[place] for place in places]

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups = arguments[:3]
        register = register_of(kind)
        zero, shift = (ir.Constant(register, [value] * register.count) for value in (0, 4))
        loop = Loop(builder, ir.Constant(I64, 0), lines_in(builder, groups), [zero] * (rows * len(places)))
        x_here = offset(builder, x, loop.index, GROUP * kind.panel)
        w_here = offset(builder, w, loop.index, kind.line_bytes)
        new = list(loop.carried)
        for some in together:
            of_group = {(place, row): zero for place in some for row in range(rows)}
            for piece in range(2 * PIECES):
                if rows == 1 and some is together[0]:
                    prefetch_piece(builder, kind, w_here, piece)
                weights = [_sixteenfold(builder, kind, w_here, place, piece) for place in some]
                for row in range(rows):
                    x_row = load_at(builder, x_here, I32, 4 * (piece * kind.panel + row))
                    for place, weight in zip(some, weights, strict=True):
                        of_group[place, row] = kind.emit(builder, of_group[place, row], weight, x_row)
            for place in some:
                factor = builder.sext(load_factors(builder, kind, w_here, place), register)
                for row in range(rows):
                    at = row * len(places) + places.index(place)
                    new[at] = builder.add(new[at], builder.mul(builder.ashr(of_group[place, row], shift), factor))
        done = iter(loop.close(new))
        put_rows(builder, kind, done, arguments[3:], rows, add=add)
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 9)
    return intrinsic(lambda _typing, _x, _w, _k, _sums, _scales, _biases, _rows, _out, _stride: (signature, generate))


def unfolding_tile(kind: DotKind, *, add: bool) -> Any:
    """`kind.rows` rows times `kind.vectors`·16 columns; writes the weights' bytes for the rows that follow.

    Unpacking partly uses other units of the processor than byte products, so that beside them it takes two thirds of
    its time. Arguments as of `tiles.product_tile`, and the address of the bytes [K/4][vectors][16][4], with room for
    `dot.UNFOLDING` vectors a vector of columns behind them.
    """
    places, rows = places_of(kind), kind.rows

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups, *others, unfolded = arguments
        zero = ir.Constant(register_of(kind), [0] * register_of(kind).count)
        loop = Loop(builder, ir.Constant(I64, 0), lines_in(builder, groups), [zero] * (rows * len(places)))
        x_here = offset(builder, x, loop.index, GROUP * kind.panel)
        sums = list(loop.carried)
        for piece, weights in _unfolded_pieces(builder, kind, w, groups, loop, unfolded):
            for row in range(rows):
                x_row = load_at(builder, x_here, I32, 4 * (piece * kind.panel + row))
                for number, weight in enumerate(weights):
                    at = row * len(places) + number
                    sums[at] = kind.emit(builder, sums[at], weight, x_row)
        put_rows(builder, kind, iter(loop.close(sums)), others, rows, add=add)
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 10)
    return intrinsic(lambda _typing, _x, _w, _k, _s, _scales, _b, _rows, _out, _stride, _bytes: (signature, generate))


def unfold_block(kind: DotKind) -> Any:
    """Write a block's weights as the [K/4][vectors][16][4] of `int8`; arguments as of `unfolding_tile`."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        _x, w, groups, *_others, unfolded = arguments
        loop = Loop(builder, ir.Constant(I64, 0), lines_in(builder, groups), [])
        for _ in _unfolded_pieces(builder, kind, w, groups, loop, unfolded):
            pass
        loop.close([])
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 10)
    return intrinsic(lambda _typing, _x, _w, _k, _s, _scales, _b, _rows, _out, _stride, _bytes: (signature, generate))


def _unfolded_pieces(
    builder: ir.IRBuilder, kind: DotKind, w: ir.Value, groups: ir.Value, loop: Loop, unfolded: ir.Value
) -> Iterator[tuple[int, list[ir.Value]]]:
    """Emit the unpacking of a line, four numbers at a time; yields their index and their bytes, which are stored."""
    size, places = 4 * kind.lanes, places_of(kind)
    w_here = offset(builder, w, loop.index, kind.line_bytes)
    here = offset(builder, unfolded, loop.index, GROUP * LANES * kind.vectors)
    # Sums fill the registers: the line's constants lie behind the bytes, and each vector is loaded again.
    beside = offset(builder, unfolded, groups, 4 * LANES * kind.vectors)
    for number, place in enumerate(places):
        for which, factor in enumerate(_factors(builder, kind, w_here, place)):
            store_at(builder, factor, beside, (number * UNFOLDING + which) * size, align=size)
    words, bytes_ = ir.VectorType(ir.IntType(16), 2 * kind.lanes), ir.VectorType(I8, 4 * kind.lanes)
    for piece in range(2 * PIECES):
        weights = []
        for number, place in enumerate(places):
            half = half_of(builder, kind, w_here, place, piece)
            factor = [
                load_at(builder, beside, what, (number * UNFOLDING + which) * size, align=size)
                for which, what in enumerate((words, bytes_, bytes_))
            ]
            value = _bytes(builder, half, *factor)
            store_at(builder, value, here, (piece * len(places) + number) * size, align=size)
            weights.append(builder.bitcast(value, ir.VectorType(I32, kind.lanes)))
        yield piece, weights


def places_of(kind: DotKind) -> list[Place]:
    """The registers of a block's columns, in their order."""
    return [(vector, part) for vector in range(kind.vectors) for part in range(LANES // kind.lanes)]


def lines_in(builder: ir.IRBuilder, groups: ir.Value) -> ir.Value:
    """Lines of a block with so many fours of numbers."""
    return builder.udiv(groups, ir.Constant(I64, 2 * PIECES))


def prefetch_piece(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, piece: int, ahead: int = AHEAD) -> None:
    """Prefetch a piece's share of a later line's cache lines: all at once would compete with each other."""
    cache_lines = -(-kind.line_bytes // 64)
    for number in range(cache_lines * piece // (2 * PIECES), cache_lines * (piece + 1) // (2 * PIECES)):
        prefetch(builder, w_here, 64 * number + ahead, level=2)


def _pair(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, place: Place, piece: int) -> ir.Value:
    """The bytes of two q each that hold fours of numbers 2·(piece // 2) and the next."""
    vector, part = place
    start = LANES * kind.vectors + piece // 2 * 4 * LANES * kind.vectors
    kept = ir.VectorType(I8, 4 * kind.lanes)
    return load_at(builder, w_here, kept, start + 4 * (LANES * vector + kind.lanes * part), align=LANES)


def _shifted(builder: ir.IRBuilder, bytes_: ir.Value, shift: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """All bytes shifted by four bits, as words; a mask later removes the neighbour's bits."""
    words = ir.VectorType(ir.IntType(16), bytes_.type.count // 2)
    return builder.bitcast(shift(builder.bitcast(bytes_, words), ir.Constant(words, [4] * words.count)), bytes_.type)


def _sixteenfold(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, place: Place, piece: int) -> ir.Value:
    pair = _pair(builder, kind, w_here, place, piece)
    high = pair if piece % 2 else _shifted(builder, pair, builder.shl)
    masked = builder.and_(high, ir.Constant(high.type, [-16] * high.type.count))
    return builder.bitcast(masked, ir.VectorType(I32, kind.lanes))


def half_of(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, place: Place, piece: int) -> ir.Value:
    """The four bits of each q of a four of numbers, as a byte."""
    pair = _pair(builder, kind, w_here, place, piece)
    low = _shifted(builder, pair, builder.lshr) if piece % 2 else pair
    return builder.and_(low, ir.Constant(low.type, [15] * low.type.count))


def load_factors(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, place: Place) -> ir.Value:
    """The bytes g of a register's columns."""
    vector, part = place
    at = LANES * vector + kind.lanes * part
    return load_at(builder, w_here, ir.VectorType(I8, kind.lanes), at, align=kind.lanes)


def _factors(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, place: Place) -> Iterator[ir.Value]:
    """For each column: |g| in every word; in every byte, the mask that turns q's bits into u, and the subtrahend."""
    g = load_factors(builder, kind, w_here, place)
    zero = ir.Constant(g.type, [0] * kind.lanes)
    negative = builder.icmp_signed("<", g, zero)
    size = builder.select(negative, builder.sub(zero, g), g)
    turned = builder.select(negative, *(ir.Constant(g.type, [bits] * kind.lanes) for bits in (7, 8)))
    in_words = [at for lane in range(kind.lanes) for at in (lane, kind.lanes, lane, kind.lanes)]
    in_bytes = [lane for lane in range(kind.lanes) for _ in range(4)]
    taken = builder.sub(builder.shl(size, ir.Constant(g.type, [3] * kind.lanes)), size)
    taken = builder.add(taken, builder.select(negative, zero, size))
    words = ir.VectorType(ir.IntType(16), 2 * kind.lanes)
    yield builder.bitcast(builder.shuffle_vector(size, zero, _lanes(in_words)), words)
    yield builder.shuffle_vector(turned, zero, _lanes(in_bytes))
    yield builder.shuffle_vector(taken, zero, _lanes(in_bytes))


def _bytes(builder: ir.IRBuilder, half: ir.Value, size: ir.Value, turned: ir.Value, taken: ir.Value) -> ir.Value:
    u = builder.bitcast(builder.xor(half, turned), size.type)
    return builder.sub(builder.bitcast(builder.mul(u, size), half.type), taken)


def _lanes(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(places)), places)
