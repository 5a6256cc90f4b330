"""Prompt lookup and REST: continuations of the longest match of the text's end, in the text or in common code.

Saxena 2023, *Prompt Lookup Decoding*. There the *first* match of at most 3 tokens is copied, 10 tokens of it; here the
longest match is searched from the end, for recent text is the likelier to be repeated.

He et al. 2024, *REST: Retrieval-Based Speculative Decoding*. Section 3.2: the suffix of the context, n_max tokens and
then shorter and shorter, is searched in a suffix array until something is found; section 3.3: the continuations make a
trie, whose prefixes are weighted by their frequency, and the heaviest nodes are drafted. The suffix array finds the
longest match in one search, so no length is tried in vain. Only D_c is searched.
"""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext
from fastcoder_lsp.draft.base import (
    FROM_CORPUS,
    FROM_PROMPT,
    Drafter,
    Pin,
    Pinned,
    Specification,
    chain,
    limited,
    search,
)
from fastcoder_lsp.draft.matching import History, match_suffix
from fastcoder_lsp.draft.trees import Growth
from fastcoder_lsp.index.searcher import LONGEST


@dataclass(frozen=True, slots=True)
class LookupParameters:
    """Parameters of `lookup`: the longest and the shortest match, and the length of a draft, in tokens."""

    n_max: int = 16
    n_min: int = 1
    length: int = 10


LOOKUP = Specification(
    "lookup",
    "the latest longest match in prompt and output",
    LookupParameters(),
    lambda parameters, _parts: LookupDrafter(parameters),
    paper="Saxena 2023, prompt lookup",
    sources=(FROM_PROMPT,),
)


class LookupDrafter(Drafter):
    """Drafts one chain: the continuation of the latest longest match."""

    def __init__(self, parameters: LookupParameters | None = None) -> None:
        super().__init__(LOOKUP)
        self._parameters = parameters or LookupParameters()
        self._history = History()
        self._end_1 = np.zeros(1, np.int64)

    @override
    def begin(self, context: DraftContext) -> None:
        self._history.begin(context)

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        self._history.follow(context)
        params, tokens = self._parameters, self._history.tokens
        match, found = match_suffix(tokens, tokens, params.n_max, params.n_min, self._end_1)
        if not found:
            return NO_DRAFT
        start, length = int(self._end_1[0]), min(params.length, nodes)
        copied = tokens[start : start + length].tolist()
        # A match that reaches into the text's end is a loop: continue with the drafted tokens.
        while len(copied) < length:
            copied.append(copied[start + len(copied) - len(tokens)])
        return chain(copied, FROM_PROMPT, match)


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
