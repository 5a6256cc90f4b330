"""REST: continuations of the longest match of the text's end in common code.

He et al. 2024, *REST: Retrieval-Based Speculative Decoding*. Section 3.2: the suffix of the context, n_max tokens and
then shorter and shorter, is searched in a suffix array until something is found; section 3.3: the continuations make a
trie, whose prefixes are weighted by their frequency, and the heaviest nodes are drafted. The suffix array finds the
longest match in one search, so no length is tried in vain. Only D_c is searched.
"""

from dataclasses import dataclass

from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext
from fastcoder_lsp.draft.base import FROM_CORPUS, Drafter, Pin, Pinned, Specification, limited, search
from fastcoder_lsp.index.searcher import LONGEST
from fastcoder_lsp.papers.trees import Growth


@dataclass(frozen=True, slots=True)
class RestParameters:
    """Parameters of `rest`."""

    n_max: int = limited(16, most=LONGEST)  # the longest suffix that is searched
    n_min: int = 1  # the shortest suffix that is searched
    depth: int = 10  # tokens of each continuation
    draft_tokens: int = 64  # nodes of a draft
    max_hits: int = 256
    """Continuations at most, an even sample of more. (REST takes the first 5,000; with D_c of 3 million tokens a sample
    of 256 gives the same tree except its rarest nodes, in a twentieth of the time.)."""


REST = Specification(
    "rest",
    "common code (D_c)",
    RestParameters(),
    lambda parameters, parts: RestDrafter(parts.pin, parameters),
    paper="He et al. 2024, REST, sections 3.2 and 3.3",
    sources=(FROM_CORPUS,),
    reads=frozenset({"corpus"}),
)


class RestDrafter(Drafter):
    """Retrieves continuations of the last tokens from the corpus datastore (D_c)."""

    def __init__(self, pin: Pin, parameters: RestParameters | None = None) -> None:
        super().__init__(REST)
        self._pin, self._parameters = pin, parameters or RestParameters()
        self._stores = Pinned()
        self._growth = Growth(self._parameters.max_hits, self._parameters.depth)

    @override
    def begin(self, context: DraftContext) -> None:
        self._stores = self._pin(context.document)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        params = self._parameters
        hits = search(self._stores.corpus, context.tokens, params.n_max, params.max_hits, params.depth, params.n_min)
        if hits is None:
            return NO_DRAFT
        self._growth.clear()
        self._growth.add(hits.continuations_HD, 1.0, FROM_CORPUS.name, hits.length)
        return self._growth.draft(min(nodes, params.draft_tokens))


SPECIFICATIONS = (REST,)
