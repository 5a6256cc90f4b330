"""How close a model was to saying something else: what tells a tie from a mistake where two decodes differ."""

from collections.abc import Sequence

from fastcoder_lsp.core import DraftTree, Engine


def top_two_gap(engine: Engine, tokens: Sequence[int]) -> float:
    """How far the two best logits after `tokens` lie apart, by plain decoding."""
    engine.prefill(tokens[:-1], lambda: False)
    best = engine.step(DraftTree.chain(tokens[-1:]), top_k=2).top_logits_NK
    assert best is not None, "asked for two, got none"
    return float(best[0, 0] - best[0, 1])
