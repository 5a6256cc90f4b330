"""Dot products of unsigned and signed bytes, four at a time, by the CPU's instructions.

All kinds of instructions give the same integers. `x` is a row's value plus 128, so 1…255; `w` is −127…127; sums are
exact in 32 bits for rows of up to 66,000 values.

NEON's instructions are LLVM intrinsics, a register of 128 bits at a time, which `neon` uses. `sdot`, `usdot`: each lane
of sums gets four products. `usmmla`: two rows of eight bytes times two of them, four sums. (Arm Architecture Reference
Manual, C7.2.)
"""

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from llvmlite import ir

from fastcoder_lsp.config.environment import forced_kind
from fastcoder_lsp.engine.int8.simd import I8, I32, I64, LANES, broadcast, call_named
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.kernels.processor import features_of_cpu, is_arm

FOUR, BYTES = ir.VectorType(I32, 4), ir.VectorType(I8, 16)  # a register as sums, and as bytes
SIZE = 16  # bytes of a register


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
    name, four = "llvm.aarch64.neon.ld1x4.v16i8.p0", ir.LiteralStructType([BYTES] * 4)
    loaded = call_named(builder, name, four, builder.inttoptr(address, ir.PointerType(I8)))
    taken = [builder.add(address, ir.Constant(I64, 4 * SIZE)), *before]
    kinds = [value.type for value in taken]
    tied = ",".join(["=r"] + ["=w"] * len(before) + [str(number) for number in range(len(taken))])
    result = ir.LiteralStructType(kinds) if before else kinds[0]
    kept = builder.asm(ir.FunctionType(result, kinds), "", tied, taken, side_effect=False)
    given = [builder.extract_value(kept, number) for number in range(len(taken))] if before else [kept]
    return [builder.extract_value(loaded, number) for number in range(4)], given[0], given[1:]


def _call(builder: ir.IRBuilder, name: str, sums: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
    sides = builder.bitcast(first, BYTES), builder.bitcast(second, BYTES)
    return call_named(builder, f"llvm.aarch64.neon.{name}.v4i32.v16i8", FOUR, sums, *sides)


GROUP = 32  # numbers of a row that share a factor in four-bit weights
UNFOLDING = 3  # vectors of constants for unpacking a vector of columns
Emit = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True, slots=True)
class DotKind:
    """One way to multiply bytes.

    `lanes`: sums in one register. `vectors`: groups of 16 columns of one tile, `rows`: its rows at most; so that sums
    and operands fill the registers and no more. `emit(builder, sums, w, x)`: sums + four products a lane; w holds four
    bytes of a column in each lane, x the four numbers of a row. `partial`: sums of a column that stay apart until the
    end. `wide`: the numbers of a row are words of 16 bits, widened once for all tiles, not bytes. `panel`: rows with
    interleaved numbers, [K/4][panel][4], so that one pointer walks through all of them (`panel_of`). `step`: bytes of a
    row that are read at once; rows are a multiple of it. `tiled`: by `amx`. `neon`: by `neon`; `eights`: that
    multiplies pairs of rows by pairs of columns, eight bytes of each. `bits`: of a weight in memory; `int4` unpacks
    fewer than eight, with its `lookup` if the kind `looks_up`, or sums groups in 16 bits if it is `grouped`.
    `in_bytes`: for four bits, the same instructions for the matrices that stay in eight (`packing.kind_of`).
    """

    name: str
    lanes: int
    vectors: int
    rows: int
    emit: Emit
    partial: int = 1
    panel: int = 8
    step: int = 4
    tiled: bool = False
    neon: bool = False
    eights: bool = False
    wide: bool = False
    looks_up: bool = False
    grouped: bool = False
    bits: int = 8
    in_bytes: "DotKind | None" = None

    def panel_of(self, rows: int) -> int:
        """How many rows are interleaved if there are so many.

        A single row is not: with room for seven others between its bytes, a long one would not fit the first-level
        cache.
        """
        return self.panel if rows > 1 else 1

    @property
    def four_bytes(self) -> int:
        """Bytes of four numbers of a row."""
        return 8 if self.wide else 4

    @property
    def number(self) -> type[np.generic]:
        """The type of a row's numbers."""
        return np.uint16 if self.wide else np.uint8

    @property
    def line(self) -> int:
        """Numbers of a row that a line of packed weights covers."""
        return GROUP if self.bits < 8 else 8 if self.eights else 4

    @property
    def line_bytes(self) -> int:
        """Bytes of a line, for all columns of a block."""
        return self.vectors * LANES * (self.line if self.bits == 8 else GROUP // 2 + 1)


def _vnni(lanes: int) -> Emit:
    name = f"llvm.x86.avx512.vpdpbusd.{lanes * 32}"

    def emit(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
        return call_named(builder, name, sums.type, sums, broadcast(builder, x, lanes), w)

    return emit


def _plain(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
    """Byte by byte in 32-bit lanes: correct on any CPU, slow."""
    for byte in range(4):
        left = ir.Constant(w.type, [24 - 8 * byte] * LANES)
        signed = builder.ashr(builder.shl(w, left), ir.Constant(w.type, [24] * LANES))
        shifted = builder.lshr(x, ir.Constant(I32, 8 * byte))
        unsigned = builder.and_(shifted, ir.Constant(I32, 255))
        sums = builder.add(sums, builder.mul(signed, broadcast(builder, unsigned)))
    return sums


def _words(builder: ir.IRBuilder, sums: ir.Value, w: ir.Value, x: ir.Value) -> ir.Value:
    """AVX2's products of 16-bit words, which cannot saturate on bytes: two sums of two products a column."""
    words = ir.VectorType(ir.IntType(16), 32)
    signed = builder.sext(builder.bitcast(w, ir.VectorType(ir.IntType(8), 32)), words)
    spread = builder.bitcast(broadcast(builder, x, 4), _HALF)
    halves = []
    for at in (0, 16):
        some = ir.Constant(ir.VectorType(I32, 16), list(range(at, at + 16)))
        half = builder.shuffle_vector(signed, ir.Constant(words, ir.Undefined), some)
        halves.append(call_named(builder, "llvm.x86.avx2.pmadd.wd", ir.VectorType(I32, 8), half, spread))
    lanes = ir.Constant(ir.VectorType(I32, 16), list(range(16)))
    return builder.add(sums, builder.shuffle_vector(*halves, lanes))


_HALF = ir.VectorType(ir.IntType(16), 16)
VNNI_512 = DotKind("vnni-512", 16, 3, 8, _vnni(16), looks_up=True)
VNNI_256 = DotKind("vnni-256", 8, 1, 4, _vnni(8))
AVX2 = DotKind("avx2", 8, 1, 4, _words, partial=2, wide=True, grouped=True)
PLAIN = DotKind("plain", 16, 1, 4, _plain)
AMX = DotKind("amx", 16, 3, 32, VNNI_512.emit, panel=1, step=64, tiled=True)
NEON_I8MM = DotKind("neon-i8mm", 4, 1, 4, usdot, panel=1, step=16, neon=True, eights=True)
NEON_DOT = DotKind("neon-dot", 4, 1, 4, sdot, panel=1, step=16, neon=True)


def in_four_bits(kind: DotKind) -> DotKind:
    """The same instructions on four-bit weights; for look-ups, a block is 16 columns, so that reads are sequential."""
    return replace(
        kind,
        name=f"{kind.name}-int4",
        bits=4,
        in_bytes=kind,
        step=max(kind.step, GROUP),
        vectors=1 if kind.looks_up else kind.vectors,
        partial=1 if kind.grouped else kind.partial,
        wide=False,
    )


def unfolded_bytes(kind: DotKind, longest: int) -> int:
    """Bytes that a thread needs for an unpacked block of weights, of rows of up to so many numbers, and factors."""
    if kind.bits == 8 or kind.looks_up:
        return 64
    return kind.vectors * LANES * (longest + (longest // GROUP * 4 if kind.grouped else UNFOLDING * 4))


def kinds_here() -> tuple[DotKind, ...]:
    """The kinds that this process can run, fastest first, the plain one last; UsageError if a forced kind cannot."""
    found = kinds_of_cpu()
    wanted, names = forced_kind(), [kind.name for kind in found]
    if wanted is None:
        return found
    if wanted not in names:
        raise UsageError(f"FASTCODER_KIND: this CPU cannot run {wanted!r}", f"Unset it, or use: {', '.join(names)}.")
    return found[names.index(wanted) :]


def kinds_of_cpu() -> tuple[DotKind, ...]:
    """The kinds that this CPU can run, whichever is forced, fastest first, the plain one last."""
    return (*(_on_arm if is_arm() else _on_x86)(features_of_cpu()), PLAIN)


def _on_arm(has: Mapping[str, bool]) -> Iterator[DotKind]:
    if has.get("dotprod"):
        if has.get("i8mm"):
            yield NEON_I8MM
        yield NEON_DOT


def _on_x86(has: Mapping[str, bool]) -> Iterator[DotKind]:
    wide = has.get("avx512vnni", False)
    narrow = has.get("avxvnni", False) or (wide and has.get("avx512vl", False))
    tiles = wide and has.get("amx-int8", False) and has.get("amx-tile", False) and tiles_granted()
    kinds = ((AMX, tiles), (VNNI_512, wide), (VNNI_256, narrow), (AVX2, has.get("avx2", False)))
    return (kind for kind, can in kinds if can)


@cache
def tiles_granted() -> bool:
    """Ask Linux for the registers of AMX, which a process has to request once."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return int(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)) == 0
