"""What typing the same parts in two ways came to, side by side: pure arithmetic."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, median
from typing import Any

from benchmarks.typing.desk import Typed


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of the same parts, `left` and `right`, pooled over all keys.

    Attributes:
        parts, keys: how many.
        left, right: accepted share, percent.
        gained: the difference in points, with `error`, its standard error by part; 0 for a single part, which tells
            nothing of others.
        tokens_left, tokens_right: prompt tokens computed a key.
        mat_left, mat_right: tokens a forward pass after the prompt.
        wait_left_ms, wait_right_ms: the median wait for a text that was shown.
        mean_left_ms, mean_right_ms: its mean. Half of all texts are there at once and others take a step or a
            prompt, so that the median may stand at the edge between them, and move far for little.
        shown_left, shown_right: requests answered by text, percent.
    """

    parts: int
    keys: int
    left: float
    right: float
    gained: float
    error: float
    tokens_left: float
    tokens_right: float
    mat_left: float
    mat_right: float
    wait_left_ms: float
    wait_right_ms: float
    mean_left_ms: float
    mean_right_ms: float
    shown_left: float
    shown_right: float

    def to_json(self) -> dict[str, Any]:
        """The numbers, for a report."""
        return asdict(self)


def compared(left: Sequence[Typed], right: Sequence[Typed]) -> Comparison:
    """The comparison of at least one part, typed in both ways."""
    keys = sum(one.keys for one in left)
    gained = sum(b.saved - a.saved for a, b in zip(left, right, strict=True)) / keys
    rests = [b.saved - a.saved - gained * a.keys for a, b in zip(left, right, strict=True)]
    count = len(rests)
    error = sqrt(count / (count - 1) * sum(rest * rest for rest in rests)) / keys if count > 1 else 0.0
    return Comparison(
        count,
        keys,
        100 * sum(one.saved for one in left) / keys,
        100 * sum(one.saved for one in right) / keys,
        100 * gained,
        100 * error,
        *(sum(one.computed for one in side) / keys for side in (left, right)),
        *(sum(one.emitted for one in side) / max(1, sum(one.steps for one in side)) for side in (left, right)),
        *(median(_waits(side) or [0.0]) for side in (left, right)),
        *(fmean(_waits(side) or [0.0]) for side in (left, right)),
        *(100 * sum(one.shown for one in side) / max(1, sum(one.asked for one in side)) for side in (left, right)),
    )


def _waits(side: Sequence[Typed]) -> list[float]:
    return [wait_ms for one in side for wait_ms in one.waits_ms]
