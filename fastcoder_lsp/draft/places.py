"""A tree from candidates for each of the next places, where a place's candidates do not depend on those before it.

Heads that look ahead (Medusa) and blocks that are said at once (DFlash) give such candidates. Owns the growing: the
worth of a node is the product of the chances of its path, and the best node is taken first.
"""

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import NO_DRAFT, Draft


def tree_of_places(
    tokens_KB: npt.NDArray[np.int64],
    chances_KB: npt.NDArray[np.float64] | Sequence[Sequence[float]],
    nodes: int,
    name: str,
) -> Draft:
    """The `nodes` likeliest nodes.

    Args:
        tokens_KB: for each place its candidates, likeliest first.
        chances_KB: of each of them, falling along a row; a place ends at its first chance of 0.
        nodes: at most.
        name: of the source.
    """
    tokens: list[int] = []
    parents: list[int] = []
    # (−worth, place, rank, parent, worth of the parent): the next sibling follows when one is taken.
    heap: list[tuple[float, int, int, int, float]] = []

    def offer(place: int, rank: int, parent: int, above: float) -> None:
        known = place < min(len(tokens_KB), len(chances_KB))
        if known and rank < min(len(tokens_KB[place]), len(chances_KB[place])):
            worth = above * float(chances_KB[place][rank])
            if worth > 0:
                heapq.heappush(heap, (-worth, place, rank, parent, above))

    offer(0, 0, -1, 1.0)
    while heap and len(tokens) < nodes:
        worth, place, rank, parent, above = heapq.heappop(heap)
        node = len(tokens)
        tokens.append(int(tokens_KB[place][rank]))
        parents.append(parent)
        offer(place, rank + 1, parent, above)
        offer(place + 1, 0, node, -worth)
    if not tokens:
        return NO_DRAFT
    return Draft(tuple(tokens), tuple(parents), (name,) * len(tokens), (0,) * len(tokens))
