"""The model: weights, KV cache, and verification of draft trees, behind `core.Engine`.

It never sees text, prompts or documents. Importing this package imports no torch; `load` does, if the engine needs it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fastcoder_lsp.config.table import EngineKind as Kind
from fastcoder_lsp.core import Engine, Engines, Progress
from fastcoder_lsp.engine.options import EngineOptions

if TYPE_CHECKING:
    from fastcoder_lsp.model.files import ModelFiles

__all__ = ["EngineOptions", "Kind", "load", "load_engines"]


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
