"""The floor below a step: its matrix products and nothing else."""

from collections.abc import Callable

from fastcoder_lsp.core import Engine
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.tree_engine import TreeEngine


def products_only(engine: Engine) -> Callable[[int], None] | None:
    """What runs the matrix products of a step of so many rows; None for an engine that cannot tell them apart."""
    if isinstance(engine, TreeEngine) and isinstance(engine.backend, Int8Backend):
        return engine.backend.run_products
    return None
