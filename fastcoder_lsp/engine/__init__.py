"""The model: weights, KV cache, and verification of draft trees, behind `core.Engine`.

It never sees text, prompts or documents. Importing this package imports no torch; `load` does, if the engine needs it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.config.table import ENGINES
from fastcoder_lsp.config.table import EngineKind as Kind
from fastcoder_lsp.core import Engine, Engines, Progress
from fastcoder_lsp.errors import UsageError

if TYPE_CHECKING:
    from fastcoder_lsp.model.files import ModelFiles

__all__ = ["EngineOptions", "Kind", "load", "load_engines"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """A caller's choices about an engine.

    `kind`: device and arithmetic, "auto" takes the fastest available. `context`: tokens that the KV cache holds. `bits`
    of a weight, for "auto"; None for its own choice. `threads`: None for a number that suits the cores. `kv_mb`: of all
    KV caches together (`load_engines`). Only the graph engine has `gpu_memory_percent`, its share of the GPU's memory,
    and `strict`: one verify width and float64 attention, so that drafts change no token.
    """

    kind: Kind = "auto"
    context: int = 4096
    threads: int | None = None
    kv_mb: int = 256
    gpu_memory_percent: int = 90
    strict: bool = False
    bits: int | None = None

    def check(self) -> None:
        """Raises UsageError if a value is out of its range."""
        if self.kind not in ENGINES:
            raise UsageError(f"there is no engine {self.kind!r}", f"Choose one of: {', '.join(ENGINES)}.")
        if self.context < 16:
            raise UsageError(
                f"a context of {self.context} tokens is too small", "Use 16 or more; 2048 or more is better."
            )
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"the number of threads is {self.threads}", "Use 1 or more, or leave it out.")
        if not 1 <= self.gpu_memory_percent <= 100:
            raise UsageError(f"gpu.memory_percent is {self.gpu_memory_percent}", "Use 1 to 100.")


def _unrecorded(_stage: str) -> None:
    pass


def load(
    files: "ModelFiles",
    options: EngineOptions,
    *,
    cache: Path,
    progress: Progress,
    enter: Callable[[str], None] = _unrecorded,
    kernels: Path | None = None,
) -> Engine:
    """Load a model: seconds the first time, which converts its weights, a second or two after.

    `enter` receives the stage that begins: "weights", "convert" (the first time), "kernels". `kernels`: folder for
    machine code; by default "kernels" in `cache`, the folder for converted weights.

    Raises:
        ModelInvalidError: the files are damaged, or of a kind that cannot run.
        ResourceError: memory or disk does not suffice.
        UsageError: an option is out of its range, or its device is missing.
    """
    from fastcoder_lsp.engine.job import LoadJob  # noqa: PLC0415 numpy takes a while
    from fastcoder_lsp.engine.loader import load_engine  # noqa: PLC0415 torch and numba take seconds

    return load_engine(LoadJob.of(files, options, cache, kernels or cache / "kernels", progress, enter))


def load_engines(
    files: "ModelFiles",
    options: EngineOptions,
    *,
    cache: Path,
    progress: Progress,
    enter: Callable[[str], None] = _unrecorded,
    kernels: Path | None = None,
) -> Engines:
    """Load a model with several KV caches, `options.kv_mb` in all; arguments and errors as of `load`."""
    from fastcoder_lsp.engine.slots import several  # noqa: PLC0415 numpy takes a while

    engine = load(files, options, cache=cache, progress=progress, enter=enter, kernels=kernels)
    return several(engine, options.kv_mb)
