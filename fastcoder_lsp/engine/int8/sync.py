"""Threads share the jobs of a phase by two counters: one hands them out, the other counts those done.

Uses atomics. A phase ends when its jobs are done, not when its threads arrive, so a thread that the system suspends
delays the others only if it holds a job; results do not depend on the thread that does a job.
"""

import sys
from typing import Any

import numba.core.types as nt
import numpy as np
import numpy.typing as npt
from llvmlite import ir

from fastcoder_lsp.engine.int8.simd import I32, I64, intrinsic, pointer
from fastcoder_lsp.kernels import inlined
from fastcoder_lsp.kernels.processor import is_arm

Counters = npt.NDArray[np.int64]
STRIDE = 16
"""int64 places between two counters: two cache lines, so that prefetching them in pairs does no harm."""
SPINS = 4096
"""Polls of a counter before the thread yields its core."""

_give_way = nt.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", nt.int32())


@intrinsic
def fetch_add(_typing: Any, _address: Any, _step: Any) -> Any:
    """Atomically add to the int64 at an address; returns the old value."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return builder.atomic_rmw("add", pointer(builder, arguments[0], I64), arguments[1], "seq_cst")

    return nt.int64(nt.intp, nt.int64), generate


@intrinsic
def load_shared(_typing: Any, _address: Any) -> Any:
    """The int64 at an address, with acquire semantics."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return builder.load_atomic(pointer(builder, arguments[0], I64), "acquire", 8)

    return nt.int64(nt.intp), generate


@intrinsic
def rest(_typing: Any) -> Any:
    """Pause an ARM core for some tens of cycles, in which it also needs less power.

    `yield` does nothing on most of them; spin loops use an instruction barrier.
    """

    def generate(context: Any, builder: ir.IRBuilder, _signature: Any, _arguments: Any) -> ir.Value:
        if is_arm(builder.module.triple.partition("-")[0]):
            emit_rest(builder)
        return context.get_dummy_value()

    return nt.void(), generate


def emit_rest(builder: ir.IRBuilder) -> None:
    """ARM's `isb`."""
    name = "llvm.aarch64.isb"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [I32]), name)
    builder.call(function, [ir.Constant(I32, 15)])


@inlined
def take_job(counters: Counters, phase: int) -> int:
    """The next job of a phase; counts on beyond the last one."""
    job: int = fetch_add(counters.ctypes.data + phase * 2 * STRIDE * 8, 1)
    return job


@inlined
def finish_jobs(counters: Counters, phase: int, count: int) -> None:
    """Record that `count` jobs of a phase are done."""
    fetch_add(counters.ctypes.data + (phase * 2 + 1) * STRIDE * 8, count)


@inlined
def await_jobs(counters: Counters, phase: int, count: int) -> None:
    """Wait until all `count` jobs of a phase are done."""
    address = counters.ctypes.data + (phase * 2 + 1) * STRIDE * 8
    spins = 0
    while load_shared(address) < count:
        rest()
        spins += 1
        if spins > SPINS:
            _give_way()
