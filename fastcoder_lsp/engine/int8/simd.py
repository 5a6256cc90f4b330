"""A vector of 16 floats for numba code, and the few operations that the kernels need.

LLVM splits the vector instructions for narrower registers, which changes no bit: every operation works lane by lane,
and the two reductions are written out as trees. Never use fast-math here.

Keys and values are stored in 16 bits: the upper half of a float, rounded to the nearest, ties to even (bfloat16), by
integer instructions that every CPU has, so that all CPUs read the same. Two vectors of 16 are stored together as the
halves of 16 words of 32 bits: one load and one instruction each turn them into floats.
"""

from collections.abc import Callable
from typing import Any

import numba.core.types as nt
from llvmlite import ir
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic as untyped_intrinsic
from numba.extending import models, register_model

from fastcoder_lsp.kernels import inlined

LANES = 16
I8, I32, I64, F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR, VECTOR_I32 = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)


def intrinsic(generator: Callable[..., Any]) -> Any:
    """numba's decorator, untyped: its own types would check calls inside compiled code against the generators."""
    return untyped_intrinsic(generator)


class VectorType(nt.Type):
    """16 floats, held in registers."""

    def __init__(self) -> None:
        super().__init__(name="Vector16")


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """LLVM's representation of a `VectorType`."""

    def __init__(self, manager: Any, front_type: Any) -> None:
        super().__init__(manager, front_type, VECTOR)  # type: ignore[no-untyped-call]  # numba is untyped


Vector = VectorType()


def pointer(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, offset: int = 0) -> ir.Value:
    """The pointer to a `kind` at `address` (an integer) + `offset` bytes."""
    moved = builder.add(address, ir.Constant(I64, offset)) if offset else address
    return builder.inttoptr(moved, ir.PointerType(kind))


def load_at(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, offset: int = 0, align: int = 4) -> ir.Value:
    """The `kind` in memory at `address` + `offset` bytes."""
    loaded = builder.load(pointer(builder, address, kind, offset))
    loaded.align = align
    return loaded


def store_at(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, offset: int = 0, align: int = 4) -> None:
    """Write `value` to memory at `address` + `offset` bytes."""
    builder.store(value, pointer(builder, address, value.type, offset), align=align)


def broadcast(builder: ir.IRBuilder, scalar: ir.Value, lanes: int = LANES) -> ir.Value:
    """A vector with `scalar` in each of its lanes."""
    kind = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def call(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> ir.Value:
    """Call the LLVM intrinsic `name`, overloaded for the type of its first argument."""
    kind = arguments[0].type
    suffix = f"v{kind.count}f32" if isinstance(kind, ir.VectorType) else "f32"
    return call_named(builder, f"llvm.{name}.{suffix}", kind, *arguments)


def call_named(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Call LLVM's function of this full name."""
    signature: Any = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(get_or_insert_function(builder.module, signature, name), arguments)  # type: ignore[no-untyped-call]


def _elementwise(emit: Callable[..., ir.Value], count: int, kind: Any = Vector) -> Any:
    """An intrinsic on `count` values of one kind that gives one of the same kind."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return emit(builder, *arguments)

    if count == 1:
        return intrinsic(lambda _typing, _a: (kind(kind), generate))
    if count == 2:
        return intrinsic(lambda _typing, _a, _b: (kind(kind, kind), generate))
    return intrinsic(lambda _typing, _a, _b, _c: (kind(kind, kind, kind), generate))


v_add = _elementwise(lambda b, x, y: b.fadd(x, y), 2)
v_sub = _elementwise(lambda b, x, y: b.fsub(x, y), 2)
v_mul = _elementwise(lambda b, x, y: b.fmul(x, y), 2)
v_div = _elementwise(lambda b, x, y: b.fdiv(x, y), 2)
v_max = _elementwise(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y), 2)
v_min = _elementwise(lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y), 2)
v_abs = _elementwise(lambda b, x: call(b, "fabs", x), 1)
v_round = _elementwise(lambda b, x: call(b, "rint", x), 1)
v_fma = _elementwise(lambda b, x, y, z: call(b, "fma", x, y, z), 3)
fma = _elementwise(lambda b, x, y, z: call(b, "fma", x, y, z), 3, nt.float32)


@intrinsic
def v_load(_typing: Any, _address: Any) -> Any:
    """The 16 floats at an address."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return load_at(builder, arguments[0], VECTOR)

    return Vector(nt.intp), generate


@intrinsic
def v_store(_typing: Any, _address: Any, _value: Any) -> Any:
    """Write 16 floats to an address."""

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        store_at(builder, arguments[1], arguments[0])
        return context.get_dummy_value()

    return nt.void(nt.intp, Vector), generate


@intrinsic
def v_splat(_typing: Any, _scalar: Any) -> Any:
    """A float32 in all lanes."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return broadcast(builder, arguments[0])

    return Vector(nt.float32), generate


def _reduction(combine: Callable[..., ir.Value]) -> Any:
    """Fold halves onto each other: 16 → 8 → 4 → 2 → 1, in a fixed order."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        value, lanes = arguments[0], LANES
        while lanes > 1:
            lanes //= 2
            low, high = (ir.Constant(ir.VectorType(I32, lanes), list(range(at, at + lanes))) for at in (0, lanes))
            empty = ir.Constant(value.type, ir.Undefined)
            value = combine(
                builder, builder.shuffle_vector(value, empty, low), builder.shuffle_vector(value, empty, high)
            )
        return builder.extract_element(value, ir.Constant(I32, 0))

    return intrinsic(lambda _typing, _value: (nt.float32(Vector), generate))


v_sum = _reduction(lambda b, x, y: b.fadd(x, y))
v_peak = _reduction(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))


@intrinsic
def v_times_power(_typing: Any, _value: Any, _exponent: Any) -> Any:
    """value · 2^exponent, for whole exponents that keep the result normal."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        value, exponent = arguments
        whole = builder.fptosi(exponent, VECTOR_I32)
        shifted = builder.shl(whole, ir.Constant(VECTOR_I32, [23] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(value, VECTOR_I32), shifted), VECTOR)

    return Vector(Vector, Vector), generate


@intrinsic
def v_zero_below(_typing: Any, _value: Any, _test: Any, _limit: Any) -> Any:
    """`value`, but 0 in the lanes where `test` < `limit`."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        value, test, limit = arguments
        return builder.select(builder.fcmp_ordered("<", test, limit), ir.Constant(VECTOR, [0.0] * LANES), value)

    return Vector(Vector, Vector, Vector), generate


@inlined
def v_exp(x: Any) -> Any:
    """e^x to about 1e-7 relative, 0 below -87, clipped above 88. Cephes' polynomial, in fused steps."""
    low = v_splat(nt.float32(-87.0))
    clipped = v_min(v_max(x, low), v_splat(nt.float32(88.0)))
    power = v_round(v_mul(clipped, v_splat(nt.float32(1.44269504088896341))))
    rest = v_fma(power, v_splat(nt.float32(-0.693359375)), clipped)
    rest = v_fma(power, v_splat(nt.float32(2.12194440e-4)), rest)
    value = v_splat(nt.float32(1.9875691500e-4))
    value = v_fma(value, rest, v_splat(nt.float32(1.3981999507e-3)))
    value = v_fma(value, rest, v_splat(nt.float32(8.3334519073e-3)))
    value = v_fma(value, rest, v_splat(nt.float32(4.1665795894e-2)))
    value = v_fma(value, rest, v_splat(nt.float32(1.6666665459e-1)))
    value = v_fma(value, rest, v_splat(nt.float32(5.0000001201e-1)))
    value = v_fma(v_mul(rest, rest), value, v_add(rest, v_splat(nt.float32(1.0))))
    return v_zero_below(v_times_power(value, power), x, low)


PAIR = 2 * LANES  # numbers that are stored together
_I16 = ir.IntType(16)


def padded(count: int) -> int:
    """Places that `count` numbers take: whole pairs of vectors."""
    return -(-count // PAIR) * PAIR


@inlined
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
