"""AMX's tiles in numpy, put in the place of the instructions: what is generated for them runs on any CPU, only slower.

Each instruction becomes a call of a function here, which does what Intel's manual says of it (Software Developer's
Manual, volume 2: LDTILECFG, TILELOADD, TDPBUSD, TILESTORED, TILERELEASE, TILEZERO).
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from fastcoder_lsp.engine.int8 import amx

TILES, SIDE, LINE = 8, 16, 64
I64 = ir.IntType(64)


class Tiles(threading.local):
    """Of each thread: its tiles, and whether it may use them."""

    def __init__(self) -> None:
        self.configured = False
        self.bytes = np.zeros((TILES, SIDE, LINE), np.uint8)

    def ldtilecfg(self, place: int) -> None:
        sizes = memory(place, 64)
        told = sizes[0] == 1 and (sizes[16:32:2] == LINE).all() and (sizes[48:56] == SIDE).all()
        self.need(bool(told) and not sizes[17:32:2].any() and not sizes[56:].any(), "sizes")
        self.configured = True

    def tilerelease(self) -> None:
        self.need(self.configured, "released without sizes")
        self.configured = False
        self.bytes[:] = 0xAA

    def tilezero(self, tile: int) -> None:
        self.need(self.configured, "no sizes")
        self.bytes[tile] = 0

    def tileloadd64(self, tile: int, place: int, stride: int) -> None:
        self.need(self.configured, "no sizes")
        for line in range(SIDE):
            self.bytes[tile, line] = memory(place + line * stride, LINE)

    def tilestored64(self, tile: int, place: int, stride: int) -> None:
        self.need(self.configured, "no sizes")
        for line in range(SIDE):
            memory(place + line * stride, LINE)[:] = self.bytes[tile, line]

    def tdpbusd(self, sums: int, left: int, right: int) -> None:
        self.need(self.configured and len({sums, left, right}) == 3, "tiles that are the same")
        unsigned = self.bytes[left].reshape(SIDE, 1, LINE // 4, 4).astype(np.int64)
        signed = self.bytes[right].view(np.int8).reshape(LINE // 4, SIDE, 4).transpose(1, 0, 2).astype(np.int64)
        more = (unsigned * signed[None]).sum(axis=(2, 3))
        self.bytes[sums].view(np.int32)[:] += more.astype(np.int32)

    def need(self, fine: bool, what: str) -> None:
        if not fine:
            FAULTS.append(what)


def memory(place: int, size: int) -> npt.NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place))


FAULTS: list[str] = []
DONE: dict[str, int] = {}
TILES_OF_THREADS = Tiles()


def function_at(name: str, count: int) -> Any:
    """What machine code calls in the place of the instruction `name`."""

    def call(*values: int) -> None:
        DONE[name] = DONE.get(name, 0) + 1
        getattr(TILES_OF_THREADS, name)(*values)

    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(call)


COUNTS = {"ldtilecfg": 1, "tilerelease": 0, "tilezero": 1, "tileloadd64": 3, "tilestored64": 3, "tdpbusd": 3}
CALLS = {name: function_at(name, count) for name, count in COUNTS.items()}
"""They live as long as the process: compiled functions are linked by name, to earlier ones as well."""


@contextmanager
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """What is compiled inside uses the tiles here; name of an instruction → how often it was run.

    Such code must not be kept, nor have the name of other code: it names places in this process.
    """

    def emit(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> None:
        kind = ir.FunctionType(ir.VoidType(), [I64] * COUNTS[name])
        place = ctypes.cast(CALLS[name], ctypes.c_void_p).value
        function = builder.inttoptr(ir.Constant(I64, place), kind.as_pointer())
        builder.call(function, [whole(builder, argument) for argument in arguments])

    FAULTS.clear()
    DONE.clear()
    monkeypatch.setattr(amx, "_emit", emit)
    yield DONE
    assert FAULTS == []


def whole(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    if isinstance(value.type, ir.PointerType):
        return builder.ptrtoint(value, I64)
    return value if value.type == I64 else builder.zext(value, I64)
