"""Machine code on disk, so that only the first start of a version on a machine compiles.

Owns the files: `KEPT/VERSION-DIGEST/NAME-TYPES.kernel`. The digest covers everything else that decides the machine
code: our sources, numba's and Python's versions, the CPU. A file that is damaged is made anew; one that somebody else
could have written is never read (`folder`), for what is in it is run.
"""

import hashlib
import os
import pickle
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import compiler, serialize
from numba.core.caching import _Cache
from numba.core.registry import cpu_target

import fastcoder_lsp
from fastcoder_lsp.kernels import files
from fastcoder_lsp.kernels.folder import trusted_folder

SUFFIX = ".kernel"
_COMPILED_PACKAGES = ("kernels", "index", "draft", "engine/int4", "engine/int8", "engine/static")
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
"""What reading machine code raises where numba or a package is not what it was when that was written."""


class KernelCache(_Cache):
    """numba's cache interface over one folder. Where there is none, kernels are compiled each time.

    Args:
        wanted: the folder to keep code in, asked for when it is needed; see `folder` for the one that is taken.
        name: tells the function from all others.
    """

    def __init__(self, wanted: Callable[[], Path], name: str) -> None:
        self._wanted, self._name = wanted, name
        self._compiling: files.Lock | None = None

    @classmethod
    def attach(cls, dispatcher: Any, wanted: Callable[[], Path], name: str) -> "KernelCache":
        """Make a compiled function load from and save to a folder."""
        kept = cls(wanted, name)
        dispatcher._cache = kept  # noqa: SLF001 numba's own way to set it is closed to other caches
        return kept

    @property
    def cache_path(self) -> str:
        """The folder; numba shows it."""
        return str(trusted_folder(self._wanted()).folder or "")

    def holds(self) -> bool:
        """Whether code of this function is there, for whatever types."""
        folder = trusted_folder(self._wanted()).folder
        if folder is None:
            return False
        target: Any = cpu_target.target_context
        return any(version_folder(folder, target.codegen()).glob(f"{self._name}-*{SUFFIX}"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for these argument types; None where it has to be compiled, which is then ours to do.

        Where another process compiles it, that is waited for.
        """
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        if path is None:
            return None
        found = _read(path, target_context)
        if found is None:
            self._compiling = files.Lock.taken(path)
            found = _read(path, target_context)
            if found is not None:
                self._settle()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function."""
        path = self._path(sig, data.codegen)
        if path is not None:
            dumps: Any = serialize.dumps
            files.write(path, dumps(data._reduce()))  # noqa: SLF001 what numba's own caches do
        self._settle()

    def enable(self) -> None:
        """Nothing: it is always enabled."""

    def disable(self) -> None:
        """Nothing: it is always enabled."""

    def flush(self) -> None:
        """Nothing is held back."""

    def _settle(self) -> None:
        if self._compiling is not None:
            self._compiling.release()
            self._compiling = None

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        folder = trusted_folder(self._wanted()).folder
        if folder is None:
            return None
        types = hashlib.sha256(repr(sig).encode()).hexdigest()[:16]
        return version_folder(folder, codegen) / f"{self._name}-{types}{SUFFIX}"


def _read(path: Path, target_context: Any) -> Any:
    content = files.read(path)
    if content is None:
        return None
    try:
        result: Any = compiler.CompileResult
        return result._rebuild(target_context, *pickle.loads(content))  # noqa: SLF001, S301 what numba's own caches do; of a private folder
    except _UNREADABLE:
        files.drop(path)
        return None


def version_folder(kept: Path, codegen: Any) -> Path:
    """The folder of this version's machine code for this CPU."""
    return kept / f"{fastcoder_lsp.__version__}-{_facts(repr(codegen.magic_tuple()))}"


def current_version() -> str:
    """Names everything that decides the machine code of this process."""
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
    """Our sources that decide machine code: those that speak of numba or of LLVM, and these here."""
    package = Path(fastcoder_lsp.__file__).parent
    found = [path for name in _COMPILED_PACKAGES for path in sorted((package / name).rglob("*.py"))]
    marks = (b"numba", b"llvmlite", b"fastcoder_lsp.kernels")
    return [path for path in found if any(mark in text for text in (path.read_bytes(),) for mark in marks)]
