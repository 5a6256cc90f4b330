"""Drafting by a suffix automaton of the text and the suffix array of common code.

Hu et al. 2024, *SAM Decoding: Speculative Decoding via Suffix Automaton*. Section 3.1: a *dynamic* automaton holds
prompt and output and grows with each token, a *static* one holds a text corpus (D_c); 3.2: the draft is what followed
the *first* place where the longest match ended, one chain; 3.3: the dynamic match counts as it is, the static one by
`bias` less; if the longer of both is shorter than `threshold`, an auxiliary drafter drafts, which is Token Recycling in
the published code. The static automaton's matches are read off the corpus' suffix array, which holds the same strings
at the same places and is there already; it tells matches up to `LONGEST` tokens apart.
"""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import (
    FROM_CORPUS,
    FROM_PROMPT,
    FROM_RECYCLING,
    Drafter,
    Pin,
    Pinned,
    Specification,
    chain,
    search,
)
from fastcoder_lsp.draft.matching import GAP, History
from fastcoder_lsp.index.searcher import LONGEST
from fastcoder_lsp.papers.recycling import RecyclingDrafter, RecyclingParameters

_PLACES = 64  # longest matches in the corpus that are looked at, to draft from the first; an even sample of more
_WINDOW = 8192  # tokens of the running text that `sam`'s dynamic automaton starts with; it holds twice as many


@dataclass(frozen=True, slots=True)
class SamParameters:
    """Parameters of `sam`."""

    length: int = 40  # tokens of a draft (n_predicts)
    bias: int = 5  # tokens that the static automaton's match must be longer than the dynamic one's (l_bias)
    threshold: int = 5  # the shortest match that is drafted from (l_threshold)


SAM = Specification(
    "sam",
    "the continuation of the longest match in prompt and output or in D_c, else the model's own best next tokens",
    SamParameters(),
    lambda parameters, parts: SamDrafter(parts.pin, parameters),
    paper="Hu et al. 2024, SAM-Decoding, sections 3.1 to 3.3",
    sources=(FROM_PROMPT, FROM_CORPUS, FROM_RECYCLING),
    traits=DrafterTraits(top_k=RecyclingParameters().k),
    reads=frozenset({"corpus"}),
    remembers=True,
)


class SamDrafter(Drafter):
    """Chooses by the lengths of two matches, and leaves the rest to Token Recycling."""

    def __init__(self, pin: Pin, parameters: SamParameters | None = None) -> None:
        super().__init__(SAM)
        self._pin, self._parameters = pin, parameters or SamParameters()
        self._auxiliary = RecyclingDrafter()
        self._stores = Pinned()
        self._dynamic = SuffixAutomaton(2 * _WINDOW)
        self._history = History()
        self._taken = self._first = 0  # tokens of `_history` that the automaton has seen, and where it began

    @override
    def begin(self, context: DraftContext) -> None:
        self._auxiliary.begin(context)
        self._stores = self._pin(context.document)
        self._history.begin(context)
        self._restart()

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The continuation of the match that counts more; the auxiliary draft if neither is long enough."""
        self._follow(context)
        if nodes < 1:
            return NO_DRAFT
        params = self._parameters
        length = min(params.length, nodes)
        dynamic, place = self._dynamic.earlier()
        hits = search(self._stores.corpus, context.tokens, LONGEST, _PLACES, length)
        static = 0 if hits is None else hits.length - params.bias
        if max(dynamic, static) < params.threshold:
            return self._auxiliary.propose(context, nodes)
        if hits is None or dynamic >= static:
            start = self._first + place
            return chain(self._history.tokens[start : start + length].tolist(), FROM_PROMPT, dynamic)
        # Hits come in the order of the text before the match.
        first = int(np.lexsort((hits.places_H, hits.rows_H))[0])
        row = hits.continuations_HD[first].tolist()
        return chain(row[: row.index(GAP)] if GAP in row else row, FROM_CORPUS, hits.length)

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        self._auxiliary.observe(tree, verified)

    @override
    def forget(self, document: str) -> None:
        self._auxiliary.forget(document)

    @override
    def rename(self, old: str, new: str) -> None:
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
        self._taken = len(self._history)
        self._first = max(self._taken - _WINDOW, 0)
        self._dynamic.clear()
        self._dynamic.extend(self._history.tokens[self._first :])


SPECIFICATIONS = (SAM,)
