"""Arrays seen through their addresses, so that one compiled call can look into any number of parts.

Owns the one place where an address becomes an array. Whoever makes a row of addresses keeps the arrays alive.
"""

from typing import Any

import numba
import numpy as np
from numba import carray  # type: ignore[attr-defined]
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def _pointer(_context: Any, address: Any = None) -> Any:
    """An int64 address as a void pointer, for `carray`."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@numba.njit(inline="always")
def int32_array(address: Any, size: Any) -> Any:
    """`size` int32 values at `address`."""
    return carray(_pointer(address), (size,), np.int32)


@numba.njit(inline="always")
def int64_array(address: Any, size: Any) -> Any:
    """`size` int64 values at `address`."""
    return carray(_pointer(address), (size,), np.int64)


@numba.njit(inline="always")
def uint64_array(address: Any, size: Any) -> Any:
    """`size` uint64 values at `address`."""
    return carray(_pointer(address), (size,), np.uint64)
