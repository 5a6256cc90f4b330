"""Scores of answers, and whether two ways of asking differ: pure arithmetic."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over tasks and its standard error."""

    mean: float
    standard_error: float
    tasks: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """The mean of at least one value, with its standard error."""
        spread = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
        return cls(fmean(values), spread, len(values))

    def to_json(self) -> dict[str, Any]:
        """The scores as JSON, for reports."""
        return asdict(self)


def paired(left: Mapping[str, float], right: Mapping[str, float]) -> Mean | None:
    """`right` minus `left` over the tasks that both have; None where they share none."""
    differences = [right[task] - left[task] for task in left if task in right]
    return Mean.of(differences) if differences else None


def edit_similarity(left: str, right: str) -> float:
    """1 - Levenshtein distance / length of the longer; 1 for equal texts. RepoCoder's measure."""
    if not left and not right:
        return 1.0
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return 1 - row[-1] / max(len(left), len(right))
