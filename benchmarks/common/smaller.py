"""Smaller models that draft in benchmarks: the server's own way to them.

Owns nothing; a door, as `product` is.
"""

from collections.abc import Sequence

from fastcoder_lsp.bench.model import BenchModel
from fastcoder_lsp.runtime.smaller_models import Lending, SmallerModels

__all__ = ["SmallerModels", "smaller_models"]

_MEMORY_MB = 1 << 20
"""Who measures has asked for them."""


def smaller_models(names: Sequence[str], model: BenchModel, kind: str, context: int) -> SmallerModels:
    """Those that `names` say, for drafting for `model`; loaded when a drafter first asks for them.

    Args:
        names: as the setting `draft.models`.
        model: the model that verifies.
        kind: of their engines, as the setting `engine`.
        context: tokens that each holds.
    """
    lending = Lending(tuple(names), kind, context, None, _MEMORY_MB, model.cache)
    return SmallerModels(lending, model.tokenizer, lambda _share, _what: None)
