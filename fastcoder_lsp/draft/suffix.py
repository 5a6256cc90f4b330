"""Drafting by suffix automata: `suffix` and `sam`.

`suffix`: SuffixDecoding (Oliaro et al. 2024; Arctic Inference): a draft's size grows with the length of its match, its
nodes are the likeliest by frequency, and the source with the greatest expected acceptance is taken. As in SAM-Decoding
the automaton is extended as tokens come. One automaton holds the running decode, another the earlier outputs in the
document.

`sam`: Hu et al. 2024, *SAM Decoding: Speculative Decoding via Suffix Automaton*. Section 3.1: a *dynamic* automaton
holds prompt and output and grows with each token, a *static* one holds a text corpus (D_c); 3.2: the draft is what
followed the *first* place where the longest match ended, one chain; 3.3: the dynamic match counts as it is, the static
one by `bias` less; if the longer of both is shorter than `threshold`, an auxiliary drafter drafts, which is Token
Recycling in the published code. The static automaton's matches are read off the corpus' suffix array, which holds the
same strings at the same places and is there already; it tells matches up to `LONGEST` tokens apart.
"""

from dataclasses import dataclass, field

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DrafterTraits, DraftTree, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import (
    FROM_CACHE,
    FROM_CORPUS,
    FROM_PROMPT,
    FROM_RECYCLING,
    Drafter,
    Pin,
    Pinned,
    Specification,
    chain,
    limited,
    search,
)
from fastcoder_lsp.draft.matching import GAP, History
from fastcoder_lsp.draft.recycling import RecyclingDrafter, RecyclingParameters
from fastcoder_lsp.index.searcher import LONGEST

_PLACES = 64  # longest matches in the corpus that are looked at, to draft from the first; an even sample of more
_WINDOW = 8192  # tokens of the running text that `sam`'s dynamic automaton starts with; it holds twice as many


@dataclass(frozen=True, slots=True)
class SuffixParameters:
    """Parameters of `suffix`."""

    factor: float = 4.0  # a match of m tokens drafts at most factor·m + offset nodes (SuffixDecoding: α·p)
    offset: float = 0.0  # the offset in that
    least: float = 0.02  # the likelihood below which a node is not drafted
    window: int = limited(8192, least=1)  # newest tokens of the running text that are looked at
    history: int = limited(4096, least=1)  # tokens of earlier outputs that are kept for one document


SUFFIX = Specification(
    "suffix",
    "the likeliest continuations of the longest matches in prompt, output and earlier output in this document",
    SuffixParameters(),
    lambda parameters, _parts: SuffixDrafter(parameters),
    paper="Oliaro et al. 2024, SuffixDecoding; Hu et al. 2024, SAM-Decoding",
    sources=(FROM_PROMPT, FROM_CACHE),
    remembers=True,
)


@dataclass(slots=True)
class _DocumentState:
    """Outputs in a document, each ended by GAP, and their automaton (made when first needed)."""

    outputs: list[int] = field(default_factory=list)
    automaton: SuffixAutomaton | None = None


class SuffixDrafter(Drafter):
    """Drafts from two automata, of this decode and of the document's earlier ones."""

    def __init__(self, parameters: SuffixParameters | None = None) -> None:
        self._parameters = params = parameters or SuffixParameters()
        self._documents = PerDocument(_DocumentState)
        super().__init__(SUFFIX, self._documents)
        self._document = self._documents.fetch("")
        self._running = SuffixAutomaton(2 * params.window)
        self._history = History()
        self._prompt_length = 0
        self._taken = 0  # tokens of `_history` that the automata have seen

    def begin(self, context: DraftContext) -> None:
        """Add the last decode's output to its document's history, and restart the running automaton from the prompt."""
        self._remember()
        self._document = self._documents.fetch(context.document)
        self._history.begin(context)
        self._prompt_length = len(context.tokens)
        window = self._history.tokens[-self._parameters.window :]
        self._running.clear()
        self._running.extend(window)
        self._taken = len(self._history)
        if self._document.automaton is not None:
            self._document.automaton.rewind()
            self._document.automaton.follow(window)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """The draft of the automaton with the greater expected acceptance."""
        params, past = self._parameters, self._document.automaton
        self._history.follow(context)
        fresh = new = self._history.tokens[self._taken :]
        self._taken = len(self._history)
        if self._running.size + len(fresh) > self._running.capacity:
            self._running.clear()
            fresh = self._history.tokens[-params.window :]
        self._running.extend(fresh)
        if nodes < 1:
            return NO_DRAFT
        found_3N = np.zeros((3, nodes), np.int32)
        count, match, score = self._running.draft(
            found_3N, own=True, factor=params.factor, offset=params.offset, least=params.least
        )
        source = FROM_PROMPT
        if past is not None:
            past.follow(new)
            other_3N = np.zeros((3, nodes), np.int32)
            found = past.draft(other_3N, own=False, factor=params.factor, offset=params.offset, least=params.least)
            if found[2] > score:
                (count, match, score), found_3N, source = found, other_3N, FROM_CACHE
        tokens, parents, _ = found_3N[:, :count].tolist()
        return Draft(tuple(tokens), tuple(parents), (source.name,) * count, (match,) * count)

    def observe(self, tree: DraftTree, verified: Verified) -> None:  # noqa: ARG002 the interface
        """Take the last tokens, which no next context brings."""
        self._history.append(verified.emitted)

    def _remember(self) -> None:
        """Append the last decode's output to its document's history; if that is full, drop its oldest half."""
        output = self._history.tokens[self._prompt_length :].tolist()
        document, limit = self._document, self._parameters.history
        if not output:
            return
        document.outputs += [*output[-limit // 2 :], GAP]
        if document.automaton is None:
            document.automaton = SuffixAutomaton(2 * limit)
        elif len(document.outputs) <= 2 * limit:
            document.automaton.extend(np.array(document.outputs[-len(output[-limit // 2 :]) - 1 :], np.int32))
            return
        document.outputs = document.outputs[-limit:]
        document.automaton.clear()
        document.automaton.extend(np.array(document.outputs, np.int32))


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
