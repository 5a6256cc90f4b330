"""Compiled kernels on disk, so that only the first start on a machine compiles.

Owns the files; what they are named by covers everything that decides the machine code: our sources, numba's version,
the CPU, and the sizes that were built in. numba's own cache cannot name functions made from generated code.
"""

import hashlib
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import compiler, serialize
from numba.core.caching import _Cache


class KernelCache(_Cache):
    """numba's cache interface over one folder. Where it cannot be written, kernels are compiled each time."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    @classmethod
    def attach(cls, dispatcher: Any, folder: Path, name: str) -> "KernelCache":
        """Make a compiled function load from and save to `folder`; `name` tells it from all others."""
        cache = cls(folder, name)
        dispatcher._cache = cache  # noqa: SLF001 numba's own way to set it is closed to other caches
        return cache

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def holds(self, prefix: str) -> bool:
        """Whether something that was saved begins with this name."""
        return any(self._folder.glob(f"{prefix}-*.kernel"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for these argument types, or None."""
        target_context.refresh()
        try:
            payload = pickle.loads(self._path(sig, target_context.codegen()).read_bytes())  # noqa: S301 our own folder
        except (OSError, pickle.UnpicklingError, EOFError):
            return None
        result: Any = compiler.CompileResult
        return result._rebuild(target_context, *payload)  # noqa: SLF001 what numba's own caches do

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function."""
        path = self._path(sig, data.codegen)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            dumps: Any = serialize.dumps
            partial.write_bytes(dumps(data._reduce()))  # noqa: SLF001 likewise
            partial.replace(path)
        except OSError:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def enable(self) -> None:
        """Nothing: it is always enabled."""

    def disable(self) -> None:
        """Nothing: it is always enabled."""

    def flush(self) -> None:
        """Nothing is held back."""

    def _path(self, sig: Any, codegen: Any) -> Path:
        facts = repr((self._name, sig, codegen.magic_tuple(), numba.__version__, llvmlite.__version__))
        digest = hashlib.sha256(facts.encode() + sources_digest())
        return self._folder / f"{self._name}-{digest.hexdigest()[:32]}.kernel"


def compiled(tag: str, **options: Any) -> Callable[[Callable[..., None]], Any]:
    """numba's `njit` for a function that is made several times with other constants: `tag` tells them apart.

    Code from the cache and code compiled now meet in one process, and are linked by name: without the tag, the kernel
    of one model would call the inner functions of another.
    """

    def compile_lazily(function: Callable[..., None]) -> Any:
        function.__qualname__ = f"{function.__qualname__}_{tag}"
        return numba.njit(error_model="numpy", **options)(function)

    return compile_lazily


def sources_digest() -> bytes:
    """A hash of the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
