"""The machine's limits for the CPU engine: the bandwidth of its memory, its clock, and its rate of byte products.

All three are measured on all of the engine's threads at once, so that no table of processors is needed. Products run in
a loop that reads no weights: they stay in registers, and a row's numbers (and AMX's tiles) come from the first-level
cache.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numba.core.types as nt
import numpy as np
from llvmlite import ir

from fastcoder_lsp.engine.int4.grouped import BYTES, FOURS, multiply_group
from fastcoder_lsp.engine.int4.grouped import WORDS as FACTORS
from fastcoder_lsp.engine.int8.amx import SIDE, begin_tiles, end_tiles, tiled_product
from fastcoder_lsp.engine.int8.dot import BYTES as SIXTEEN
from fastcoder_lsp.engine.int8.dot import FOUR, DotKind, usmmla
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.simd import I32, I64, LANES, intrinsic, load_at, store_at, v_load, v_max, v_store
from fastcoder_lsp.engine.int8.sync import Team
from fastcoder_lsp.engine.int8.tiles import Loop, register_of
from fastcoder_lsp.kernels import unkept

CHAINS = 12  # sums that are added to in turn: more than a product's latency, and few enough for 16 registers
STREAM_BYTES = 1 << 28  # memory that is read at once: more than caches hold
TURNS, TILE_TURNS, ROUNDS = 200_000, 2_000, 5
TILE_FOURS = 128  # fours of numbers of AMX's loop: rows and columns of so many lie in the first-level cache


@dataclass(frozen=True, slots=True)
class Limits:
    """Gigabytes a second of all threads, gigahertz, and products a cycle and thread by a kind's instructions."""

    gb_s: float
    ghz: float
    products: float


def measure_limits(kind: DotKind, threads: int) -> Limits:
    """Measure the three, within seconds; `kind`: of the model's products."""
    room, stream = aligned((1 << 18,), np.uint8), aligned((STREAM_BYTES,), np.uint8)
    room.fill(1)
    stream.fill(1)
    here, team = room.ctypes.data, Team(threads)
    multiply, each, turns = _product_loop(kind)
    try:
        read_s = _least(lambda: team.run(_read, stream.ctypes.data, STREAM_BYTES, here))
        spin_s = _least(lambda: team.run(_spin, TURNS))
        multiply_s = _least(lambda: team.run(multiply, here, turns))
    finally:
        team.close()
    ghz = 2 * TURNS / spin_s / 1e9
    return Limits(STREAM_BYTES / read_s / 1e9, ghz, each * turns / multiply_s / 1e9 / ghz)


@unkept
def _read(address: int, size: int, out: int, thread: int, threads: int) -> None:
    """Read a thread's share of memory."""
    share = size // threads // 256 * 256
    start = address + thread * share
    first, second, third, fourth = v_load(start), v_load(start + 64), v_load(start + 128), v_load(start + 192)
    for at in range(start, start + share, 256):
        first, second = v_max(first, v_load(at)), v_max(second, v_load(at + 64))
        third, fourth = v_max(third, v_load(at + 128)), v_max(fourth, v_load(at + 192))
    v_store(out + 64 * thread, v_max(v_max(first, second), v_max(third, fourth)))


@unkept
def _spin(turns: int, _thread: int, _threads: int) -> int:
    """A shift and an addition a turn, each of which waits for the one before: two cycles on every CPU."""
    value = np.uint64(turns)
    for _ in range(turns):
        value += value >> np.uint64(1)
    return int(value)


def _product_loop(kind: DotKind) -> tuple[Any, int, int]:
    """A compiled function of an address and turns, the products of each turn, and the turns to take."""
    if kind.in_bytes is not None and not kind.grouped:
        # Four bits are unpacked into bytes. These have more registers of columns, and so fewer reads of a row.
        kind = kind.in_bytes
    if kind.tiled:
        vectors, columns = kind.vectors, kind.vectors * LANES
        tile = tiled_product(kind, 2, add=False)

        @unkept
        def multiply_tiles(address: int, turns: int, _thread: int, _threads: int) -> None:
            begin_tiles()
            for _ in range(turns):
                out = address + (1 << 16)
                x, sides = address + (1 << 15), address + (1 << 17)
                tile(x, address, TILE_FOURS, sides, sides, sides, sides, out, 64 * vectors, 2 * SIDE)
            end_tiles()

        return multiply_tiles, 2 * SIDE * columns * 4 * TILE_FOURS, TILE_TURNS
    emit = _group if kind.bits == 4 and kind.grouped else _pairs if kind.eights else _fours
    rows, registers, each = _sizes(kind)
    loop = _loop(kind, emit, rows, registers)

    @unkept
    def multiply(address: int, turns: int, _thread: int, _threads: int) -> None:
        loop(address, turns)

    return multiply, rows * registers * each, TURNS


def _sizes(kind: DotKind) -> tuple[int, int, int]:
    """Rows and registers of columns of a turn, and the products of one of its sums."""
    if kind.bits == 4 and kind.grouped:
        return 4, 2, 4 * kind.lanes * FOURS
    if kind.partial > 1:
        return 5, 1, 4 * kind.lanes
    registers = kind.vectors * LANES // kind.lanes
    return CHAINS // registers, registers, 8 * kind.lanes if kind.eights else 4 * kind.lanes


Emit = Callable[[ir.IRBuilder, DotKind, list[ir.Value], list[ir.Value], ir.Value], Iterator[ir.Value]]
"""Gives sums with the products of rows at an address and of columns, whose registers of weights come second."""


def _loop(kind: DotKind, emit: Emit, rows: int, registers: int) -> Any:
    """An intrinsic that multiplies rows and columns at an address, so many times."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        address, turns = arguments
        grouped = emit is _group
        register = ir.VectorType(I32, kind.lanes) if grouped or kind.eights else register_of(kind)
        of_weights = ir.VectorType(I32, kind.lanes)
        weights = [load_at(builder, address, of_weights, 64 * number) for number in range(registers)]
        zero = ir.Constant(register, [0] * register.count)
        loop = Loop(builder, ir.Constant(I64, 0), turns, [address] + [zero] * (rows * registers))
        # An empty assembly makes the address unknown, or the compiler would multiply only once.
        here = builder.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [loop.carried[0]], side_effect=True)
        new = list(emit(builder, kind, loop.carried[1:], weights, here))
        done = loop.close([here, *new])
        for number, value in enumerate(done[1:]):
            store_at(builder, value, address, 4096 + 64 * number)
        return context.get_dummy_value()

    return intrinsic(lambda _typing, _address, _turns: (nt.void(nt.intp, nt.intp), generate))


def _fours(
    builder: ir.IRBuilder, kind: DotKind, sums: list[ir.Value], weights: list[ir.Value], here: ir.Value
) -> Iterator[ir.Value]:
    for number, total in enumerate(sums):
        row, register = divmod(number, len(weights))
        x_row = load_at(builder, here, ir.IntType(8 * kind.four_bytes), kind.four_bytes * row)
        yield kind.emit(builder, total, weights[register], x_row)


def _pairs(
    builder: ir.IRBuilder, _kind: DotKind, sums: list[ir.Value], weights: list[ir.Value], here: ir.Value
) -> Iterator[ir.Value]:
    for number, total in enumerate(sums):
        row, register = divmod(number, len(weights))
        weight = builder.bitcast(weights[register], SIXTEEN)
        yield usmmla(builder, builder.bitcast(total, FOUR), load_at(builder, here, SIXTEEN, 16 * row), weight)


def _group(
    builder: ir.IRBuilder, kind: DotKind, sums: list[ir.Value], weights: list[ir.Value], here: ir.Value
) -> Iterator[ir.Value]:
    codes, factors = ([builder.bitcast(weight, what) for weight in weights] for what in (BYTES, FACTORS))
    rows = len(sums) // len(weights)
    yield from multiply_group(builder, kind, rows, here, sums, lambda _four: codes, lambda: factors)


def _least(work: Callable[[], object]) -> float:
    """The seconds of the fastest of some rounds, after one that compiles."""
    work()
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)
