"""Engines without a model: with ranked next tokens, and repetitive enough for drafts to be right."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import GREEDY, DraftTree, Sampler, Tokens, Verified
from tests.decode.toy_engine import ToyEngine


class RepetitiveEngine(ToyEngine):
    """The next token is a function of the last two and, now and then, of the whole text; all rows can be ranked."""

    def __init__(self, vocabulary: int = 40, context: int = 2000) -> None:
        super().__init__(vocabulary=vocabulary, context=context, chunk=64)
        self._skimmed: list[int] = []

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        before = list(self.cached())
        verified = super().step(tree, sampler, allowed, top_k)
        if not top_k:
            return verified
        vocabulary, paths = self.info.vocabulary, [list[int]() for _ in tree.tokens]
        for node, parent in enumerate(tree.parents):
            paths[node] = [*(paths[parent] if parent >= 0 else before), tree.tokens[node]]
        best = [self.choose(path, range(vocabulary)) for path in paths]
        ids = [[(token + rank) % vocabulary for rank in range(top_k)] for token in best]
        return Verified(verified.path, verified.emitted, np.array(ids), np.zeros((len(tree), top_k), np.float32))

    @property
    def sublayers(self) -> int:
        return 4

    def skim(
        self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Right but for every fifth text; nothing is kept but for the next call."""
        assert skipped <= set(range(self.sublayers))
        self._skimmed = [*self._skimmed[:after], *tokens]
        assert len(self._skimmed) == after + len(tokens)
        text = [*self.cached(), *self._skimmed]
        assert len(text) <= self.info.context
        best = self.choose(text, range(self.info.vocabulary)) + (sum(text) % 5 == 2)
        ranked = np.array([(best + rank) % self.info.vocabulary for rank in range(top_k)])
        return ranked, -np.arange(top_k, dtype=np.float32) * 3

    @staticmethod
    def choose(tokens: Tokens, among: "range | list[int]") -> int:
        odd = sum(tokens) % 11 == 0
        return among[(tokens[-1] * 7 + tokens[-2 if len(tokens) > 1 else -1] * 3 + odd + 1) % len(among)]
