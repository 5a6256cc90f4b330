"""What a drafter that runs a model takes and brings, as far as that is known before it was ever asked.

Owns the record and how a draft is timed; what one draft is made of, each drafter says.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

BELIEVED = 2.0
"""Tokens that a drafter about which nobody knows anything is believed to have accepted in a step, alone."""
MOST = 8.0
"""No record is believed to promise more."""
TYPICAL = 512
"""Tokens of a text over which a draft is timed, where that many are read."""
TIMES = 4
OWN_TIME = time.perf_counter if os.name == "nt" else time.thread_time
"""The calling thread's own, which a busy machine does not hurry; Windows counts that in steps of 16 ms."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one draft.

    Attributes:
        ms: what it takes.
        tokens: of it, how many are accepted in a step where nobody else drafts.
    """

    ms: float
    tokens: float = BELIEVED


def timed(draft: Callable[[], object], figures: Mapping[str, float], clock: Callable[[], float] = OWN_TIME) -> Forecast:
    """The forecast of a drafter that computes something.

    Args:
        draft: the arithmetic of one draft; it is run some times, and the least counts, for other work only adds.
        figures: of its record: what it reached on texts that were held out.
        clock: in seconds.
    """
    least = float("inf")
    draft()  # what is compiled at first is no price
    for _ in range(TIMES):
        before = clock()
        draft()
        least = min(least, (clock() - before) * 1e3)
    alone = figures.get("tokens_a_pass")
    return Forecast(max(least, 0.0), BELIEVED if alone is None else min(max(alone - 1.0, 0.0), MOST))
