"""Choosing and building the engine for a model and a machine: the only place where kinds of engines are compared."""

from pathlib import Path

import psutil
import torch

from fastcoder_lsp.core import EngineInfo, Progress
from fastcoder_lsp.engine.architecture import Shape, fast_shape, read_config
from fastcoder_lsp.engine.backend import Backend
from fastcoder_lsp.engine.eager import EagerBackend
from fastcoder_lsp.engine.options import EngineOptions
from fastcoder_lsp.engine.tree_engine import MAX_NODES, TreeEngine
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import ModelInvalidError, UsageError


def load_engine(
    folder: Path, name: str, source: str, digest: str, options: EngineOptions, cache: Path, progress: Progress
) -> TreeEngine:
    """See `fastcoder_lsp.engine.load`."""
    options.check()
    config = read_config(folder)
    shape = fast_shape(config)
    if shape is None:
        raise ModelInvalidError(f"{config['model_type']} is not supported yet")
    kind = "cpu-fp32" if options.kind in ("auto", "cpu-int8") else options.kind
    context = min(options.context, shape.positions)
    with open_weights(folder) as weights:
        backend: Backend = EagerBackend(kind, shape, weights, context + MAX_NODES, torch.float32, "cpu", progress)
    info = EngineInfo(
        name=kind,
        model=name,
        source=source,
        device="cpu",
        vocabulary=shape.vocabulary,
        context=context,
        max_nodes=MAX_NODES,
    )
    return TreeEngine(backend, info)
