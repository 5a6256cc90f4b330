"""What numba is told about every function of ours, and how far it is with compiling them.

Most of the compiling would go into what ours never need: counting references to arrays (they are lent for a call, and
the callers keep them), entrances for Python and C beside the one that is used, checks for divisors of zero. Counting
would cost at every call, too: atomically, for every array that a variable or a tuple holds. Nothing of it changes a
result; floating-point sums stay in their order.

At every call numba looks at the arguments to find the code for their types. For tuples of tuples of arrays that takes
ten microseconds: more than the work of the functions that a drafter calls at every step. `FixedTypes` looks once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numba.core import event

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.kernels.cache import KernelCache
from fastcoder_lsp.kernels.processor import tell_llvm

NONE = np.int64(0)
"""A zero of a type: numba takes a plain one for a constant, and compiles what it is given to once more."""
Tell = Callable[[float, str], None]


def inner(function: Callable[..., Any]) -> Any:
    """A function that compiled code alone calls. It makes no arrays."""
    return _closed(_njit(no_cpython_wrapper=True, **_options(counts=False))(function))


def inlined(function: Callable[..., Any]) -> Any:
    """As `inner`, and always part of its callers: for what is small, or takes much."""
    return _closed(_njit(no_cpython_wrapper=True, forceinline=True, **_options(counts=False))(function))


def kernel(function: Callable[..., Any]) -> Any:
    """A function that Python calls, without the interpreter's lock. It makes no arrays, and returns none.

    Machine code is kept in the folder that the configuration names. An entry is never called by compiled code: that
    would compile it once more with its caller.
    """
    return _kept(unkept(function), function)


def kernel_with_arrays(function: Callable[..., Any]) -> Any:
    """As `kernel`, for one that makes arrays of its own: it takes several times as long to compile."""
    return _kept(_njit(nogil=True, **_options(counts=True))(function), function)


def inner_with_arrays(function: Callable[..., Any]) -> Any:
    """As `inner`, for one that makes arrays of its own, or is called by one that does."""
    return _closed(_njit(no_cpython_wrapper=True, **_options(counts=True))(function))


def unkept(function: Callable[..., Any]) -> Any:
    """As `kernel`; who makes it says by `KernelCache.attach` where its machine code is kept."""
    return _njit(nogil=True, **_options(counts=False))(function)


tell_llvm()  # numba makes its compiler with the first function
_njit: Any = numba.njit
"""Its types don't know all of its options."""


def _options(*, counts: bool) -> dict[str, Any]:
    return {"error_model": "numpy", "_nrt": counts, "no_cfunc_wrapper": True}


def _closed(dispatcher: Any) -> Any:
    """See that a call from Python is an error: there is no entrance, and numba would jump to nowhere."""

    def refuse(*_: object, **__: object) -> None:
        raise TypeError(f"{dispatcher.__name__} is for compiled code alone")

    dispatcher._compile_for_args = refuse  # noqa: SLF001 what numba calls where it knows no code for the types,
    dispatcher._insert = lambda *_, **__: None  # noqa: SLF001 and it is to know none
    return dispatcher


def _kept(dispatcher: Any, function: Callable[..., Any]) -> Any:
    KernelCache.attach(dispatcher, kernels_folder, f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}")
    return dispatcher


class Compiled(event.Listener):
    """Counts functions that are compiled; what is loaded from the disk is none of them."""

    def __init__(self, tell: Tell, what: str, expected: int) -> None:
        self._tell, self._what, self._expected = tell, what, expected
        self.count = 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002 the interface
        """numba tells of an event that begins."""
        self._say()

    def on_end(self, event: Any) -> None:  # noqa: ARG002 the interface
        """numba tells of an event that ends."""
        self.count += 1
        self._say()

    def _say(self) -> None:
        self._tell(min(0.99, self.count / self._expected), self._what)


@contextmanager
def compiling(tell: Tell, what: str, expected: int) -> Iterator[Compiled]:
    """Tell how far it is while the block compiles; nothing where it has nothing to compile.

    Args:
        tell: told the share done, and `what`.
        what: is being made.
        expected: functions, inner ones included, that an empty cache has compiled.
    """
    listener = Compiled(tell, what, expected)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield listener
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


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
