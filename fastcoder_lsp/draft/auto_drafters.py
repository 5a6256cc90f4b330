"""Another drafter as a source of `auto`: asked where what it brings is worth the time that it takes.

A drafter that runs a model costs milliseconds before anything is verified. What it brings is counted: tokens that were
accepted on its word alone. It is asked where that many tokens, at what a token costs otherwise, are worth more than the
asking takes; where they are not, it is asked again once in a while, for texts differ. Both prices are measured in the
same steps, so that a busy machine makes both dearer alike.

Owns the price; what is guessed is the drafter's.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from fastcoder_lsp.core import Draft, DraftContext, Drafter, DraftTree, Verified
from fastcoder_lsp.draft.auto_branches import TAIL
from fastcoder_lsp.draft.auto_sources import FoundContinuations, QuietSource
from fastcoder_lsp.draft.evidence import SOURCES, TRAINED
from fastcoder_lsp.draft.kernels import GAP
from fastcoder_lsp.draft.store import Pinned

BELIEVED, STRENGTH = 2.0, 4.0
"""Tokens that asking is believed to bring before it was tried, which weighs as much as so many tries."""
KEPT = 0.98
"""Of what was counted, the part that is kept at each try…"""
FORGOTTEN = 0.9995
"""…and at each step without one: so a drafter that does not pay is tried once in some hundreds of steps."""
NEWEST = 0.1
"""The weight of the newest time in each mean."""
TIMES = 4
"""Of the newest times the least is the price: the others may hold the reading of a text, which is done once."""
_NODES = 16
"""Guesses that are asked for at once."""


class DrafterSource(QuietSource):
    """A drafter's guesses, each path of its tree a continuation.

    Args:
        drafter: proposes by itself; it is told of the tree that was verified, not of the one that it proposed.
        clock: in seconds.
    """

    name = SOURCES[TRAINED]

    def __init__(self, drafter: Drafter, clock: Callable[[], float] = time.perf_counter) -> None:
        self.drafter, self.top_k = drafter, drafter.traits.top_k
        self._clock = clock
        self._tries = self._brought = 0.0
        self._step_ms = 0.0
        self._asking_ms: deque[float] = deque(maxlen=TIMES)
        self._step_tokens = 1.0
        self._asked = False
        self._since = 0.0
        self._guessed: dict[tuple[int, int], int] = {}
        """Of its last tree, by parent and token, the nodes."""
        self.asked = self.left_out = 0

    def begin(self, context: DraftContext, stores: Pinned) -> None:  # noqa: ARG002 the interface
        """The drafter prepares; what was counted stays, for it is about the model and its user."""
        self._asked = False
        self._since = 0.0
        self.drafter.begin(context)

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        """The paths of the drafter's tree, where it is worth asking."""
        before = self._clock()
        self._guessed = {}
        self._asked = self.pays()
        if self._asked:
            self.asked += 1
            draft = self.drafter.propose(context, _NODES)
            self._guessed = {at: node for node, at in enumerate(zip(draft.parents, draft.tokens, strict=True))}
            self._add(draft, found)
            if draft.tokens:
                self._asking_ms.append((self._clock() - before) * 1e3)
            else:  # it is reading the text yet: that is done once
                self._asked = False
        else:
            self.left_out += 1
            self._tries *= FORGOTTEN
            self._brought *= FORGOTTEN
        self._since = self._clock()

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:  # noqa: ARG002
        """Count what was accepted on this source's word, and what a step takes and gives without it."""
        if self._since:
            self._step_ms = _mean(self._step_ms, (self._clock() - self._since) * 1e3)
            brought = self._brought_by(verified.emitted, accepted)
            self._step_tokens = _mean(self._step_tokens, max(len(verified.emitted) - brought, 1))
            if self._asked:
                self._tries = KEPT * self._tries + 1
                self._brought = KEPT * self._brought + brought
        self._since = 0.0
        self.drafter.observe(tree, verified)

    def pays(self) -> bool:
        """Whether asking is worth its time, as far as is known: at first it is tried."""
        if len(self._asking_ms) < TIMES:
            return True
        brings = (BELIEVED * STRENGTH + self._brought) / (STRENGTH + self._tries)
        return brings * self._step_ms / self._step_tokens >= min(self._asking_ms)

    def forget(self, document: str) -> None:
        """The document is closed."""
        self.drafter.forget(document)

    def rename(self, old: str, new: str) -> None:
        """The document has another URI."""
        self.drafter.rename(old, new)

    def _brought_by(self, emitted: Sequence[int], accepted: Sequence[int]) -> int:
        """How many accepted tokens stand in this drafter's own tree: another one may speak by the same name."""
        node, brought = -1, 0
        for token, source in zip(emitted, accepted, strict=False):
            if (below := self._guessed.get((node, token))) is None:
                break
            node, brought = below, brought + (source == TRAINED)
        return brought

    def _add(self, draft: Draft, found: FoundContinuations) -> None:
        inner = set(draft.parents)
        for leaf in range(len(draft.tokens)):
            if leaf in inner:
                continue
            path: list[int] = []
            node = leaf
            while node >= 0:
                path.append(draft.tokens[node])
                node = draft.parents[node]
            row = np.full((1, found.depth), GAP, np.int32)
            kept = path[::-1][: found.depth]
            row[0, : len(kept)] = kept
            found.add(row, TRAINED, TAIL)


def _mean(mean: float, newest: float) -> float:
    """A mean that follows; the first value counts whole."""
    return newest if mean == 0.0 else mean + NEWEST * (newest - mean)
