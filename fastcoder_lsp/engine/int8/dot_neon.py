"""NEON's products of bytes as LLVM code, a register of 128 bits at a time.

Calls LLVM's intrinsics; `kernels.processor` detects which of them a CPU has. `sdot`, `usdot`: each lane of sums gets
four products. `usmmla`: two rows of eight bytes times two of them, four sums. (Arm Architecture Reference Manual,
C7.2.)
"""

from llvmlite import ir

from fastcoder_lsp.engine.int8.simd import I8, I32, I64, broadcast

FOUR, BYTES = ir.VectorType(I32, 4), ir.VectorType(I8, 16)
"""A register as sums, and as bytes."""
SIZE = 16
"""Bytes of a register."""


def sdot(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
    """Sums + signed bytes w times four signed bytes x, of a row less 128."""
    return _call(builder, "sdot", sums, w, broadcast(builder, x, 4))


def usdot(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
    """Sums + signed bytes w times four unsigned bytes x."""
    return _call(builder, "usdot", sums, broadcast(builder, x, 4), w)


def usmmla(builder: ir.IRBuilder, sums: ir.Value, x: ir.Value, w: ir.Value) -> ir.Value:
    """Sums + [x₀·w₀, x₀·w₁, x₁·w₀, x₁·w₁], of two rows of eight unsigned bytes and two of eight signed ones."""
    return _call(builder, "usmmla", sums, x, w)


def load_four(
    builder: ir.IRBuilder, address: ir.Value, before: list[ir.Value]
) -> tuple[list[ir.Value], ir.Value, list[ir.Value]]:
    """Load four registers from an address (an integer) by one instruction (`ld1`); also returns the next address.

    `ld1` moves its address by itself, but LLVM sees that only where the next address is computed from this one: an
    empty assembly keeps it from computing all of them from the first. The assembly also takes the sums, `before`, which
    keeps loads behind the products that made those: all loads at once would fill the registers.
    """
    name, pointer = "llvm.aarch64.neon.ld1x4.v16i8.p0", ir.PointerType(I8)
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(ir.LiteralStructType([BYTES] * 4), [pointer]), name)
    loaded = builder.call(function, [builder.inttoptr(address, pointer)])
    taken = [builder.add(address, ir.Constant(I64, 4 * SIZE)), *before]
    kinds = [value.type for value in taken]
    tied = ",".join(["=r"] + ["=w"] * len(before) + [str(number) for number in range(len(taken))])
    result = ir.LiteralStructType(kinds) if before else kinds[0]
    kept = builder.asm(ir.FunctionType(result, kinds), "", tied, taken, side_effect=False)
    given = [builder.extract_value(kept, number) for number in range(len(taken))] if before else [kept]
    return [builder.extract_value(loaded, number) for number in range(4)], given[0], given[1:]


def _call(builder: ir.IRBuilder, name: str, sums: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
    full = f"llvm.aarch64.neon.{name}.v4i32.v16i8"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(FOUR, [FOUR, BYTES, BYTES]), full)
    return builder.call(function, [sums, builder.bitcast(first, BYTES), builder.bitcast(second, BYTES)])
