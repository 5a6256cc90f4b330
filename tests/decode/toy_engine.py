"""An engine without a model: the next token is a function of all tokens before it, so every mistake shows."""

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import GREEDY, DraftTree, EngineInfo, Prefilled, Sampler, ShouldStop, Tokens, Verified


class ToyEngine:
    """Follows `core.Engine` to the letter; `vocabulary` small, so that random drafts are sometimes right."""

    def __init__(self, vocabulary: int = 5, context: int = 400, chunk: int = 8) -> None:
        self.info = EngineInfo("toy", "toy", "made here", "none", vocabulary, context, 64)
        self._cache: list[int] = []
        self._chunk = chunk
        self.closed = False
        self.forwards = 0

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        reused = 0
        while reused < min(len(tokens), len(self._cache)) and self._cache[reused] == tokens[reused]:
            reused += 1
        del self._cache[reused:]
        while len(self._cache) < len(tokens):
            if should_stop():
                return Prefilled(reused, len(self._cache) - reused, done=False)
            self._cache += tokens[len(self._cache) : len(self._cache) + self._chunk]
        return Prefilled(reused, len(tokens) - reused, done=True)

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Mapping[int, npt.NDArray[np.int64]] | None = None,
        top_k: int = 0,
    ) -> Verified:
        tree.check()
        assert len(tree) <= self.info.max_nodes
        assert len(self._cache) + tree.pending <= self.info.context
        self.forwards += 1
        self._cache += tree.tokens[: tree.pending]
        below, node = tree.children(), tree.pending - 1
        path: list[int] = []
        emitted: list[int] = []
        while True:
            ids = (allowed or {}).get(node)
            token = self.choose(self._cache, range(self.info.vocabulary) if ids is None else ids.tolist())
            emitted.append(token)
            child = below.get(node, {}).get(token)
            if child is None:
                return Verified(tuple(path), tuple(emitted))
            path.append(child)
            self._cache.append(token)
            node = child

    @staticmethod
    def choose(tokens: Tokens, among: "range | list[int]") -> int:
        digest = hashlib.sha256(bytes(tokens)).digest()
        return among[digest[0] % len(among)]

    def cached(self) -> tuple[int, ...]:
        return tuple(self._cache)

    def close(self) -> None:
        self.closed = True
