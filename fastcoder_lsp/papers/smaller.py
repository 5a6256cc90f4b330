"""Smaller models that draft, each kept in step with a text.

A smaller model is an engine with a KV cache for each document. Accepted drafts are in its cache already. After a
rejected one the cache is cut back to the common beginning, and the next pass takes the missing tokens along.
"""

from collections.abc import Sequence

import numpy as np

from fastcoder_lsp.core import GREEDY, DraftTree, Engine, Sampler, Tokens, Verified
from fastcoder_lsp.core.arrays import Float64s, Floats, Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.core.noise import gumbel

RIDERS = 12  # tokens that the next pass takes along: a separate pass would read all weights once more
CATCH_UP = 512
"""Tokens that are read at once, so that no step waits long; nothing is drafted until all of a text is read."""

BEST = 64  # ids of a row that make up its distribution where tokens are sampled; others are never drafted


class SmallModel:
    """A smaller model over one document's text. Call `follow` first, then `say` (by token) or `look` (by tree)."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.passes = 0
        self._base: list[int] = []
        self._pending: list[int] = []

    def follow(self, tokens: Tokens) -> bool:
        """Move to the end of `tokens`; returns False while more is left to read than one step may take."""
        if len(tokens) >= self.engine.info.context:
            return False
        text = list(tokens[:-1])
        shared = common_prefix(self.engine.cached(), text)
        end = shared if len(text) - shared <= RIDERS else min(len(text), shared + CATCH_UP)
        self.engine.prefill(text[:end], _never)
        self._base, self._pending = text[:end], list(tokens[end:])
        return len(self._pending) <= RIDERS + 1

    def room(self, most: int) -> int:
        """The number of tokens, at most `most`, that fit before the context is full."""
        return max(min(most, self.engine.info.context - len(self._base) - len(self._pending)), 0)

    def rows(self) -> int:
        """The number of guesses that one pass can hold beside the pending tokens."""
        return self.engine.info.max_nodes - len(self._pending)

    def say(self, sampler: Sampler, top_k: int) -> tuple[int, Int64s, Floats]:
        """One pass: the sampler's next token, and the best ids [K] and their logits."""
        verified = self._step(DraftTree.chain(self._pending), sampler, top_k)
        assert verified.top_ids_NK is not None
        assert verified.top_logits_NK is not None
        return verified.emitted[-1], verified.top_ids_NK[-1], verified.top_logits_NK[-1]

    def take(self, token: int) -> None:
        """Append `token`, which the next pass continues from."""
        self._base += self._pending
        self._pending = [token]

    def speculate(self, tree: DraftTree, sampler: Sampler, top_k: int) -> Verified:
        """One pass over the pending tokens with guesses below them; the accepted ones are in the cache after it."""
        verified = self._step(tree, sampler, top_k)
        self._base += [*self._pending, *verified.emitted[:-1]]
        self._pending = [verified.emitted[-1]]
        return verified

    def below(self, tokens: Tokens, parents: Sequence[int]) -> DraftTree:
        """The pending tokens with guesses below them; a parent of -1 is the last pending one."""
        first = len(self._pending)
        chain = range(-1, first - 1)
        return DraftTree((*self._pending, *tokens), (*chain, *(parent + first for parent in parents)), first)

    def look(self, tokens: Tokens, parents: Sequence[int], top_k: int) -> tuple[Int64s, Floats]:
        """One pass over guesses, then dropped from the cache: best ids [1+N, K] and logits, the text's end first."""
        verified = self._step(self.below(tokens, parents), GREEDY, top_k)
        assert verified.top_ids_NK is not None
        assert verified.top_logits_NK is not None
        self.engine.prefill(self._base, _never)
        first = len(self._pending) - 1
        return verified.top_ids_NK[first:], verified.top_logits_NK[first:]

    def position(self) -> int:
        """Position of the next token, counted from the start of the text."""
        return len(self._base) + len(self._pending)

    def _step(self, tree: DraftTree, sampler: Sampler, top_k: int) -> Verified:
        self.passes += 1
        return self.engine.step(tree, sampler, None, top_k)


def shares(ids_K: Int64s, logits_K: Floats, sampler: Sampler, position: int) -> Float64s:
    """The chances that each of a row's best ids is chosen, as far as the smaller model knows.

    Greedy: their softmax. The keyed sampler's noise of the position is known and the same for both models: it is added
    to the logits first, so that the ids it favours are the likelier guesses.
    """
    scores = logits_K.astype(np.float64)
    if sampler.temperature > 0:
        scores = scores / sampler.temperature
        if sampler.rule == "keyed":
            scores = scores + gumbel(sampler.seed, position, ids_K)
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum(), np.float64)


def _never() -> bool:
    return False
