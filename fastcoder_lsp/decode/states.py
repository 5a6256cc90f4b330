"""What drafters are lent of the engine that verifies, where they ask for it: hidden states, and a part of its model.

For hidden states the engine is told before it reads a text, and asked before a draft.
"""

from collections.abc import Sequence

from fastcoder_lsp.core import DrafterTraits, Engine, KeepingEngine, SkimmingEngine


def ask_states(engine: Engine, layers: Sequence[int]) -> None:
    """Have the engine keep the hidden states behind `layers`, where it can; where nobody asks, it is not told."""
    if layers and isinstance(engine, KeepingEngine):
        engine.keep_states(layers)


def states_of(engine: Engine, layers: Sequence[int], cached: int) -> KeepingEngine | None:
    """The engine, where it has the hidden states of `cached` tokens; None where it has none, or its cache is gone."""
    if not layers or not isinstance(engine, KeepingEngine) or not engine.keep_states(layers):
        return None
    return engine if len(engine.cached()) == cached else None


def skimming(engine: Engine, traits: DrafterTraits) -> SkimmingEngine | None:
    """The engine, where the drafter drafts by a part of it; None where it does not, or the engine cannot."""
    return engine if traits.skims and isinstance(engine, SkimmingEngine) else None
