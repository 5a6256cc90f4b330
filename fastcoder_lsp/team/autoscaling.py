"""How many replicas there should be: by what is open and waits, and by how long it takes until there is text.

Owns the arithmetic; Serve owns when it is asked, and for how long an answer has to hold before it is followed.
"""

import math
from typing import Any

FIRST_TEXT = "first_text_ms"
"""The name of what replicas report: the 95th of a hundred of their latest answers, in milliseconds."""
_MOST_STEP = 2.0
"""At most so many times as many at once: what is slow while replicas load must not ask for ever more."""


def wanted(replicas: int, requests: float, *, target_open: float, first_text_ms: float, target_ms: float) -> int:
    """How many replicas, before the bounds.

    Args:
        replicas: that run now.
        requests: open and waiting, of all replicas.
        target_open: of them a replica.
        first_text_ms: the worst replica's; 0 where nobody asked.
        target_ms: that it should stay below.
    """
    by_queue = requests / target_open
    # Time grows with what is open a replica; who takes twice what it should needs twice the replicas. Where hardly
    # anything is open it is the machine that is slow, and another replica would not help.
    slow = first_text_ms / target_ms if requests > replicas else 1.0
    by_time = replicas * min(_MOST_STEP, slow) if slow > 1.0 else 0.0
    return math.ceil(min(max(by_queue, by_time), max(1, replicas) * _MOST_STEP))


def policy(context: Any, *, target_open: float, target_ms: float) -> tuple[int, dict[str, Any]]:
    """Serve's question (`ray.serve.config.AutoscalingContext`); the number, and nothing to remember."""
    reported = (context.aggregated_metrics or {}).get(FIRST_TEXT, {})
    number = wanted(
        context.current_num_replicas,
        context.total_num_requests,
        target_open=target_open,
        first_text_ms=max(reported.values(), default=0.0),
        target_ms=target_ms,
    )
    return max(context.capacity_adjusted_min_replicas, min(context.capacity_adjusted_max_replicas, number)), {}


class ScalingPolicy:
    """`policy` with its targets, as Serve makes it from its name and their values."""

    def __init__(self, target_open: float, target_ms: float) -> None:
        self._target_open, self._target_ms = target_open, target_ms

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """The number of replicas."""
        return policy(context, target_open=self._target_open, target_ms=self._target_ms)
