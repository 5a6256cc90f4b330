"""Products by tiles, for CPUs with AMX: 16 rows times 16 columns over 64 bytes in one instruction.

Generates their code. A tile is a register of 16 rows of 64 bytes: x row by row; weights in fours of bytes of 16
columns, as they are packed; sums, 16 by 16 in 32 bits, the same integers as of other kinds. Sums leave the tiles
through memory. (Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter on AMX.)
"""

from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.simd import F32, I8, I64, VECTOR_I32, call_named, intrinsic, load_at, pointer
from fastcoder_lsp.engine.int8.tiles import AHEAD, Loop, columns_at, offset, prefetch, put_row

SIDE = 16  # rows of a tile, and 32-bit sums in one of them
_TILES, _TILE_BYTES = 8, 1024


def _emit(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> None:
    call_named(builder, f"llvm.x86.{name}", ir.VoidType(), *arguments)


def _tile(number: int) -> ir.Value:
    return ir.Constant(I8, number)


@intrinsic
def begin_tiles(_typing: Any) -> Any:
    """Set all tiles of this thread to their full size, until `end_tiles`."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> ir.Value:
        kind = ir.ArrayType(I8, 64)
        sizes = bytearray(64)  # palette 1; bytes of a row at 16, in two bytes each; rows at 48
        sizes[0], sizes[16:32:2], sizes[48:56] = 1, bytes([64] * _TILES), bytes([SIDE] * _TILES)
        known = builder.module.globals.get("full_tiles")
        if known is None:
            known = ir.GlobalVariable(builder.module, kind, "full_tiles")
            known.linkage, known.global_constant, known.align = "internal", True, 64
            known.initializer = ir.Constant(kind, sizes)
        _emit(builder, "ldtilecfg", builder.bitcast(known, ir.PointerType(I8)))
        return context.get_dummy_value()

    return nt.void(), generate


@intrinsic
def end_tiles(_typing: Any) -> Any:
    """Release the tiles: the thread's saved state is small again."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> ir.Value:
        _emit(builder, "tilerelease")
        return context.get_dummy_value()

    return nt.void(), generate


def tiled_product(kind: DotKind, halves: int, *, add: bool) -> Any:
    """Up to `halves`·16 rows times `kind.vectors`·16 columns.

    The intrinsic's arguments are `tiles.product_tile`'s, and the number of rows: it reads all rows, and writes so many.
    The rows' bytes lie one row after the other; K is a multiple of 64.
    """
    vectors = kind.vectors
    sums_of = [[vectors * half + vector for vector in range(vectors)] for half in range(halves)]
    # Three sums for each half leave at least two tiles: x, and the weights in turn.
    x_tile = vectors * halves
    w_tiles = list(range(x_tile + 1, _TILES))

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups, sums, scales, biases, row_scales, out, stride, count = arguments
        size = builder.mul(groups, ir.Constant(I64, 4))
        with builder.goto_entry_block():  # numba's own way zeroes it at every call
            area = builder.alloca(ir.ArrayType(I8, _TILE_BYTES * vectors * halves))
            area.align = 64
        memory = builder.ptrtoint(area, I64)
        for tiles in sums_of:
            for tile in tiles:
                _emit(builder, "tilezero", _tile(tile))
        loop = Loop(builder, ir.Constant(I64, 0), builder.lshr(groups, ir.Constant(I64, 4)), [])
        x_here, w_here = offset(builder, x, loop.index, 64), offset(builder, w, loop.index, _TILE_BYTES * vectors)
        for line in range(SIDE * vectors):
            prefetch(builder, w_here, 64 * line + AHEAD)
        for half, tiles in enumerate(sums_of):
            x_half = builder.add(x_here, builder.mul(size, ir.Constant(I64, SIDE * half)))
            _emit(builder, "tileloadd64", _tile(x_tile), pointer(builder, x_half, I8), size)
            for vector, tile in enumerate(tiles):
                w_tile = w_tiles[vector % len(w_tiles)]
                w_vector = pointer(builder, w_here, I8, 64 * vector)
                _emit(builder, "tileloadd64", _tile(w_tile), w_vector, ir.Constant(I64, 64 * vectors))
                _emit(builder, "tdpbusd", _tile(tile), _tile(x_tile), _tile(w_tile))
        loop.close([])
        for tiles in sums_of:
            for tile in tiles:
                place = pointer(builder, memory, I8, _TILE_BYTES * tile)
                _emit(builder, "tilestored64", _tile(tile), place, ir.Constant(I64, 4 * SIDE))
        columns = columns_at(builder, kind, sums, scales, biases)
        for half, tiles in enumerate(sums_of):
            left, most = builder.sub(count, ir.Constant(I64, SIDE * half)), ir.Constant(I64, SIDE)
            stop = builder.select(builder.icmp_signed("<", left, most), left, most)
            rows = Loop(builder, ir.Constant(I64, 0), stop, [])
            row = builder.add(rows.index, ir.Constant(I64, SIDE * half))
            here = offset(builder, memory, rows.index, 4 * SIDE)
            totals = [load_at(builder, here, VECTOR_I32, _TILE_BYTES * tile) for tile in tiles]
            scale = load_at(builder, offset(builder, row_scales, row, 4), F32)
            put_row(builder, totals, columns, scale, builder.add(out, builder.mul(stride, row)), add=add)
            rows.close([])
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 10)
    return intrinsic(lambda _t, _x, _w, _k, _sums, _scales, _b, _rows, _out, _stride, _count: (signature, generate))
