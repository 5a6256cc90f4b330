"""Any drafter as a source of `auto`: how sources that say anything at all are put beside the real ones."""

from collections.abc import Sequence

import numpy as np

from fastcoder_lsp.core import DraftContext, DraftTree, Verified
from fastcoder_lsp.draft.auto.evidence import TRAINED
from fastcoder_lsp.draft.auto.sources import ContinuationSource, FoundContinuations
from fastcoder_lsp.draft.base import Drafter, Pinned


class DrafterSource(ContinuationSource):
    """The guesses of `drafter`, at most `nodes`: each path of its tree is a continuation. It sees the verified tree."""

    def __init__(self, drafter: Drafter, nodes: int) -> None:
        self.name, self.top_k, self._drafter, self._nodes = drafter.name, drafter.traits.top_k, drafter, nodes

    def begin(self, context: DraftContext, stores: Pinned) -> None:
        self._drafter.begin(context)

    def find(self, context: DraftContext, found: FoundContinuations) -> None:
        draft = self._drafter.propose(context, self._nodes)
        inner = set(draft.parents)
        for leaf in range(len(draft.tokens)):
            if leaf in inner:
                continue
            path: list[int] = []
            node = leaf
            while node >= 0 and len(path) <= leaf:
                path.append(draft.tokens[node])
                node = draft.parents[node]
            row = np.array(path[::-1][: found.depth], np.int32)
            found.add(row[None], TRAINED, draft.matches[leaf] if draft.matches else 1)

    def observe(self, tree: DraftTree, verified: Verified, accepted: Sequence[int], start: int) -> None:
        self._drafter.observe(tree, verified)
