"""Loading a model on the device and with the threads that the settings name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from fastcoder_lsp import engine as engines
from fastcoder_lsp.config import Settings, kernels_folder
from fastcoder_lsp.core import Engines, Progress
from fastcoder_lsp.model.files import ModelFiles


def load_engines(
    settings: Settings,
    files: ModelFiles,
    options: engines.EngineOptions,
    cache: Path,
    progress: Progress,
    enter: Callable[[str], None] = lambda _stage: None,
) -> Engines:
    """As `engine.load_engines`; the settings give the options `kind` and `threads`, and the folder for machine code."""
    kind = cast("engines.Kind", settings.engine)  # the table of settings allows no other
    options = replace(options, kind=kind, threads=settings.threads or None)
    return engines.load_engines(files, options, cache=cache, progress=progress, enter=enter, kernels=kernels_folder())
