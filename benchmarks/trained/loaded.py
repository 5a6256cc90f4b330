"""One tuned or untuned model at work."""

from dataclasses import dataclass

from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.core import Engine
from fastcoder_lsp.draft.base import Trained


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with its engine, and what it was tuned for."""

    model: BenchModel
    engine: Engine
    trained: Trained
