"""The three inner loops as LLVM code: int8 products, attention scores, and the mix of values.

Each maker returns a numba intrinsic on plain addresses (integers); everything known at compile time (rows, vectors,
sizes of a head) is unrolled, so that all sums live in registers.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.simd import (
    F32,
    I8,
    I32,
    I64,
    LANES,
    VECTOR,
    VECTOR_I32,
    Vector,
    broadcast,
    call,
    call_named,
    intrinsic,
    load_at,
    padded,
    pointer,
    store_at,
    widened,
)
from fastcoder_lsp.kernels.processor import features, is_arm

BLOCK = 32  # columns of a key block, [D][32]: one score of 32 columns reads memory sequentially
AHEAD = 4096  # prefetch distance in bytes
REGISTERS_OF_NEON = 5  # vectors of 16 sums with 32 registers of four floats each: the other registers are for operands
REGISTERS_OF_AVX2 = 5  # vectors of 16 sums with 16 registers of eight floats each
REGISTERS = REGISTERS_OF_NEON if is_arm() else 24 if features().get("avx512f") else REGISTERS_OF_AVX2
"""Vectors of 16 sums that fit beside their operands: AVX-512 has 32 registers of one each."""

PARTIAL_SUMS = 8  # registers of partial sums, of AVX2's 16


class Loop:
    """A counted loop in LLVM code with carried values: `carried` inside, `close` with new ones."""

    def __init__(self, builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, values: list[ir.Value]) -> None:
        self._builder, self._stop, self._values = builder, stop, values
        self._before = builder.block
        self._body = builder.append_basic_block("turn")
        self._after = builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", start, stop), self._body, self._after)
        builder.position_at_end(self._body)
        self.index = builder.phi(I64)
        self.index.add_incoming(start, self._before)
        self.carried: list[ir.Value] = []
        for value in values:
            phi = builder.phi(value.type)
            phi.add_incoming(value, self._before)
            self.carried.append(phi)

    def close(self, values: list[ir.Value]) -> list[ir.Value]:
        """End the iteration; returns the values after the loop."""
        builder = self._builder
        following = builder.add(self.index, ir.Constant(I64, 1))
        self.index.add_incoming(following, builder.block)
        for phi, value in zip(self.carried, values, strict=True):
            phi.add_incoming(value, builder.block)
        last = builder.block
        builder.cbranch(builder.icmp_signed("<", following, self._stop), self._body, self._after)
        builder.position_at_end(self._after)
        results = []
        for first, value in zip(self._values, values, strict=True):
            phi = builder.phi(value.type)
            phi.add_incoming(first, self._before)
            phi.add_incoming(value, last)
            results.append(phi)
        return results


def _constant(kind: ir.Type, value: float = 0) -> ir.Value:
    return ir.Constant(kind, [value] * kind.count) if isinstance(kind, ir.VectorType) else ir.Constant(kind, value)


def offset(builder: ir.IRBuilder, address: ir.Value, index: ir.Value, size: int) -> ir.Value:
    """The address of element `index` of an array whose elements take `size` bytes."""
    return builder.add(address, builder.mul(index, ir.Constant(I64, size)))


def product_tile(kind: DotKind, rows: int, *, add: bool) -> Any:
    """`rows` rows times `kind.vectors`·16 columns.

    The intrinsic's arguments: address of the rows' numbers in their panel [K/4][kind.panel][4]; of the columns' weights
    [K/4][vectors][16][4]; K/4; of the columns' sums·128 (int32), scales and biases (floats); of the rows' scales; of
    the output, and bytes between two of its rows. Output: see `put_row`.
    """
    places = list(range(kind.vectors * LANES // kind.lanes))
    register = register_of(kind)
    columns_of_register, four = ir.VectorType(I32, kind.lanes), ir.IntType(8 * kind.four_bytes)
    # Sums that exceed the registers are computed for some columns after the other.
    fits = kind.partial == 1 or rows * len(places) * kind.partial <= PARTIAL_SUMS
    turns = [places] if fits else [[place] for place in places]

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        x, w, groups = arguments[:3]
        sums: dict[tuple[int, int], ir.Value] = {}
        for some in turns:
            of_some = [(row, place) for row in range(rows) for place in some]
            loop = Loop(builder, ir.Constant(I64, 0), groups, [_constant(register)] * len(of_some))
            x_here = offset(builder, x, loop.index, kind.four_bytes * kind.panel)
            w_here = offset(builder, w, loop.index, 64 * kind.vectors)
            for vector in range(kind.vectors if some is turns[0] else 0):
                prefetch(builder, w_here, 64 * vector + AHEAD)
            size = 4 * kind.lanes
            weights = [load_at(builder, w_here, columns_of_register, size * place, align=size) for place in some]
            carried, new = iter(loop.carried), []
            for row in range(rows):
                x_row = load_at(builder, x_here, four, kind.four_bytes * row)
                new += [kind.emit(builder, next(carried), weight, x_row) for weight in weights]
            sums |= dict(zip(of_some, loop.close(new), strict=True))
        in_order = (sums[row, place] for row in range(rows) for place in places)
        put_rows(builder, kind, in_order, arguments[3:], rows, add=add)
        return context.get_dummy_value()

    signature = nt.void(*[nt.intp] * 9)
    return intrinsic(lambda _typing, _x, _w, _k, _sums, _scales, _biases, _rows, _out, _stride: (signature, generate))


def register_of(kind: DotKind) -> ir.VectorType:
    """The type of a register of sums."""
    return ir.VectorType(I32, kind.lanes * kind.partial)


def put_rows(
    builder: ir.IRBuilder, kind: DotKind, sums: Iterator[ir.Value], places: Sequence[ir.Value], rows: int, *, add: bool
) -> None:
    """Write the rows of a product, or add them to what is there.

    `sums`: registers of sums, row by row. `places`: addresses of the columns' sums, scales and biases, of the rows'
    scales, of the output, and bytes between two of its rows.
    """
    column_sums, scales, biases, row_scales, out, stride = places
    columns = columns_at(builder, kind, column_sums, scales, biases)
    for row in range(rows):
        target = builder.add(out, builder.mul(stride, ir.Constant(I64, row)))
        totals = [
            _join(builder, [_fold(builder, next(sums), kind) for _ in range(LANES // kind.lanes)])
            for _ in range(kind.vectors)
        ]
        put_row(builder, totals, columns, load_at(builder, row_scales, F32, 4 * row), target, add=add)


Columns = list[list[ir.Value]]  # for each vector of columns: sums·128, scales, biases


def columns_at(builder: ir.IRBuilder, kind: DotKind, sums: ir.Value, scales: ir.Value, biases: ir.Value) -> Columns:
    """Load a product's values of its columns from these addresses."""
    sides = ((sums, VECTOR_I32), (scales, VECTOR), (biases, VECTOR))
    return [[load_at(builder, side, what, 64 * vector) for side, what in sides] for vector in range(kind.vectors)]


def put_row(
    builder: ir.IRBuilder, totals: list[ir.Value], columns: Columns, scale: ir.Value, target: ir.Value, *, add: bool
) -> None:
    """Write one row of a product: (Σ x·w) · column scale · row scale + bias; added to the output if `add`."""
    row_scale = broadcast(builder, scale)
    for vector, (total, (column_sums, column_scales, column_biases)) in enumerate(zip(totals, columns, strict=True)):
        value = builder.sitofp(builder.sub(total, column_sums), VECTOR)
        value = builder.fmul(builder.fmul(value, column_scales), row_scale)
        value = builder.fadd(value, column_biases)
        if add:
            value = builder.fadd(load_at(builder, target, VECTOR, 64 * vector), value)
        store_at(builder, value, target, 64 * vector)


def score_tile(heads: int, dim: int) -> Any:
    """Scores of `heads` query heads over one block of 32 columns: each Σ q·k over d = 0, 1, …, fused, in that order.

    Arguments: address of the queries [heads][dim], of the block's keys [dim][32] in the layout of `simd`, of the
    output, its rows' distance.
    """
    vectors = BLOCK // LANES
    most = REGISTERS // vectors

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        queries, keys, out, stride = arguments
        for first in range(0, heads, most):
            some = range(first, min(first + most, heads))
            start, stop = ir.Constant(I64, 0), ir.Constant(I64, dim)
            loop = Loop(builder, start, stop, [_constant(VECTOR)] * (len(some) * vectors))
            loaded = widened(builder, offset(builder, keys, loop.index, 2 * BLOCK))
            carried, new = iter(loop.carried), []
            for head in some:
                query = load_at(builder, offset(builder, queries, loop.index, 4), F32, 4 * dim * head)
                spread = broadcast(builder, query)
                new += [call(builder, "fma", spread, key, next(carried)) for key in loaded]
            done = iter(loop.close(new))
            for head in some:
                target = builder.add(out, builder.mul(stride, ir.Constant(I64, head)))
                for vector in range(vectors):
                    store_at(builder, next(done), target, 64 * vector)
        return context.get_dummy_value()

    return intrinsic(lambda _typing, _q, _k, _out, _stride: (nt.void(*[nt.intp] * 4), generate))


def mix_tile(heads: int, dim: int) -> Any:
    """Add weight · value of the columns `start`…`stop`, one after the other, to the output.

    Arguments: address of the weights [heads][…], bytes between their rows, address of the values [column][dim] in the
    layout of `simd`, start, stop, address of the output [heads][dim].
    """
    vectors = next(count for count in (4, 2, 1) if dim % (LANES * count) == 0)
    # Two vectors are loaded together, so fewer heads at once are better than one vector.
    vectors = max(min(2, vectors, REGISTERS // 3), min(vectors, REGISTERS // heads))
    while dim % (LANES * vectors):
        vectors -= 1
    most = max(1, REGISTERS // vectors)

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        weights, stride, values, start, stop, out = arguments
        for base in range(0, dim, LANES * vectors):
            for first in range(0, heads, most):
                some = range(first, min(first + most, heads))
                places = [4 * (head * dim + base + LANES * vector) for head in some for vector in range(vectors)]
                loop = Loop(builder, start, stop, [load_at(builder, out, VECTOR, place) for place in places])
                values_here = offset(builder, values, loop.index, 2 * padded(dim))
                wanted = [base // LANES + vector for vector in range(vectors)]
                pairs = {pair: widened(builder, values_here, 64 * pair) for pair in {vector // 2 for vector in wanted}}
                loaded = [pairs[vector // 2][vector % 2] for vector in wanted]
                carried, new = iter(loop.carried), []
                for head in some:
                    row = builder.add(weights, builder.mul(stride, ir.Constant(I64, head)))
                    spread = broadcast(builder, load_at(builder, offset(builder, row, loop.index, 4), F32))
                    new += [call(builder, "fma", spread, value, next(carried)) for value in loaded]
                for place, value in zip(places, loop.close(new), strict=True):
                    store_at(builder, value, out, place)
        return context.get_dummy_value()

    return intrinsic(lambda _typing, _w, _stride, _v, _start, _stop, _out: (nt.void(*[nt.intp] * 6), generate))


def _store_numbers(bits: int) -> Any:
    """An intrinsic that rounds 16 floats times `inverse`, adds 128, and stores them in fours, `apart` bytes apart."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        address, value, inverse, apart = arguments
        rounded = call(builder, "rint", builder.fmul(value, broadcast(builder, inverse)))
        whole = builder.add(builder.fptosi(rounded, VECTOR_I32), ir.Constant(VECTOR_I32, [128] * LANES))
        numbers = builder.trunc(whole, ir.VectorType(ir.IntType(bits), LANES))
        fours = builder.bitcast(numbers, ir.VectorType(ir.IntType(4 * bits), LANES // 4))
        for group in range(LANES // 4):
            four = builder.extract_element(fours, ir.Constant(I32, group))
            store_at(builder, four, offset(builder, address, apart, group))
        return context.get_dummy_value()

    signature = nt.void(nt.intp, Vector, nt.float32, nt.intp)
    return intrinsic(lambda _typing, _address, _value, _inverse, _apart: (signature, generate))


store_bytes, store_words = _store_numbers(8), _store_numbers(16)


def _fold(builder: ir.IRBuilder, sums: ir.Value, kind: DotKind) -> ir.Value:
    """One sum a column, from two partial ones."""
    if kind.partial == 1:
        return sums
    even, odd = (
        builder.shuffle_vector(
            sums,
            ir.Constant(sums.type, ir.Undefined),
            ir.Constant(ir.VectorType(I32, kind.lanes), list(range(first, 2 * kind.lanes, 2))),
        )
        for first in (0, 1)
    )
    return builder.add(even, odd)


def _join(builder: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    if len(parts) == 1:
        return parts[0]
    low, high = parts
    lanes = ir.Constant(VECTOR_I32, list(range(LANES)))
    return builder.shuffle_vector(low, high, lanes)


def prefetch(builder: ir.IRBuilder, address: ir.Value, offset: int, level: int = 1) -> None:
    """Prefetch a cache line up to this level of cache; harmless beyond the array."""
    reading, keep_close, data = (ir.Constant(I32, value) for value in (0, 4 - level, 1))
    line = pointer(builder, address, I8, offset)
    call_named(builder, "llvm.prefetch.p0", ir.VoidType(), line, reading, keep_close, data)
