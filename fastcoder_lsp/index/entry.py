"""Calling a compiled function that always gets arguments of the same types.

At every call numba looks at what it is given, to find the code for its types. For tuples of tuples of arrays that takes
ten microseconds: more than the work of the functions that a drafter calls at every step.
"""

from collections.abc import Callable
from typing import Any


class FixedTypes:
    """A decorator above `kernels.kernel`: the first call's arguments decide which code all calls run.

    The callers answer for the types: the same tuples, arrays of the same element type, dimensions and layout. Nothing
    looks at them again, so anything else is read as what it is not. Arrays from elsewhere are brought into form first.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self._code: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:
        """Call the function, by place only."""
        if self._code is None:
            self._code = self._function.compile(self.types(*arguments))
        return self._code(*arguments)

    def kept(self) -> bool:
        """Whether machine code of it is on the disk."""
        return bool(self._function._cache.holds())  # noqa: SLF001 a dispatcher has no other place for it

    def types(self, *arguments: object) -> tuple[Any, ...]:
        """What numba takes arguments for; for tests, it takes long."""
        return tuple(map(self._function.typeof_pyval, arguments))
