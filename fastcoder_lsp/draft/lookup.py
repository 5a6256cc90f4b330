"""Prompt lookup: what followed the most recent longest match of the text's end, in prompt and output.

Saxena 2023, *Prompt Lookup Decoding*. There the *first* match of at most 3 tokens is copied, 10 tokens of it; here the
longest match is searched from the end, since what was said last is the likelier to be said again.
"""

from dataclasses import dataclass

import numpy as np

from fastcoder_lsp.core import NO_DRAFT, Draft, DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.history import History
from fastcoder_lsp.draft.kernels import match_suffix


@dataclass(frozen=True, slots=True)
class LookupParameters:
    """`n_max`, `n_min`: longest and shortest match in tokens; `length`: tokens drafted."""

    n_max: int = 16
    n_min: int = 1
    length: int = 10


class LookupDrafter:
    """Drafts one chain: the continuation of the latest longest match."""

    name = "lookup"
    top_k = 0

    def __init__(self, parameters: LookupParameters | None = None) -> None:
        self._parameters = parameters or LookupParameters()
        self._history = History()
        self._end_1 = np.zeros(1, np.int64)

    def begin(self, context: DraftContext) -> None:
        """See `core.Drafter`."""
        self._history.begin(context)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """See `core.Drafter`."""
        self._history.follow(context)
        asked, tokens = self._parameters, self._history.tokens
        match, found = match_suffix(tokens, tokens, asked.n_max, asked.n_min, self._end_1)
        if not found:
            return NO_DRAFT
        start, length = int(self._end_1[0]), min(asked.length, nodes)
        copied = tokens[start : start + length].tolist()
        # A match that reaches into the text's end is a loop: go on with what was just drafted.
        while len(copied) < length:
            copied.append(copied[start + len(copied) - len(tokens)])
        return Draft(tuple(copied), tuple(range(-1, length - 1)), ("prompt",) * length, (match,) * length)

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """The text itself is all there is to learn from."""

    def forget(self, document: str) -> None:
        """Nothing outlives a decode."""

    def rename(self, old: str, new: str) -> None:
        """Nothing outlives a decode."""
