"""Functions that are compiled several times with different constants."""

from collections.abc import Callable
from typing import Any

from fastcoder_lsp.kernels import inner, unkept


def tagged(tag: str, *, called: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Compile a function that closes over constants: `tag` identifies them; `called`: from Python.

    Code from the cache and newly compiled code meet in one process, and are linked by name: without the tag, the kernel
    of one model would call the inner functions of another.
    """

    def compile_lazily(function: Callable[..., None]) -> Any:
        function.__qualname__ = f"{function.__qualname__}_{tag}"
        return (unkept if called else inner)(function)

    return compile_lazily
