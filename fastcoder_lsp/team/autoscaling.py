"""Computes the number of replicas from open and waiting requests and the time to first text; Serve decides when."""

import math
from typing import Any

FIRST_TEXT = "first_text_ms"
"""The name of the replicas' figure: the 95th percentile of their recent times to first text, in milliseconds."""
_MOST_STEP = 2.0
"""Largest growth at once, as a factor: slow answers while replicas load must not start ever more of them."""


def wanted(replicas: int, requests: float, *, target_open: float, first_text_ms: float, target_ms: float) -> int:
    """The wanted number of replicas, before the bounds.

    `requests`: open and waiting ones of all replicas. `target_open`: the target of open requests a replica.
    `first_text_ms`: the worst replica's figure, 0 without requests, and `target_ms` its target.
    """
    by_queue = requests / target_open
    # Time grows with open requests a replica: twice the target time needs twice the replicas. With hardly any open
    # requests the machine itself is slow, and another replica would not help.
    slow = first_text_ms / target_ms if requests > replicas else 1.0
    by_time = replicas * min(_MOST_STEP, slow) if slow > 1.0 else 0.0
    return math.ceil(min(max(by_queue, by_time), max(1, replicas) * _MOST_STEP))


class ScalingPolicy:
    """Serve's policy, created by name: its targets are open requests a replica, and milliseconds to first text."""

    def __init__(self, target_open: float, target_ms: float) -> None:
        self._target_open, self._target_ms = target_open, target_ms

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """The number of replicas for a `ray.serve.config.AutoscalingContext`, and no state."""
        reported = (context.aggregated_metrics or {}).get(FIRST_TEXT, {})
        number = wanted(
            context.current_num_replicas,
            context.total_num_requests,
            target_open=self._target_open,
            first_text_ms=max(reported.values(), default=0.0),
            target_ms=self._target_ms,
        )
        return max(context.capacity_adjusted_min_replicas, min(context.capacity_adjusted_max_replicas, number)), {}
