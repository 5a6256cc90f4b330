"""A prompt that is brought into the KV cache piece by piece.

Owns how far it is; what it is for is the caller's business. Runs in the service's worker.
"""

from fastcoder_lsp.completion.pace import Clock, Pace
from fastcoder_lsp.core import Engine, Tokens


class Preparation:
    """Tokens on their way into the KV cache; `prefilled` of them were computed for that."""

    def __init__(self, engine: Engine, pace: Pace, clock: Clock, prompt: Tokens) -> None:
        self._engine, self._pace, self._clock = engine, pace, clock
        self._prompt = prompt
        self.finished = False
        self.prefilled = 0

    def advance(self, room_ms: float) -> bool:
        """One stretch of the prefill; False where none fits into `room_ms`."""
        started = self._clock()
        cached = self._engine.prefill(self._prompt, _at_once).reused
        missing = len(self._prompt) - cached
        tokens = self._pace.stretch_within(room_ms, missing)
        if tokens:
            self._engine.prefill(self._prompt[: cached + tokens], _never)
            self._pace.prefilled(tokens, self._clock() - started)
            self.prefilled += tokens
        self.finished = tokens == missing
        return self.finished or tokens > 0


def _at_once() -> bool:
    return True


def _never() -> bool:
    return False
