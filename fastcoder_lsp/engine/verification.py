"""Which drafts of a tree the model agrees with: pure walking from the root, drawing once per node that is reached.

Owns the rule that every row's token is what plain decoding would say; `rejection` has the other one.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import DraftTree, Sampler
from fastcoder_lsp.engine.rejection import accept_by_rejection
from fastcoder_lsp.engine.sampling import choose


def accept(
    tree: DraftTree,
    logits_RV: npt.NDArray[np.float32],
    sampler: Sampler,
    allowed: Mapping[int, npt.NDArray[np.int64]],
    cached: int,
    room: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The accepted draft nodes, root side first, and the tokens emitted: theirs and the model's own next one.

    Args:
        tree: the rows; those before the last pending one are not looked at.
        logits_RV: logits of the tree's last R rows, the last pending one among them.
        sampler: how a token is chosen.
        allowed: node → the only ids that may follow it.
        cached: tokens in the KV cache before the tree, which give a node its position.
        room: how many drafts may be accepted at most.
    """
    if sampler.rule == "rejection" and sampler.temperature > 0:
        return accept_by_rejection(tree, logits_RV, sampler, allowed, cached, room)
    children = tree.children()
    first = len(tree) - len(logits_RV)
    node = tree.pending - 1
    position = cached + tree.pending
    path: list[int] = []
    emitted: list[int] = []
    while True:
        token = choose(logits_RV[node - first], sampler, position + len(path), allowed.get(node))
        emitted.append(token)
        child = children.get(node, {}).get(token)
        if child is None or len(path) == room:
            return tuple(path), tuple(emitted)
        node = child
        path.append(child)
