"""Token healing within verification: the first tokens must spell the token that the user has begun to type.

Owns the bytes that are left to spell along a path of tokens. The caller passes the tokenizer's ids for given bytes.
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
    """The state of healing: the next tokens must first spell the `remaining` bytes."""

    remaining: bytes
    piece: Piece
    allow: Allow

    def after(self, token: int) -> "Healing | None":
        """The state after `token`; None if the token contradicts the text."""
        if not self.remaining:
            return self
        text = self.piece(token)
        if not text or not (text.startswith(self.remaining) or self.remaining.startswith(text)):
            return None
        return replace(self, remaining=self.remaining[len(text) :])


def allowed_ids(tree: DraftTree, healing: Healing) -> Mapping[int, npt.NDArray[np.int64]]:
    """Node → the ids that may follow it, for nodes whose successors are restricted."""
    if not healing.remaining:
        return {}
    root = tree.pending - 1
    states = {root: healing}
    for node in range(tree.pending, len(tree)):
        state = states[tree.parents[node]].after(tree.tokens[node])
        assert state is not None, "build_tree lets no contradicting node through"
        states[node] = state
    return {node: healing.allow(state.remaining) for node, state in states.items() if state.remaining}
