"""Drafting by suffix automata.

SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975, section 4): a match of p tokens drafts at most α·p nodes. They are
taken greedily by D, the product of the shares of occurrences along the path; the match, of any length and in either
index, whose draft has the greatest sum of D is taken. As in SAM-Decoding (Hu et al. 2024) an index is an automaton,
extended as tokens come. One holds the running decode, another the earlier outputs in the document, where the paper has
those of all requests.
"""

from dataclasses import dataclass, field

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import FROM_CACHE, FROM_PROMPT, Drafter, Specification, limited
from fastcoder_lsp.draft.matching import GAP, History


@dataclass(frozen=True, slots=True)
class SuffixParameters:
    """Parameters of `suffix`."""

    factor: float = 4.0  # a match of m tokens drafts at most factor·m + offset nodes (SuffixDecoding: α·p)
    offset: float = 0.0  # the offset in that
    least: float = 0.0  # the likelihood below which a node is not drafted (the paper has no such bound)
    window: int = limited(8192, least=1)  # newest tokens of the running text that are looked at
    history: int = limited(4096, least=1)  # tokens of earlier outputs that are kept for one document


SUFFIX = Specification(
    "suffix",
    "the likeliest continuations of the longest matches in prompt, output and earlier output in this document",
    SuffixParameters(),
    lambda parameters, _parts: SuffixDrafter(parameters),
    paper="Oliaro et al. 2024, SuffixDecoding (arXiv 2411.04975)",
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
