"""The engine over any backend: prefix reuse, chunked prefill, and a step from a draft tree to accepted tokens."""

from collections.abc import Mapping, Sequence

import numpy as np

from fastcoder_lsp.core import GREEDY, DraftTree, EngineInfo, Prefilled, Sampler, ShouldStop, Tokens, Verified
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.core.differences import common_prefix
from fastcoder_lsp.engine.backend import (
    Backend,
    KeepingBackend,
    Rows,
    SkimmingBackend,
    can_keep,
    read_states,
    with_layers,
)
from fastcoder_lsp.engine.verification import accept, top_rows
from fastcoder_lsp.errors import ResourceError

MAX_NODES = 128  # rows of one step; the KV cache has as many slots beyond the context, so that drafts can't fill it


class TreeEngine:
    """`core.Engine` over a backend. The cache's slots 0…len(cached) hold the tokens of `cached()`, others nothing.

    Drafts beyond the context are never accepted, so the output's limit is the same with and without drafts.
    """

    def __init__(self, backend: Backend, info: EngineInfo) -> None:
        assert backend.capacity >= info.context + info.max_nodes
        self.backend = backend
        self.sublayers = backend.sublayers if isinstance(backend, SkimmingBackend) else 0
        self.info = info
        self._cached: list[int] = []

    def cached(self) -> tuple[int, ...]:
        """The tokens in the cache."""
        return tuple(self._cached)

    @property
    def length(self) -> int:
        """How many tokens are in the cache."""
        return len(self._cached)

    def assume(self, tokens: Tokens) -> None:
        """Record that the cache holds `tokens`: the caller has written their keys and values."""
        self._cached[:] = tokens

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        """Make the cache hold `tokens`, chunk by chunk; raises ResourceError if they exceed the context."""
        self._check_fits(tokens)
        reused = common_prefix(self._cached, tokens)
        del self._cached[reused:]
        while (done := len(self._cached)) < len(tokens) and not should_stop():
            chunk = tokens[done : done + self.backend.chunk]
            self.backend.forward(Rows.chain(chunk, done))
            self._cached.extend(chunk)
        return Prefilled(reused, len(self._cached) - reused, len(self._cached) == len(tokens))

    def step(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Mapping[int, Int64s] | None = None, top_k: int = 0
    ) -> Verified:
        """One forward pass; draft tokens outside the vocabulary are no error: they are never accepted."""
        tree.check()
        room, cached = self._room(tree), len(self._cached)
        logits_RV = self.backend.forward(self._rows(tree, 0 if top_k else tree.pending - 1))
        assert logits_RV is not None
        path, emitted = accept(tree, logits_RV, sampler, allowed or {}, cached, room)
        kept = [*range(tree.pending), *path]
        self.backend.compact(cached, kept)
        self._cached.extend(tree.tokens[node] for node in kept)
        if not top_k:
            return Verified(path, emitted)
        return Verified(path, emitted, *top_rows(logits_RV, top_k, allowed))

    def skim(self, tokens: Tokens, after: int, skipped: frozenset[int], top_k: int) -> tuple[Int64s, Floats]:
        """`core.SkimmingEngine.skim`: writes to slots behind the cached ones, where the next step overwrites them."""
        self._check_ids(tokens)
        start, count = len(self._cached) + after, len(tokens)
        assert start + count <= self.info.context, "skimmed beyond the context"
        chain = np.arange(count, dtype=np.int64)
        logits_RV = self.backend.forward(Rows(np.array(tokens, np.int64), chain - 1, chain, start, count - 1, skipped))
        assert logits_RV is not None
        ids_RK, best_RK = top_rows(logits_RV, top_k)
        return ids_RK[0], best_RK[0]

    def keep_states(self, layers: Sequence[int]) -> bool:
        """Keep hidden states behind these layers; drops the cache if it lacks some of them."""
        if not can_keep(self.backend, layers):
            return not layers
        if (needed := with_layers(self.backend, layers)) is not None:
            self.backend.keep_states(needed)
            self._cached.clear()
        return True

    def states(self, layers: Sequence[int], start: int, stop: int) -> Floats:
        """Hidden states of the cached tokens `start`…`stop`, [tokens, layers, E]."""
        assert isinstance(self.backend, KeepingBackend)
        assert 0 <= start <= stop <= len(self._cached)
        return read_states(self.backend, layers, start, stop)

    def embed(self, tokens: Tokens) -> Floats:
        """The embeddings of tokens, [tokens, E]."""
        assert isinstance(self.backend, KeepingBackend)
        return self.backend.embed(np.asarray(tokens, np.int64))

    def close(self) -> None:
        """Free the memory."""
        self._cached.clear()
        self.backend.close()

    def _rows(self, tree: DraftTree, logits_from: int) -> Rows:
        tokens = np.array(tree.tokens, dtype=np.int64)
        known = (tokens >= 0) & (tokens < self.info.vocabulary)
        return Rows(
            tokens=np.where(known, tokens, 0),
            parents=np.array(tree.parents, dtype=np.int64),
            depths=np.array(tree.depths(), dtype=np.int64),
            cached=len(self._cached),
            logits_from=logits_from,
        )

    def _check_fits(self, tokens: Tokens) -> None:
        self._check_ids(tokens)
        if len(tokens) > self.info.context:
            raise self._full(len(tokens))

    def _room(self, tree: DraftTree) -> int:
        """How many of the tree's drafts fit; raises ResourceError if not even the pending tokens do."""
        assert len(tree) <= self.info.max_nodes, f"{len(tree)} nodes, at most {self.info.max_nodes}"
        self._check_ids(tree.tokens[: tree.pending])
        needed = len(self._cached) + tree.pending
        if needed > self.info.context:
            raise self._full(needed)
        return self.info.context - needed

    def _check_ids(self, tokens: Tokens) -> None:
        assert all(0 <= token < self.info.vocabulary for token in tokens), "a token outside the vocabulary"

    def _full(self, needed: int) -> ResourceError:
        return ResourceError(
            f"the context of {self.info.context} tokens is full ({needed} needed)",
            "Shorten the prompt, or raise `context_tokens`.",
        )
