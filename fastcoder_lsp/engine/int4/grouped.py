"""Products by four-bit weights on AVX2, summed by groups in 16 bits, as LLVM code.

AVX2's product of bytes (`vpmaddubsw`) adds two products in 16 bits and saturates, so eight-bit weights cannot use it.
Four-bit ones can: x is 1…255 and q is −8…7, so a sum of 16 products is −32,640…28,560, and 16 bits hold a group's sums
of even and of odd pairs. `vpmaddwd` by (g, g) then widens both, adds them and multiplies by the factor: Σ g·(Σ q·x) is
the whole number Σ (g·q)·x of the other kinds, so the bits are theirs.

A tile of few rows unpacks q in registers. For more rows, the first tile also writes the block's q as bytes, with the
factors of each group behind them, and the other tiles read those. A sum of 32 bits is touched once a group, so it may
lie in memory; the sums of 16 bits take the registers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int4.unfold import PIECES, half_of, lines_in, load_factors, places_of, prefetch_piece
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.simd import I32, I64, broadcast, call_named, intrinsic, load_at, store_at
from fastcoder_lsp.engine.int8.tiles import Loop, offset, put_rows, register_of

SIZE = 32  # bytes of a register
BYTES, WORDS, SUMS = (ir.VectorType(ir.IntType(bits), 8 * SIZE // bits) for bits in (8, 16, 32))
FOURS = 2 * PIECES  # fours of numbers in a group
NEXT_BLOCK = 8192
"""Distance in bytes of the prefetches of a tile that unpacks. The tiles after it read no memory for a while, in which
the following block arrives; without prefetches the products of eight rows take a quarter longer."""
Line = tuple[Callable[[int], Sequence[ir.Value]], Callable[[], Sequence[ir.Value]]]
"""A group's weights: the registers of each four of numbers, and of factors, for all columns."""


def grouped_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times `kind.vectors`·16 columns of packed weights; arguments as of `tiles.product_tile`."""

    def line_at(builder: ir.IRBuilder, w: ir.Value, index: ir.Value) -> Line:
        here = offset(builder, w, index, kind.line_bytes)
        return _packed(builder, kind, here, ahead=rows == 1)

    return _tile(kind, rows, line_at, add=add)


def unpacking_tile(kind: DotKind, *, add: bool) -> Any:
    """`kind.rows` rows, as `grouped_tile`; writes the block for `unpacked_tile` to the address of a tenth argument."""

    def line_at(builder: ir.IRBuilder, w: ir.Value, index: ir.Value, unpacked: ir.Value) -> Line:
        here = offset(builder, w, index, kind.line_bytes)
        fours, factors = _packed(builder, kind, here)
        target = offset(builder, unpacked, index, unpacked_line(kind))

        def stored(values: Sequence[ir.Value], at: int) -> Sequence[ir.Value]:
            for number, value in enumerate(values):
                store_at(builder, value, target, SIZE * (at + number), align=SIZE)
            return values

        registers = len(places_of(kind))

        def ahead_and(four: int) -> Sequence[ir.Value]:
            prefetch_piece(builder, kind, here, four, NEXT_BLOCK)
            return stored(fours(four), registers * four)

        return ahead_and, lambda: stored(factors(), registers * FOURS)

    return _tile(kind, kind.rows, line_at, add=add, unpacks=True)


def unpacked_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times the block that `unpacking_tile` wrote; arguments as of `tiles.product_tile`."""
    registers = len(places_of(kind))

    def line_at(builder: ir.IRBuilder, w: ir.Value, index: ir.Value) -> Line:
        here = offset(builder, w, index, unpacked_line(kind))

        def loaded(at: int, what: ir.Type) -> Sequence[ir.Value]:
            return [load_at(builder, here, what, SIZE * (at + number), align=SIZE) for number in range(registers)]

        return lambda four: loaded(registers * four, BYTES), lambda: loaded(registers * FOURS, WORDS)

    return _tile(kind, rows, line_at, add=add)


def unpacked_line(kind: DotKind) -> int:
    """Bytes of a group of an unpacked block: q, and a register of factors for each 8 columns."""
    return SIZE * len(places_of(kind)) * (FOURS + 1)


def _tile(kind: DotKind, rows: int, line_at: Callable[..., Line], *, add: bool, unpacks: bool = False) -> Any:
    """A tile whose weights `line_at` gives, from the address of the weights, a group's index and the rest."""
    registers = len(places_of(kind))

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups, *others = arguments
        places, rest = others[:6], others[6:]
        zero = ir.Constant(register_of(kind), [0] * register_of(kind).count)
        loop = Loop(builder, ir.Constant(I64, 0), lines_in(builder, groups), [zero] * (rows * registers))
        x_here = offset(builder, x, loop.index, GROUP * kind.panel)
        fours, factors = line_at(builder, w, loop.index, *rest)
        new = multiply_group(builder, kind, rows, x_here, loop.carried, fours, factors)
        put_rows(builder, kind, iter(loop.close(new)), places, rows, add=add)
        return context.get_dummy_value()

    if unpacks:
        signature = nt.void(*[nt.intp] * 10)
        return intrinsic(lambda _typing, _x, _w, _k, _s, _c, _b, _rows, _out, _stride, _bytes: (signature, generate))
    signature = nt.void(*[nt.intp] * 9)
    return intrinsic(lambda _typing, _x, _w, _k, _sums, _scales, _biases, _rows, _out, _stride: (signature, generate))


def multiply_group(
    builder: ir.IRBuilder,
    kind: DotKind,
    rows: int,
    x_here: ir.Value,
    totals: Sequence[ir.Value],
    fours: Callable[[int], Sequence[ir.Value]],
    factors: Callable[[], Sequence[ir.Value]],
) -> list[ir.Value]:
    """`totals`, row by row, with a group's products added: of rows at an address, and of a `Line`."""
    sums: list[list[ir.Value]] = [[]] * rows
    for four in range(FOURS):
        weights = fours(four)
        for row in range(rows):
            x_row = load_at(builder, x_here, I32, 4 * (four * kind.panel + row))
            spread = builder.bitcast(broadcast(builder, x_row, kind.lanes), BYTES)
            products = [call_named(builder, "llvm.x86.avx2.pmadd.ub.sw", WORDS, spread, weight) for weight in weights]
            if four:
                products = [_sum(builder, *pair) for pair in zip(sums[row], products, strict=True)]
            sums[row] = products
    in_order = zip(totals, [value for row in sums for value in row], list(factors()) * rows, strict=True)
    return [
        builder.add(total, call_named(builder, "llvm.x86.avx2.pmadd.wd", SUMS, value, factor))
        for total, value, factor in in_order
    ]


def _packed(builder: ir.IRBuilder, kind: DotKind, here: ir.Value, *, ahead: bool = False) -> Line:
    """Unpack the line at an address; `ahead`: prefetch a later one."""
    signed = ir.Constant(BYTES, [code - (code & 8) * 2 for code in range(16)] * 2)

    def fours(four: int) -> Sequence[ir.Value]:
        if ahead:
            prefetch_piece(builder, kind, here, four)
        codes = [half_of(builder, kind, here, place, four) for place in places_of(kind)]
        return [call_named(builder, "llvm.x86.avx2.pshuf.b", BYTES, signed, code) for code in codes]

    def factors() -> Sequence[ir.Value]:
        twice = ir.Constant(ir.VectorType(I32, 16), [lane for lane in range(kind.lanes) for _ in range(2)])
        loaded = [load_factors(builder, kind, here, place) for place in places_of(kind)]
        return [builder.sext(builder.shuffle_vector(g, g, twice), WORDS) for g in loaded]

    return fours, factors


def _sum(builder: ir.IRBuilder, total: ir.Value, products: ir.Value) -> ir.Value:
    """Add in this order, hidden from LLVM: its tree of sums exceeds the registers and takes 1.4 times as long."""
    kind = total.type
    return builder.asm(ir.FunctionType(kind, [kind]), "", "=x,0", [builder.add(total, products)], side_effect=False)
