"""How many rows a verification should have: the arithmetic of cost, apart from where the numbers come from.

Owns the curve of milliseconds by number of drafts; `auto_growth` ends a tree by it.
"""

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
