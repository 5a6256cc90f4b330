"""SAM-Decoding: what followed the longest match, in the running text or in common code, or else Token Recycling.

Hu et al. 2024, *SAM Decoding: Speculative Decoding via Suffix Automaton*. Section 3.1: a *dynamic* suffix automaton
holds prompt and output and grows with each token, a *static* one holds a text corpus (D_c); 3.2: the draft is what
followed the *first* place where the longest match ended, one chain; 3.3: the dynamic match counts as it is, the static
one by `bias` less; where the longer of both is shorter than `threshold`, an auxiliary drafter speaks, which is Token
Recycling in the published code. The static automaton's matches are read off the corpus' suffix array, which holds the
same strings at the same places and is there already; it tells matches up to `LONGEST` tokens apart.
"""

from dataclasses import dataclass

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import (
    FROM_CORPUS,
    FROM_PROMPT,
    FROM_RECYCLING,
    BaseDrafter,
    DrafterParts,
    Pin,
    Pinned,
    Specification,
    search,
)
from fastcoder_lsp.draft.history import History
from fastcoder_lsp.draft.recycling import RecyclingDrafter, RecyclingParameters
from fastcoder_lsp.index.searcher import LONGEST

_PLACES = 64
"""Of the corpus with the longest match, of which the first is drafted from; where there are more, an even sample."""
_WINDOW = 8192
"""Tokens of the running text that the dynamic automaton starts with; it holds twice as many."""


@dataclass(frozen=True, slots=True)
class SamParameters:
    """The published setting.

    Attributes:
        length: tokens of a draft (n_predicts).
        bias: tokens that the static automaton's match must be longer than the dynamic one's (l_bias).
        threshold: the shortest match that is drafted from (l_threshold).
    """

    length: int = 40
    bias: int = 5
    threshold: int = 5


def _make(parameters: SamParameters, parts: DrafterParts) -> "SamDrafter":
    return SamDrafter(parts.pin, parameters)


SAM = Specification(
    "sam",
    "what followed the longest match in prompt and output or in D_c, else the model's own best next tokens",
    SamParameters(),
    _make,
    paper="Hu et al. 2024, SAM-Decoding, sections 3.1 to 3.3",
    sources=(FROM_PROMPT, FROM_CORPUS, FROM_RECYCLING),
    traits=DrafterTraits(top_k=RecyclingParameters().k),
    reads=frozenset({"corpus"}),
    remembers=True,
)


class SamDrafter(BaseDrafter):
    """Chooses by the lengths of two matches, and leaves the rest to Token Recycling.

    Args:
        pin: gives the corpus.
        parameters: the published ones by default.
    """

    def __init__(self, pin: Pin, parameters: SamParameters | None = None) -> None:
        super().__init__(SAM)
        self._pin, self._parameters = pin, parameters or SamParameters()
        self._auxiliary = RecyclingDrafter()
        self._stores = Pinned()
        self._dynamic = SuffixAutomaton(2 * _WINDOW)
        self._history = History()
        self._taken = self._first = 0
        """Tokens of `_history` that the automaton has seen, and where it began."""

    def begin(self, context: DraftContext) -> None:
        """The dynamic automaton starts from the prompt, the static one is pinned."""
        self._auxiliary.begin(context)
        self._stores = self._pin(context.document)
        self._history.begin(context)
        self._restart()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """What followed the match that counts for more; the auxiliary draft where neither is long enough."""
        self._follow(context)
        if nodes < 1:
            return NO_DRAFT
        asked = self._parameters
        length = min(asked.length, nodes)
        dynamic, place = self._dynamic.earlier()
        hits = search(self._stores.corpus, context.tokens, LONGEST, _PLACES, length)
        static = 0 if hits is None else hits.length - asked.bias
        if max(dynamic, static) < asked.threshold:
            return self._auxiliary.propose(context, nodes)
        if hits is None or dynamic >= static:
            start = self._first + place
            return _chain(self._history.tokens[start : start + length].tolist(), FROM_PROMPT.name, dynamic)
        # A suffix array has them in the order of what stands before the match.
        first = int(np.lexsort((hits.places_H, hits.rows_H))[0])
        row = hits.continuations_HD[first].tolist()
        return _chain(row[: row.index(-1)] if -1 in row else row, FROM_CORPUS.name, hits.length)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """The auxiliary drafter learns from every row."""
        self._auxiliary.observe(tree, verified)

    def forget(self, document: str) -> None:
        """The document is closed: drop what the auxiliary drafter remembers of it."""
        self._auxiliary.forget(document)

    def rename(self, old: str, new: str) -> None:
        """What the auxiliary drafter remembers of the document follows."""
        self._auxiliary.rename(old, new)

    def _follow(self, context: DraftContext) -> None:
        self._history.follow(context)
        fresh = self._history.tokens[self._taken :]
        if self._dynamic.size + len(fresh) > self._dynamic.capacity:
            self._restart()
            return
        self._dynamic.extend(fresh)
        self._taken = len(self._history)

    def _restart(self) -> None:
        """Hold the newest tokens alone."""
        self._taken = len(self._history)
        self._first = max(self._taken - _WINDOW, 0)
        self._dynamic.clear()
        self._dynamic.extend(self._history.tokens[self._first :])


def _chain(tokens: list[int], source: str, match: int) -> Draft:
    count = len(tokens)
    return Draft(tuple(tokens), tuple(range(-1, count - 1)), (source,) * count, (match,) * count)
