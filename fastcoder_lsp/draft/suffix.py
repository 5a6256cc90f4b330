"""Suffix drafting: the likeliest continuations of the longest matches in prompt, output, and the document's history.

SuffixDecoding (Oliaro et al. 2024; Arctic Inference): a draft's size grows with the length of its match, its nodes are
the likeliest by frequency, and the source with the greatest expected acceptance is taken; SAM-Decoding (Hu et al.
2024): a suffix automaton, extended as tokens come. Here one automaton holds the running decode, another what the model
has said in this document before.
"""

from dataclasses import dataclass, field

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Verified
from fastcoder_lsp.documents import PerDocument
from fastcoder_lsp.draft.automaton import SuffixAutomaton
from fastcoder_lsp.draft.base import FROM_CACHE, FROM_PROMPT, BaseDrafter, Specification
from fastcoder_lsp.draft.history import History
from fastcoder_lsp.draft.matching import GAP


@dataclass(frozen=True, slots=True)
class SuffixParameters:
    """How much is drafted of a match.

    Attributes:
        factor: a match of m tokens drafts at most factor·m + offset nodes (SuffixDecoding: α·p).
        offset: the offset in that.
        least: the likelihood below which a node is not drafted.
        window: tokens of the running text that are looked at, the newest.
        history: tokens of earlier outputs that are kept for one document.
    """

    factor: float = 4.0
    offset: float = 0.0
    least: float = 0.02
    window: int = 8192
    history: int = 4096


SUFFIX = Specification(
    "suffix",
    "the likeliest continuations of the longest matches in prompt, output and what the model said in this document",
    SuffixParameters(),
    lambda parameters, _parts: SuffixDrafter(parameters),
    paper="Oliaro et al. 2024, SuffixDecoding; Hu et al. 2024, SAM-Decoding",
    sources=(FROM_PROMPT, FROM_CACHE),
    remembers=True,
)


@dataclass(slots=True)
class _Document:
    """What the model said in a document: outputs, each ended by GAP, and their automaton (made when first needed)."""

    outputs: list[int] = field(default_factory=list)
    automaton: SuffixAutomaton | None = None


class SuffixDrafter(BaseDrafter):
    """Drafts from two automata, of this decode and of the document's earlier ones."""

    def __init__(self, parameters: SuffixParameters | None = None) -> None:
        self._parameters = asked = parameters or SuffixParameters()
        self._documents = PerDocument(_Document)
        super().__init__(SUFFIX, self._documents)
        self._document = self._documents.fetch("")
        self._running = SuffixAutomaton(2 * asked.window)
        self._history = History()
        self._prompt_length = 0
        self._taken = 0
        """Tokens of `_history` that the automata have seen."""

    def begin(self, context: DraftContext) -> None:
        """The last decode's output becomes history of its document; the running automaton starts from the prompt."""
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
        """The better of the two automata's drafts, by what is expected to be accepted of them."""
        asked, past = self._parameters, self._document.automaton
        self._history.follow(context)
        fresh = new = self._history.tokens[self._taken :]
        self._taken = len(self._history)
        if self._running.size + len(fresh) > self._running.capacity:
            self._running.clear()
            fresh = self._history.tokens[-asked.window :]
        self._running.extend(fresh)
        if nodes < 1:
            return NO_DRAFT
        found_3N = np.zeros((3, nodes), np.int32)
        count, match, score = self._running.draft(
            found_3N, own=True, factor=asked.factor, offset=asked.offset, least=asked.least
        )
        source = FROM_PROMPT
        if past is not None:
            past.follow(new)
            other_3N = np.zeros((3, nodes), np.int32)
            found = past.draft(other_3N, own=False, factor=asked.factor, offset=asked.offset, least=asked.least)
            if found[2] > score:
                (count, match, score), found_3N, source = found, other_3N, FROM_CACHE
        tokens, parents, _ = found_3N[:, :count].tolist()
        return Draft(tuple(tokens), tuple(parents), (source.name,) * count, (match,) * count)

    def observe(self, tree: DraftTree, verified: Verified) -> None:  # noqa: ARG002 the interface
        """The accepted tokens come with the next context; the last ones are taken from here, for none follows."""
        self._history.append(verified.emitted)

    def _remember(self) -> None:
        """Append the output of the decode that ended to its document's history, the oldest half falls if it is full."""
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
