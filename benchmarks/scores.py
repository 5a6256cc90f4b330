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
    def of(cls, values: Sequence[float], clusters: Sequence[str] | None = None) -> "Mean":
        """The mean of at least one value, with its standard error; `clusters` says what each value belongs with."""
        if clusters is not None:
            return cls(fmean(values), clustered_error(values, clusters), len(values))
        spread = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
        return cls(fmean(values), spread, len(values))

    def to_json(self) -> dict[str, Any]:
        """The scores as JSON, for reports."""
        return asdict(self)


def clustered_error(values: Sequence[float], clusters: Sequence[str]) -> float:
    """The standard error of a mean whose values are alike within clusters: Liang and Zeger's, for a mean.

    Zero for a single cluster, which tells nothing of others.
    """
    middle, sums = fmean(values), dict.fromkeys(clusters, 0.0)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value - middle
    return error_of_sum(list(sums.values())) / len(values)


def error_of_sum(rests: Sequence[float]) -> float:
    """The standard error of a sum of numbers that are zero on average; zero for a single one."""
    count = len(rests)
    return sqrt(count / (count - 1) * sum(rest * rest for rest in rests)) if count > 1 else 0.0


def paired(
    left: Mapping[str, float], right: Mapping[str, float], clusters: Mapping[str, str] | None = None
) -> Mean | None:
    """`right` minus `left` over the tasks that both have; None where they share none."""
    tasks = [task for task in left if task in right]
    differences = [right[task] - left[task] for task in tasks]
    return (
        Mean.of(differences, [clusters[task] for task in tasks] if clusters is not None else None)
        if differences
        else None
    )


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
