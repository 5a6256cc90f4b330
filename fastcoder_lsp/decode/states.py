"""Hidden states for drafters that ask for some: the engine is told before it reads a text, and asked before a draft."""

from collections.abc import Sequence

from fastcoder_lsp.core import Engine, KeepingEngine


def ask_states(engine: Engine, layers: Sequence[int]) -> None:
    """Have the engine keep the hidden states behind `layers`, where it can; where nobody asks, it is not told."""
    if layers and isinstance(engine, KeepingEngine):
        engine.keep_states(layers)


def states_of(engine: Engine, layers: Sequence[int], cached: int) -> KeepingEngine | None:
    """The engine, where it has the hidden states of `cached` tokens; None where it has none, or its cache is gone."""
    if not layers or not isinstance(engine, KeepingEngine) or not engine.keep_states(layers):
        return None
    return engine if len(engine.cached()) == cached else None
