"""Numbers in 16 bits: the upper half of a float, rounded to the nearest, ties to even (bfloat16).

The storage of keys and values. It uses only integer instructions that every CPU has, so that all CPUs read the same.
Two vectors of 16 are stored together as the halves of 16 words of 32 bits: one load and one instruction each turn them
into floats.
"""

from typing import Any

import numba.core.types as nt
from llvmlite import ir

from fastcoder_lsp.engine.int8.simd import I32, LANES, VECTOR, VECTOR_I32, intrinsic, load_at

PAIR = 2 * LANES
"""Numbers that are stored together."""
_I16 = ir.IntType(16)


def padded(count: int) -> int:
    """Places that `count` numbers take: whole pairs of vectors."""
    return -(-count // PAIR) * PAIR


def place_of(index: int) -> int:
    """The place of number `index`: the first 16 of each 32 are lower halves, the others upper ones."""
    return index // PAIR * PAIR + 2 * (index % LANES) + index % PAIR // LANES


@intrinsic
def narrow(_typing: Any, _value: Any) -> Any:
    """A float32 as a uint16."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        bits = builder.bitcast(arguments[0], I32)
        odd = builder.and_(builder.lshr(bits, ir.Constant(I32, 16)), ir.Constant(I32, 1))
        rounded = builder.add(builder.add(bits, ir.Constant(I32, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, ir.Constant(I32, 16)), _I16)

    return nt.uint16(nt.float32), generate


def widened(builder: ir.IRBuilder, address: ir.Value, offset: int = 0) -> tuple[ir.Value, ir.Value]:
    """The two vectors of floats that stand together at `address` + `offset` bytes."""
    words = load_at(builder, address, VECTOR_I32, offset, align=64)
    lower = builder.shl(words, ir.Constant(VECTOR_I32, [16] * LANES))
    upper = builder.and_(words, ir.Constant(VECTOR_I32, [-(1 << 16)] * LANES))
    return builder.bitcast(lower, VECTOR), builder.bitcast(upper, VECTOR)
