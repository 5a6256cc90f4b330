"""How many rows a verification should have: the arithmetic of cost, apart from where the numbers come from.

Owns the curve of milliseconds by number of drafts, and the rule in plain Python; `auto_growth` follows the same rule
while it grows a tree, and a test compares the two.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import StepCosts

DRAFT_MS = 0.15
"""What drafting and observing take in each step, drafts or not."""


@lru_cache(maxsize=256)
def draft_costs(costs: StepCosts | None, nodes: int) -> npt.NDArray[np.float64]:
    """Milliseconds of a step with 0…`nodes` drafts beside the pending token; empty where costs are not known."""
    if costs is None:
        return np.zeros(0)
    return np.array([costs.step_ms(1 + drafts) + DRAFT_MS for drafts in range(nodes + 1)])


def best_width(likely: Sequence[float], ms: Sequence[float]) -> int:
    """How many of the likeliest nodes to draft: the number with the most expected tokens a millisecond.

    Args:
        likely: probabilities that a node is accepted, falling; their sum is the expected number of accepted drafts.
        ms: what a step with 0, 1, 2, … drafts takes.
    """
    expected, best, most = 1.0, 0, 1.0 / ms[0]
    for drafts, probability in enumerate(likely, start=1):
        expected += probability
        if expected / ms[drafts] > most:
            best, most = drafts, expected / ms[drafts]
    return best
