"""Engines without a model for which drafts are right: one repeats itself, one foresees its text."""

from collections.abc import Sequence

import numpy as np

from fastcoder_lsp.core import DraftTree, Tokens
from tests.fake_engine import FakeEngine, Ranked


class RepetitiveEngine(FakeEngine):
    """The next token is a function of the last two and, now and then, of the whole text."""

    def __init__(self, vocabulary: int = 40, context: int = 2000) -> None:
        super().__init__(vocabulary=vocabulary, context=context, chunk=64)
        self._skimmed: list[int] = []

    @property
    def sublayers(self) -> int:
        return 4

    def skim(self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int) -> Ranked:
        """Right but for every fifth text; nothing is kept but for the next call."""
        assert skipped <= set(range(self.sublayers))
        self._skimmed = [*self._skimmed[:after], *tokens]
        assert len(self._skimmed) == after + len(tokens)
        text = [*self.cached(), *self._skimmed]
        assert len(text) <= self.info.context
        best = self.choose(text, range(self.info.vocabulary)) + (sum(text) % 5 == 2)
        ranked = np.array([(best + rank) % self.info.vocabulary for rank in range(top_k)])
        return ranked, -np.arange(top_k, dtype=np.float32) * 3

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        return repetitive(tokens, among)


def repetitive(tokens: Tokens, among: Sequence[int]) -> int:
    odd = sum(tokens) % 11 == 0
    return among[(tokens[-1] * 7 + tokens[-2 if len(tokens) > 1 else -1] * 3 + odd + 1) % len(among)]


class TunedEngine(FakeEngine):
    """Tuned by SDSAT: behind adaptive tokens it foresees its text, in a share of all places.

    `salt`: tells apart the texts of two engines.
    """

    ADAPTIVE = 39

    def __init__(self, foresees: float, salt: int = 0) -> None:
        super().__init__(vocabulary=self.ADAPTIVE + 1, context=2000, chunk=64)
        self._foresees, self._salt = foresees, salt

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        return super().choose((self._salt, *tokens[-6:]), range(self.ADAPTIVE))

    def ranked(self, tree: DraftTree, top_k: int) -> Ranked:
        best = [self._best(text) for text in self.texts(tree)]
        ids = [[(token + rank) % self.ADAPTIVE for rank in range(top_k)] for token in best]
        return np.array(ids), np.tile(-3 * np.arange(top_k, dtype=np.float32), (len(tree), 1))

    def _best(self, text: list[int]) -> int:
        asked = 0
        while text[-1] == self.ADAPTIVE:
            asked += 1
            text = text[:-1]
        for _ in range(asked):
            text = [*text, self.choose(text, ())]
        wrong = asked > 0 and sum(text) * 31 % 97 >= 97 * self._foresees
        return (self.choose(text, ()) + 5 * wrong) % self.ADAPTIVE
