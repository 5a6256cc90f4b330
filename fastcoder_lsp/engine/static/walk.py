"""Which guesses were right, walked on the host: it gets what every row says anyway, and a walk is microseconds.

On the device the same took some thirty launches of a microsecond's work each.
"""

from collections.abc import Sequence

from fastcoder_lsp.core import DraftTree


def follow(tree: DraftTree, said: Sequence[int], room: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Accepted guesses, root side first, and emitted tokens: theirs, and the model's own next one.

    One look at each guess suffices, for it stands behind its parent, and no two children of a row hold the same token.

    Args:
        tree: the rows.
        said: the token that every row says.
        room: how many guesses may be accepted at most.
    """
    path, emitted = list[int](), list[int]()
    node = tree.pending - 1
    token = said[node]
    emitted.append(token)
    tokens, parents = tree.tokens, tree.parents
    for child in range(tree.pending, len(tree)):
        if parents[child] == node and tokens[child] == token and len(path) < room:
            node, token = child, said[child]
            path.append(node)
            emitted.append(token)
    return tuple(path), tuple(emitted)
