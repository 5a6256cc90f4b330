"""A cache of machine code on disk, so that a version compiles only at its first start on a machine.

The files are `FOLDER/VERSION-DIGEST/NAME-TYPES.kernel`. The digest covers everything else that decides the machine
code: our sources, the versions of numba and Python, the CPU. Files are executed, so `folder` rejects those that another
user could have written.
"""

import hashlib
import os
import pickle
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from filelock import BaseFileLock
from numba.core import compiler, serialize
from numba.core.caching import _Cache
from numba.core.registry import cpu_target

import fastcoder_lsp
from fastcoder_lsp.kernels.folder import drop, read, take_lock, trusted_folder, write

SUFFIX = ".kernel"
_COMPILED_PACKAGES = ("kernels", "index", "draft", "papers", "engine/int4", "engine/int8", "torch_engines/graphs")
_UNREADABLE = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
)
"""Errors of unpickling machine code that another version of numba or of a package wrote."""


class KernelCache(_Cache):
    """numba's cache of one function, over a trusted folder; without one, the function is compiled at each start.

    Args:
        wanted: returns the configured folder; called when the folder is needed.
        name: unique for each function.
    """

    def __init__(self, wanted: Callable[[], Path], name: str) -> None:
        self._wanted, self._name = wanted, name
        self._compiling: BaseFileLock | None = None

    @classmethod
    def attach(cls, dispatcher: Any, wanted: Callable[[], Path], name: str) -> "KernelCache":
        """Give a compiled function its cache."""
        kept = cls(wanted, name)
        dispatcher._cache = kept  # noqa: SLF001 numba's `enable_caching` accepts only numba's caches
        return kept

    @property
    def cache_path(self) -> str:
        """The folder, which numba displays."""
        return str(trusted_folder(self._wanted()).folder or "")

    def holds(self) -> bool:
        """Whether the folder has code of this function, for any types."""
        folder = trusted_folder(self._wanted()).folder
        if folder is None:
            return False
        target: Any = cpu_target.target_context
        return any(version_folder(folder, target.codegen()).glob(f"{self._name}-*{SUFFIX}"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for these argument types; None if this process must compile it.

        Waits for another process that compiles it.
        """
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        if path is None:
            return None
        found = _read(path, target_context)
        if found is None:
            self._compiling = take_lock(path)
            found = _read(path, target_context)
            if found is not None:
                self._settle()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function."""
        path = self._path(sig, data.codegen)
        if path is not None:
            dumps: Any = serialize.dumps
            write(path, dumps(data._reduce()))  # noqa: SLF001 as numba's own caches do
        self._settle()

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def flush(self) -> None:
        """Do nothing: `save_overload` writes at once."""

    def _settle(self) -> None:
        if self._compiling is not None:
            with suppress(OSError):
                self._compiling.release()
            self._compiling = None

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        folder = trusted_folder(self._wanted()).folder
        if folder is None:
            return None
        types = hashlib.sha256(repr(sig).encode()).hexdigest()[:16]
        return version_folder(folder, codegen) / f"{self._name}-{types}{SUFFIX}"


def _read(path: Path, target_context: Any) -> Any:
    content = read(path)
    if content is None:
        return None
    try:
        result: Any = compiler.CompileResult
        return result._rebuild(target_context, *pickle.loads(content))  # noqa: SLF001, S301 as numba's own caches do; the folder is private
    except _UNREADABLE:
        drop(path)
        return None


def version_folder(kept: Path, codegen: Any) -> Path:
    """The folder of this version's machine code for this CPU."""
    return kept / f"{fastcoder_lsp.__version__}-{_facts(repr(codegen.magic_tuple()))}"


def current_version() -> str:
    """A name of everything that decides this process's machine code."""
    target: Any = cpu_target.target_context
    return version_folder(Path(), target.codegen()).name


@cache
def _facts(processor: str) -> str:
    versions = (processor, numba.__version__, llvmlite.__version__, platform.python_version(), os.name)
    digest = hashlib.sha256(repr(versions).encode())
    for path in compiled_sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def compiled_sources() -> list[Path]:
    """Our sources that decide machine code: those that mention numba, LLVM or this package."""
    package = Path(fastcoder_lsp.__file__).parent
    found = [path for name in _COMPILED_PACKAGES for path in sorted((package / name).rglob("*.py"))]
    marks = (b"numba", b"llvmlite", b"fastcoder_lsp.kernels")
    return [path for path in found if any(mark in text for text in (path.read_bytes(),) for mark in marks)]
