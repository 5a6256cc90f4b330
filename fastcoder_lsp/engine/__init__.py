"""The model: weights, KV cache, and verification of draft trees, behind `core.Engine`.

It computes with the model's weights and never sees text, prompts or documents. Importing this package imports no torch;
`load` does, if the engine needs it.
"""

from collections.abc import Callable
from pathlib import Path

from fastcoder_lsp.config.table import EngineKind as Kind
from fastcoder_lsp.core import Engine, Engines, Progress
from fastcoder_lsp.engine.options import EngineOptions

__all__ = ["EngineOptions", "Kind", "load", "load_engines"]


def _nobody_records(_: str) -> None:
    pass


def load(
    files_folder: Path,
    *,
    name: str,
    source: str,
    digest: str,
    options: EngineOptions,
    cache: Path,
    progress: Progress,
    enter: Callable[[str], None] = _nobody_records,
    kernels: Path | None = None,
) -> Engine:
    """Load a model: seconds the first time, which converts its weights, a second or two after.

    Args:
        files_folder: config.json and safetensors weights in the ordinary transformers format.
        name: what the user calls the model.
        source: where its files came from, for the user.
        digest: hash of the weights; names the converted form.
        options: device, arithmetic, context, threads.
        cache: folder for converted weights.
        progress: receives the progress.
        enter: receives the stage that begins: "weights", "convert" (the first time), "kernels".
        kernels: folder for machine code; by default "kernels" in `cache`.

    Raises:
        ModelInvalidError: the files are damaged, or of a kind that cannot run.
        ResourceError: memory or disk does not suffice.
        UsageError: an option is out of its range, or its device is missing.
    """
    from fastcoder_lsp.engine.job import prepare  # noqa: PLC0415 numpy takes a while
    from fastcoder_lsp.engine.loader import load_engine  # noqa: PLC0415 torch and numba take seconds

    job = prepare(
        files_folder,
        name,
        source,
        digest,
        options=options,
        cache=cache,
        kernels=kernels or cache / "kernels",
        progress=progress,
        enter=enter,
    )
    return load_engine(job)


def load_engines(
    files_folder: Path,
    *,
    name: str,
    source: str,
    digest: str,
    options: EngineOptions,
    cache: Path,
    progress: Progress,
    enter: Callable[[str], None] = _nobody_records,
    kernels: Path | None = None,
) -> Engines:
    """Load a model with several KV caches, `options.kv_mb` in all; arguments and errors as of `load`."""
    from fastcoder_lsp.engine.slots import several  # noqa: PLC0415 numpy takes a while

    engine = load(
        files_folder,
        name=name,
        source=source,
        digest=digest,
        options=options,
        cache=cache,
        progress=progress,
        enter=enter,
        kernels=kernels,
    )
    return several(engine, options.kv_mb)
