"""Calling a compiled function that always gets arguments of the same types.

At every call numba looks at what it is given, to find the code for its types. For tuples of tuples of arrays that takes
ten microseconds: more than the work of the functions that a drafter calls at every step.
"""

import pickle
from collections.abc import Callable
from typing import Any

_STALE = (AttributeError, ImportError, EOFError, pickle.UnpicklingError)
"""What reading numba's cache raises where it names types of another version of this program."""


class FixedTypes:
    """A decorator above `numba.njit`: the first call's arguments decide which code all calls run.

    The callers answer for the types: the same tuples, arrays of the same element type, dimensions and layout. Nothing
    looks at them again, so anything else is read as what it is not. Arrays from elsewhere are brought into form first.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self._code: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:
        """Call the function, by place only."""
        if self._code is None:
            self._code = self._compile(self.types(*arguments))
        return self._code(*arguments)

    def types(self, *arguments: object) -> tuple[Any, ...]:
        """What numba takes arguments for; for tests, it takes long."""
        return tuple(map(self._function.typeof_pyval, arguments))

    def _compile(self, types: tuple[Any, ...]) -> Callable[..., Any]:
        code: Callable[..., Any]
        try:
            code = self._function.compile(types)
        except _STALE:
            # An upgrade replaces our files and leaves numba's beside them; it reads the types before it looks at dates.
            self._function._cache.flush()  # noqa: SLF001 numba has no other way to empty a cache
            code = self._function.compile(types)
        return code
