"""Arrays that somebody else keeps alive: seen through their addresses, or lent to compiled code for one call.

Owns the one place where an address becomes an array, so that one compiled call can look into any number of parts, and
the one where the counting of references ends: numba counts them wherever a variable or a tuple holds an array,
atomically, which in small functions over many arrays takes ten times as long as their work. Who makes a row of
addresses keeps the arrays alive, and so does who calls, for as long as the call lasts.
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


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """`value` of the numba type `kind`, each array in it without the two fields by which references are counted."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
        return array._getvalue()  # noqa: SLF001 numba's own way to have it
    if isinstance(kind, types.BaseTuple):
        parts: list[Any] = list(kind.types)  # type: ignore[attr-defined]  # all tuples but the untyped base have them
        for place, part in enumerate(parts):
            value = builder.insert_value(
                value, _uncounted(context, builder, part, builder.extract_value(value, place)), place
            )
    return value


def _lend(_context: Any, value: Any = None) -> Any:
    """The array, or the tuple of arrays and tuples, with arrays whose references nobody counts.

    It must not outlive the call that it was lent to, so never return it.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _uncounted(context, builder, signature.args[0], arguments[0])

    return value(value), generate


borrowed: Any = intrinsic(_lend)
