"""The engines without a model that tests use: what they say is a function of the text, so that every mistake shows.

Derived classes say something else (`choose`), rank tokens in another way (`ranked`), or take time and fail (`works`).
`tests/engine/test_semantics.py` holds it to what the real engines promise.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import GREEDY, DraftTree, EngineInfo, Prefilled, Sampler, ShouldStop, Tokens, Verified
from fastcoder_lsp.engine.verification import accept, top_rows
from fastcoder_lsp.errors import ResourceError

MARK, END = 1, 0
"""The last token of every prompt of `marked`, and the token that ends a text."""
Ranked = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
Allowed = Mapping[int, npt.NDArray[np.int64]]


class FakeEngine:
    """A `core.Engine` whose next token is a hash of all tokens before it; of so few, drafts are right at times."""

    def __init__(self, vocabulary: int = 5, context: int = 400, chunk: int = 8, name: str = "toy") -> None:
        self.info = EngineInfo(name, name, "made here", "none", vocabulary, context, 64)
        self._cache: list[int] = []
        self.chunk = chunk
        self.closed = False
        self.steps = 0
        self.prefilled = 0
        self._called = threading.Lock()

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        with self._one_caller():
            return self._prefill(tokens, should_stop)

    def _prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        self._require(len(tokens))
        reused = 0
        while reused < min(len(tokens), len(self._cache)) and self._cache[reused] == tokens[reused]:
            reused += 1
        del self._cache[reused:]
        while missing := tokens[len(self._cache) : len(self._cache) + self.chunk]:
            if should_stop():
                return Prefilled(reused, len(self._cache) - reused, done=False)
            self._cache += missing
            self.prefilled += len(missing)
            self.works(len(missing), prefill=True)
        return Prefilled(reused, len(tokens) - reused, done=True)

    def step(
        self,
        tree: DraftTree,
        sampler: Sampler = GREEDY,
        allowed: Allowed | None = None,
        top_k: int = 0,
    ) -> Verified:
        with self._one_caller():
            return self._step(tree, allowed or {}, top_k)

    def _step(self, tree: DraftTree, allowed: Allowed, top_k: int) -> Verified:
        tree.check()
        assert len(tree) <= self.info.max_nodes
        self._require(len(self._cache) + tree.pending)
        self.steps += 1
        self.prefilled += tree.pending - 1
        self.works(len(tree), prefill=False)
        ranked = self.ranked(tree, top_k) if top_k else None
        self._cache += tree.tokens[: tree.pending]
        below, node = tree.children(), tree.pending - 1
        path: list[int] = []
        emitted: list[int] = []
        while True:
            ids = allowed.get(node)
            token = self.choose(self._cache, range(self.info.vocabulary) if ids is None else ids.tolist())
            emitted.append(token)
            child = below.get(node, {}).get(token)
            if child is None or len(self._cache) == self.info.context:
                return Verified(tuple(path), tuple(emitted), *(ranked or ()))
            path.append(child)
            self._cache.append(token)
            node = child

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        digest = hashlib.sha256(bytes(tokens)).digest()
        return among[digest[0] % len(among)]

    def ranked(self, tree: DraftTree, top_k: int) -> Ranked | None:
        """The best ids and their logits for each row of a step that is about to be made."""
        vocabulary = self.info.vocabulary
        best = [self.choose(text, range(vocabulary)) for text in self.texts(tree)]
        ids = [[(token + rank) % vocabulary for rank in range(top_k)] for token in best]
        return np.array(ids), np.zeros((len(tree), top_k), np.float32)

    def texts(self, tree: DraftTree) -> list[list[int]]:
        """All tokens up to each row of a step that is about to be made."""
        texts: list[list[int]] = []
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            texts.append([*(texts[parent] if parent >= 0 else self._cache), token])
        return texts

    def works(self, rows: int, *, prefill: bool) -> None:
        """So many rows are computed."""

    def cached(self) -> tuple[int, ...]:
        return tuple(self._cache)

    def close(self) -> None:
        self.closed = True
        self._cache.clear()

    @contextmanager
    def _one_caller(self) -> Iterator[None]:
        assert self._called.acquire(blocking=False), "two threads use the engine at once"
        try:
            yield
        finally:
            self._called.release()

    def _require(self, slots: int) -> None:
        if slots > self.info.context:
            raise ResourceError("the context is full", "ask for less")


class SayingEngine(FakeEngine):
    """Says `says`, a text or the text after a prompt, after every prompt, which ends with `MARK`; then `END`.

    A token is a byte. Each step calls `waits` first.
    """

    def __init__(
        self, says: str | Callable[[Tokens], str], waits: Callable[[], object] = lambda: None, name: str = "toy"
    ) -> None:
        super().__init__(vocabulary=256, context=100_000, chunk=100_000, name=name)
        self.says, self.waits = says, waits

    def works(self, rows: int, *, prefill: bool) -> None:
        if not prefill:
            self.waits()

    def choose(self, tokens: Tokens, among: Sequence[int]) -> int:
        begins = tokens.index(MARK) + 1
        says = self.says if isinstance(self.says, str) else self.says(tokens[:begins])
        said = len(tokens) - begins
        return ord(says[said]) if said < len(says) else END

    def ranked(self, tree: DraftTree, top_k: int) -> None:
        """It never hesitates."""


class RankingEngine:
    """An engine that verifies as the real ones do, by logits that a derived class gives for every text."""

    def __init__(self, info: EngineInfo) -> None:
        self.info, self._cached = info, list[int]()

    def logits(self, text: tuple[int, ...]) -> Sequence[float] | npt.NDArray[np.float32]:
        raise NotImplementedError

    def cached(self) -> tuple[int, ...]:
        return tuple(self._cached)

    def prefill(self, tokens: Tokens, should_stop: ShouldStop) -> Prefilled:
        self._cached = list(tokens)
        return Prefilled(0, len(tokens), done=True)

    def step(
        self, tree: DraftTree, sampler: Sampler = GREEDY, allowed: Allowed | None = None, top_k: int = 0
    ) -> Verified:
        paths: list[tuple[int, ...]] = []
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            paths.append((*(paths[parent] if parent >= 0 else self._cached), token))
        rows, room = np.array([self.logits(path) for path in paths], np.float32), self.info.context - len(self._cached)
        path, emitted = accept(tree, rows, sampler, allowed or {}, len(self._cached), room)
        self._cached += [tree.tokens[node] for node in (*range(tree.pending), *path)]
        return Verified(path, emitted, *top_rows(rows, top_k, allowed)) if top_k else Verified(path, emitted)

    def close(self) -> None:
        pass


def marked(before: str) -> tuple[int, ...]:
    return (*(ord(letter) % 200 + 2 for letter in before), MARK)


def never() -> bool:
    return False


def silent(_share: float, _what: str) -> None:
    """Progress that nobody follows."""
