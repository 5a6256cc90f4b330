"""Prompt lookup: the continuation of the longest match of the text's end in the text.

Saxena 2023, *Prompt Lookup Decoding*. There the *first* match of at most 3 tokens is copied, 10 tokens of it; here the
longest match is searched from the end, for recent text is the likelier to be repeated.
"""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext
from fastcoder_lsp.draft.base import FROM_PROMPT, Drafter, Specification, chain
from fastcoder_lsp.draft.matching import History, match_suffix


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
