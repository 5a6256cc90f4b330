"""Token healing inside the verification: the first tokens must spell what the user typed of a half-finished token.

Owns the state "which bytes are still to be spelt" along a path of tokens. Which ids may start with given bytes is the
tokenizer's knowledge and is handed in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftTree

Piece = Callable[[int], bytes]
"""The bytes of a token's text."""
Allow = Callable[[bytes], npt.NDArray[np.int64]]
"""The ids that agree with given bytes: their text starts with them, or they start with it. Never empty."""


@dataclass(frozen=True, slots=True)
class Healing:
    """`remaining` bytes are to be spelt before anything new may be said."""

    remaining: bytes
    piece: Piece
    allow: Allow

    def after(self, token: int) -> "Healing | None":
        """What is left once `token` was said; None where the token contradicts the text."""
        if not self.remaining:
            return self
        text = self.piece(token)
        if not text or not (text.startswith(self.remaining) or self.remaining.startswith(text)):
            return None
        return replace(self, remaining=self.remaining[len(text) :])


def allowed_ids(tree: DraftTree, healing: Healing) -> Mapping[int, npt.NDArray[np.int64]]:
    """Node → the ids that may follow it, for the nodes whose successors are not free."""
    if not healing.remaining:
        return {}
    root = tree.pending - 1
    states = {root: healing}
    for node in range(tree.pending, len(tree)):
        state = states[tree.parents[node]].after(tree.tokens[node])
        assert state is not None, "build_tree lets no contradicting node through"
        states[node] = state
    return {node: healing.allow(state.remaining) for node, state in states.items() if state.remaining}
