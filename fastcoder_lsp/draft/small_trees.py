"""Trees of what a smaller model may say: the likeliest paths, layer by layer.

EAGLE-2 (Li et al. 2024, section 4): of each layer the nodes with the likeliest paths are expanded, and in the end the
likeliest of all nodes are drafted; a path is as likely as the product of its nodes. One pass a layer runs all nodes
that were expanded so far: an engine keeps what it accepted, and nothing else of a tree, so the earlier ones are run
again, which costs rows and no pass.

Owns the growth; knows no text.
"""

from typing import NamedTuple

import numpy as np

from fastcoder_lsp.core import Sampler
from fastcoder_lsp.draft.smaller import BEST, SmallModel, shares


class Nodes(NamedTuple):
    """Guesses below the text's end, parents before children, and how likely each path is."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    likely: tuple[float, ...]


def likeliest(
    model: SmallModel, sampler: Sampler, nodes: int, depth: int, branch: int, beam: int, least: float
) -> Nodes:
    """The tree of at most `nodes` guesses.

    Args:
        model: stands at the text's end, and does so after.
        sampler: how the model's tokens are chosen.
        nodes: how many guesses are drafted.
        depth: layers at most.
        branch: children that are looked at below a node.
        beam: nodes of a layer that are expanded.
        least: paths that are less likely are left out.
    """
    tokens, parents, likely, depths = list[int](), list[int](), list[float](), list[int]()
    expanded: list[int] = []
    layer = [-1]
    seen = branch if sampler.temperature <= 0 else max(branch, BEST)
    for level in range(depth):
        place = {node: row for row, node in enumerate(expanded)}
        ids_NK, logits_NK = model.look(
            [tokens[node] for node in expanded], [place.get(parents[node], -1) for node in expanded], seen
        )
        first = len(tokens)
        for node in layer:
            row = 0 if node < 0 else place[node] + 1
            chances = shares(ids_NK[row], logits_NK[row], sampler, model.position() + level)
            above = 1.0 if node < 0 else likely[node]
            for rank in np.argsort(-chances, kind="stable")[:branch].tolist():
                token, chance = int(ids_NK[row, rank]), float(chances[rank])
                if above * chance >= least:
                    tokens.append(token)
                    parents.append(node)
                    likely.append(above * chance)
                    depths.append(level)
        fits = max(min(beam, model.rows() - len(expanded)), 0)
        layer = sorted(range(first, len(tokens)), key=lambda node: -likely[node])[:fits]
        # Nodes that no draft would hold are not worth a pass.
        edge = sorted(likely, reverse=True)[nodes - 1] if len(likely) >= nodes else 0.0
        layer = sorted(node for node in layer if likely[node] >= edge)
        if not layer:
            break
        expanded += layer
    chosen = sorted(np.argsort(-np.array(likely), kind="stable")[:nodes].tolist())
    place = {node: row for row, node in enumerate(chosen)}
    return Nodes(
        tuple(tokens[node] for node in chosen),
        tuple(place.get(parents[node], -1) for node in chosen),
        tuple(likely[node] for node in chosen),
    )
