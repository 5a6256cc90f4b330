"""NEON's products of bytes as LLVM code, a register of 128 bits at a time.

Owns the calls of LLVM's intrinsics; which of them a CPU has is `kernels.processor`'s to say. `sdot`, `usdot`: each lane
of sums gets four products. `usmmla`: two rows of eight bytes times two of them, four sums. (Arm Architecture Reference
Manual, C7.2.)
"""

from llvmlite import ir

from fastcoder_lsp.engine.int8.simd import I8, I32, broadcast

FOUR, BYTES = ir.VectorType(I32, 4), ir.VectorType(I8, 16)
"""A register as sums, and as bytes."""


def sdot(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
    """Sums + signed bytes w times four signed bytes x: of a row that 128 was taken from."""
    return _call(builder, "sdot", sums, w, broadcast(builder, x, 4))


def usdot(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
    """Sums + signed bytes w times four unsigned bytes x."""
    return _call(builder, "usdot", sums, broadcast(builder, x, 4), w)


def usdot_registers(builder: ir.IRBuilder, sums: ir.Value, x: ir.Value, w: ir.Value) -> ir.Value:
    """Sums + 16 unsigned bytes x times 16 signed bytes w, four by four."""
    return _call(builder, "usdot", sums, x, w)


def usmmla(builder: ir.IRBuilder, sums: ir.Value, x: ir.Value, w: ir.Value) -> ir.Value:
    """Sums + [x₀·w₀, x₀·w₁, x₁·w₀, x₁·w₁], of two rows of eight unsigned bytes and two of eight signed ones."""
    return _call(builder, "usmmla", sums, x, w)


def _call(builder: ir.IRBuilder, name: str, sums: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
    full = f"llvm.aarch64.neon.{name}.v4i32.v16i8"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(FOUR, [FOUR, BYTES, BYTES]), full)
    return builder.call(function, [sums, builder.bitcast(first, BYTES), builder.bitcast(second, BYTES)])
