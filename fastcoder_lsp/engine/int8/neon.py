"""Products by NEON, for ARM CPUs: 32 registers of 128 bits, four sums in each.

Rows lie one after the other, so that a register holds 16 bytes of one of them: four groups of four, each of which
`sdot` multiplies by lane, or two groups of eight, which `usmmla` multiplies by pairs of rows with pairs of columns.
`sdot` takes only signed bytes: it takes x − 128, and its sums begin with the columns' own, which makes them the
integers that all other kinds give. (Arm Architecture Reference Manual, C7.2: SDOT, USDOT, USMMLA.)

Nothing prefetches weights explicitly: they are read sequentially, which these CPUs' prefetchers follow. For a single
row by i8mm the number of instructions is the limit, so one instruction (`ld1`, multiple structures) loads four
registers of weights. Every 16 bytes of weights are multiplied once, so multiplying takes one instruction in 16 byte
products, and loading by pairs one in 32: 0.094. `ld1` makes that 0.078, and 256 bytes of the row per iteration keep the
overhead below 0.002.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import BYTES, FOUR, GROUP, SIZE, DotKind, load_four, usmmla
from fastcoder_lsp.engine.int8.simd import F32, I8, I32, I64, LANES, intrinsic, load_at
from fastcoder_lsp.engine.int8.tiles import Loop, columns_at, offset, put_row

PARTS = LANES // 4  # registers of sums of 16 columns
FOLDED_ROWS_OF_NEON = 2
"""The most rows for which four-bit weights are unpacked in registers: a group's sums fit only beside those of four."""
Sums = list[list[ir.Value]]  # of each row, the sums of four columns each


def neon_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times 16 columns, as `tiles.product_tile`; K is a multiple of 16."""
    in_eights: Any = product_in_eights if rows > 1 else product_of_a_row_in_eights
    eights = kind.eights and (rows > 1 or kind.bits == 8)
    return _tile(kind, rows, in_eights if eights else product_in_fours, add=add)


def neon_folded_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """The same for four-bit weights, as `int4.unfold.folded_tile`."""
    return _tile(kind, rows, product_of_folded, add=add)


def _tile(kind: DotKind, rows: int, emit: Any, *, add: bool) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups, sums, scales, biases, row_scales, out, stride = arguments
        totals = emit(builder, kind, rows, (x, w, groups, sums))
        columns = columns_at(builder, kind, sums, scales, biases)
        for row, parts in enumerate(totals):
            target = builder.add(out, builder.mul(stride, ir.Constant(I64, row)))
            total = _joined(builder, parts)
            put_row(builder, [total], columns, load_at(builder, row_scales, F32, 4 * row), target, add=add)
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 9)
    return intrinsic(lambda _typing, _x, _w, _k, _sums, _scales, _biases, _rows, _out, _stride: (signature, generate))


def product_in_fours(builder: ir.IRBuilder, kind: DotKind, rows: int, places: Sequence[ir.Value]) -> Sums:
    """Σ x·w of rows at `places[0]` and weights [K/4][16][4] at `places[1]`, K/4, added to the columns' sums.

    A single row has several sums a column, which do not wait for each other.
    """
    x, w, groups, sums = places
    chains = max(1, 4 // rows)
    zero = ir.Constant(FOUR, [0] * 4)
    start = [value for _ in range(rows) for value in _start(builder, kind, sums)]
    loop = Loop(builder, ir.Constant(I64, 0), _registers(builder, groups), start + [zero] * len(start) * (chains - 1))
    x_here, w_here = offset(builder, x, loop.index, SIZE), offset(builder, w, loop.index, SIZE * LANES)
    x_rows = [_row(builder, kind, x_here, groups, row) for row in range(rows)]
    new = list(loop.carried)
    for group in range(4):
        for part in range(PARTS):
            weights = load_at(builder, w_here, FOUR, SIZE * (PARTS * group + part), align=SIZE)
            for row in range(rows):
                at = (group % chains * rows + row) * PARTS + part
                new[at] = kind.emit(builder, new[at], weights, _lane(builder, x_rows[row], group))
    done = loop.close(new)
    while len(done) > len(start):
        half = len(done) // 2
        done = [builder.add(one, other) for one, other in zip(done[:half], done[half:], strict=True)]
    return [done[PARTS * row : PARTS * (row + 1)] for row in range(rows)]


def product_in_eights(builder: ir.IRBuilder, kind: DotKind, rows: int, places: Sequence[ir.Value]) -> Sums:
    """The same by i8mm: for weights [K/8][16][8], or, unpacked from four bits, [K/4][16][4].

    A register holds the sums of two rows times two columns. Two rows or more; for one see `product_of_a_row_in_eights`.
    """
    x, w, groups, _ = places
    pairs, columns = rows // 2, LANES // 2
    loop = Loop(
        builder, ir.Constant(I64, 0), _registers(builder, groups), [ir.Constant(FOUR, [0] * 4)] * pairs * columns
    )
    x_here, w_here = offset(builder, x, loop.index, SIZE), offset(builder, w, loop.index, SIZE * LANES)
    x_rows = [_row(builder, kind, x_here, groups, row) for row in range(rows)]
    new = list(loop.carried)
    for half in range(2):
        eight = list(range(8 * half, 8 * half + 8))
        x_pairs = [
            builder.shuffle_vector(*x_rows[2 * pair : 2 * pair + 2], _lanes(eight + [lane + SIZE for lane in eight]))
            for pair in range(pairs)
        ]
        for column, weights in enumerate(_pairs_of_columns(builder, kind, w_here, half)):
            for pair, x_pair in enumerate(x_pairs):
                at = pair * columns + column
                new[at] = usmmla(builder, new[at], x_pair, weights)
    done = loop.close(new)
    totals = []
    for pair in range(pairs):
        some = done[pair * columns : (pair + 1) * columns]
        totals += [_picked(builder, some, lanes) for lanes in ([0, 1, 4, 5], [2, 3, 6, 7])]
    return totals


def product_of_folded(builder: ir.IRBuilder, kind: DotKind, rows: int, places: Sequence[ir.Value]) -> Sums:
    """The same for four-bit weights, unpacked in registers: for the layout see `int4.unfold`.

    Either half of a byte becomes 16·q in one instruction; the sum of a group is shifted back and multiplied by its g.
    """
    x, w, groups, sums = places
    start = [value for _ in range(rows) for value in _start(builder, kind, sums)]
    lines = builder.lshr(groups, ir.Constant(I64, 3))
    loop = Loop(builder, ir.Constant(I64, 0), lines, start)
    x_here, w_here = offset(builder, x, loop.index, GROUP), offset(builder, w, loop.index, kind.line_bytes)
    x_rows = [[_row(builder, kind, x_here, groups, row, SIZE * half) for half in range(2)] for row in range(rows)]
    four, upper = (ir.Constant(BYTES, [value] * SIZE) for value in (4, -16))
    new = list(loop.carried)
    for part in range(PARTS):
        of_group = [ir.Constant(FOUR, [0] * 4)] * rows
        for pair in range(GROUP // 8):
            both = load_at(builder, w_here, BYTES, LANES + SIZE * (PARTS * pair + part), align=SIZE)
            for half, weights in enumerate((builder.shl(both, four), builder.and_(both, upper))):
                group = 2 * pair + half
                for row in range(rows):
                    x_four = _lane(builder, x_rows[row][group // 4], group % 4)
                    of_group[row] = kind.emit(builder, of_group[row], builder.bitcast(weights, FOUR), x_four)
        factor = builder.sext(load_at(builder, w_here, ir.VectorType(I8, 4), 4 * part), FOUR)
        for row in range(rows):
            total = builder.ashr(of_group[row], ir.Constant(FOUR, [4] * 4))
            at = row * PARTS + part
            new[at] = builder.add(new[at], builder.mul(total, factor))
    done = loop.close(new)
    return [done[PARTS * row : PARTS * (row + 1)] for row in range(rows)]


def _start(builder: ir.IRBuilder, kind: DotKind, sums: ir.Value) -> list[ir.Value]:
    """The initial sums of a row, which undo x − 128 where x is taken so."""
    if kind.eights:
        return [ir.Constant(FOUR, [0] * 4)] * PARTS
    return [load_at(builder, sums, FOUR, SIZE * part) for part in range(PARTS)]


def _row(
    builder: ir.IRBuilder, kind: DotKind, x_here: ir.Value, groups: ir.Value, row: int, further: int = 0
) -> ir.Value:
    """16 bytes of a row, less 128 for signed products."""
    here = builder.add(x_here, builder.mul(groups, ir.Constant(I64, 4 * row)))
    bytes_ = load_at(builder, here, BYTES, further, align=SIZE)
    return bytes_ if kind.eights else builder.xor(bytes_, ir.Constant(BYTES, [-128] * SIZE))


def _pairs_of_columns(builder: ir.IRBuilder, kind: DotKind, w_here: ir.Value, half: int) -> Iterator[ir.Value]:
    """Eight bytes each of columns 0 and 1, 2 and 3, …: the first or second half of 16."""
    if kind.bits == 8:
        for pair in range(LANES // 2):
            yield load_at(builder, w_here, BYTES, SIZE * (LANES // 2 * half + pair), align=SIZE)
        return
    for part in range(PARTS):
        first, second = (
            load_at(builder, w_here, FOUR, SIZE * (PARTS * group + part), align=SIZE)
            for group in (2 * half, 2 * half + 1)
        )
        for lanes in ([0, 4, 1, 5], [2, 6, 3, 7]):
            yield builder.bitcast(builder.shuffle_vector(first, second, _lanes(lanes)), BYTES)


def _registers(builder: ir.IRBuilder, groups: ir.Value) -> ir.Value:
    return builder.lshr(groups, ir.Constant(I64, 2))


def _lane(builder: ir.IRBuilder, row: ir.Value, group: int) -> ir.Value:
    return builder.extract_element(builder.bitcast(row, FOUR), ir.Constant(I32, group))


def _picked(builder: ir.IRBuilder, registers: list[ir.Value], lanes: list[int]) -> list[ir.Value]:
    following = zip(registers[::2], registers[1::2], strict=True)
    return [builder.shuffle_vector(one, other, _lanes(lanes)) for one, other in following]


def _joined(builder: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    halves = [builder.shuffle_vector(*parts[at : at + 2], _lanes(list(range(8)))) for at in (0, 2)]
    return builder.shuffle_vector(*halves, _lanes(list(range(LANES))))


def _lanes(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(places)), places)


PAIRS = LANES // 2  # registers of eight bytes each of two columns, for all columns
TURN = 16  # registers of the row per iteration of the long loop: 327 instructions do 4,096 byte products


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
