"""The decorators that compile functions with numba, and the progress of compiling.

The decorators switch off features that our functions do not need and that take most of the compile time: reference
counts of arrays (callers keep their arrays alive), unused entry points for Python and C, and checks for division by
zero. Reference counts also cost at each call: an atomic increment for each array in a variable or tuple. No option
changes a result: floating-point sums keep their order.

At each call numba determines the types of the arguments to find their code. For tuples of tuples of arrays that takes
ten microseconds, longer than the functions that a drafter calls at each step. `FixedTypes` determines them once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numba.core import event

from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.kernels.cache import KernelCache
from fastcoder_lsp.kernels.linked import LinkedCompiler
from fastcoder_lsp.kernels.processor import tell_llvm

NONE = np.int64(0)
"""A typed zero. For a plain 0 numba assumes a constant, and compiles the function that receives it a second time."""
Tell = Callable[[float, str], None]


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls, and that creates no arrays."""
    return _closed(_njit(**_LINKED, **_options(counts=False))(function))


def inlined(function: Callable[..., Any]) -> Any:
    """As `inner`, and always inlined: for small functions, and those with many arguments."""
    return _closed(_njit(**_LINKED, forceinline=True, **_options(counts=False))(function))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and that neither creates nor returns arrays. It releases the GIL.

    The configured folder caches its machine code. Compiled code must not call it: numba would compile it again.
    """
    return _kept(unkept(function), function)


def kernel_with_arrays(function: Callable[..., Any]) -> Any:
    """As `kernel`, for a function that creates arrays: it takes several times as long to compile."""
    return _kept(_njit(nogil=True, **_options(counts=True))(function), function)


def inner_with_arrays(function: Callable[..., Any]) -> Any:
    """As `inner`, for a function that creates arrays, or whose caller does."""
    return _closed(_njit(**_LINKED, **_options(counts=True))(function))


def unkept(function: Callable[..., Any]) -> Any:
    """As `kernel`, without a cache; `KernelCache.attach` adds one."""
    return _njit(nogil=True, **_options(counts=False))(function)


def tagged(tag: str, *, called: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Compile a function that closes over constants: `tag` identifies them; `called`: from Python.

    Code from the cache and newly compiled code meet in one process, and are linked by name: without the tag, the kernel
    of one model would call the inner functions of another.
    """

    def compile_lazily(function: Callable[..., None]) -> Any:
        function.__qualname__ = f"{function.__qualname__}_{tag}"
        return (unkept if called else inner)(function)

    return compile_lazily


tell_llvm()  # numba creates its compiler with the first function
_njit: Any = numba.njit
"""Untyped: numba's stubs lack some of its options."""
_LINKED: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": LinkedCompiler}


def _options(*, counts: bool) -> dict[str, Any]:
    return {"error_model": "numpy", "_nrt": counts, "no_cfunc_wrapper": True}


def _closed(dispatcher: Any) -> Any:
    """Make a call from Python raise `TypeError`: there is no entry point, and and numba would crash."""

    def refuse(*_: object, **__: object) -> None:
        raise TypeError(f"{dispatcher.__name__} is for compiled code alone")

    dispatcher._compile_for_args = refuse  # noqa: SLF001 numba calls it for unknown types
    dispatcher._insert = lambda *_, **__: None  # noqa: SLF001 so that all types stay unknown
    return dispatcher


def _kept(dispatcher: Any, function: Callable[..., Any]) -> Any:
    KernelCache.attach(dispatcher, kernels_folder, f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}")
    return dispatcher


class Compiled(event.Listener):
    """Counts functions that are compiled, without those loaded from disk."""

    def __init__(self, tell: Tell, what: str, expected: int) -> None:
        self._tell, self._what, self._expected = tell, what, expected
        self.count = 0

    def on_start(self, event: Any) -> None:  # noqa: ARG002 the interface
        """A function begins to compile."""
        self._say()

    def on_end(self, event: Any) -> None:  # noqa: ARG002 the interface
        """A function has been compiled."""
        self.count += 1
        self._say()

    def _say(self) -> None:
        self._tell(min(0.99, self.count / self._expected), self._what)


@contextmanager
def compiling(tell: Tell, what: str, expected: int) -> Iterator[Compiled]:
    """Report progress while the block compiles functions.

    Args:
        tell: receives the share done, and `what`.
        what: a label for the user.
        expected: count of functions to compile with an empty cache, inner ones included.
    """
    listener = Compiled(tell, what, expected)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield listener
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


class FixedTypes:
    """A decorator above `kernels.kernel`: all calls run the code for the types of the first call's arguments.

    Callers must pass the same types each time: the same tuples, arrays of the same dtype, dimensions and layout.
    Nothing checks them: other arguments are misread. Convert foreign arrays first.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self._code: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:
        """Call the function with positional arguments."""
        if self._code is None:
            self._code = self._function.compile(self.types(*arguments))
        return self._code(*arguments)

    def kept(self) -> bool:
        """Whether its machine code is on disk."""
        return bool(self._function._cache.holds())  # noqa: SLF001 numba has no public name for it

    def types(self, *arguments: object) -> tuple[Any, ...]:
        """The numba types of arguments; slow, for tests."""
        return tuple(map(self._function.typeof_pyval, arguments))
