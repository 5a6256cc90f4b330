"""How threads share the jobs of one phase: a counter that hands them out and a counter of those done.

Owns atomics and waiting. A phase ends when its jobs are done, not when its threads have come, so a thread that the
system holds back delays nobody unless it holds a job; and who does a job never changes its result.
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
"""int64 counters between two that threads write: two cache lines, so that prefetching them in pairs does no harm."""
SPINS = 4096
"""Looks at a counter before the core is offered to others."""

_give_way = nt.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", nt.int32())


@intrinsic
def fetch_add(_typing: Any, _address: Any, _step: Any) -> Any:
    """Add to the int64 at an address, as one indivisible act; gives what stood there."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return builder.atomic_rmw("add", pointer(builder, arguments[0], I64), arguments[1], "seq_cst")

    return nt.int64(nt.intp, nt.int64), generate


@intrinsic
def load_shared(_typing: Any, _address: Any) -> Any:
    """The int64 at an address, with all that was written before it."""

    def generate(_context: Any, builder: ir.IRBuilder, _signature: Any, arguments: Any) -> ir.Value:
        return builder.load_atomic(pointer(builder, arguments[0], I64), "acquire", 8)

    return nt.int64(nt.intp), generate


@intrinsic
def rest(_typing: Any) -> Any:
    """A moment in which an ARM core looks at nothing: some tens of cycles, in which it also needs less power.

    Its `yield` does nothing on most of them; a barrier for instructions is what spinning programs take.
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
    """Tell that `count` jobs of a phase are done."""
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
