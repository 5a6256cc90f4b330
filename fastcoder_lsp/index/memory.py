"""Arrays from addresses, in compiled code, so that one compiled call can read any number of parts.

The caller that passes a row of addresses must keep the arrays alive until the call returns.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


def _array_at(element: Any) -> Any:
    """An intrinsic that makes an array of `element` from an address; numba's `carray` takes far longer to compile."""

    def array_at(_context: Any, address: Any = None, size: Any = None) -> Any:  # noqa: ARG001 what numba calls it with
        kind = types.Array(element, 1, "C")

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            bytes_each = ir.Constant(ir.IntType(64), element.bitwidth // 8)
            data = builder.inttoptr(arguments[0], array.data.type)
            populate_array(array, data, [arguments[1]], [bytes_each], bytes_each, meminfo=None)  # type: ignore[no-untyped-call]
            return array._getvalue()  # noqa: SLF001 numba's own way to have it

        return kind(types.int64, types.int64), generate

    return intrinsic(array_at)


int32_array = _array_at(types.int32)
"""`int32_array(address, size)`: int32 values at an address (of integers), in compiled code."""
int64_array = _array_at(types.int64)
"""As `int32_array`, of int64 values."""
uint64_array = _array_at(types.uint64)
"""As `int32_array`, of uint64 values."""
