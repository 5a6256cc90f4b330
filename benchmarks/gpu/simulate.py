"""Part 3: simulated acceptance: how long the recorded steps of the 0.5B model would take on models of true shapes.

Owns the sum: a step of r rows over n cached tokens takes the device what part 2 measured for it, the host its gap, and
the drafter what it took when it was recorded (on the machine that recorded it). Nothing is accepted here, for random
weights say nothing. That larger models accept what the small one did is an assumption, and the tables say *simulated*.
"""

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.gpu.acceptance import PLAIN, Dataset
from benchmarks.gpu.steps import StepTimes

ASKING = ("auto",)
"""Approaches that ask for the best ids of every row."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """One cell: a dataset in a setting, an approach, a model."""

    dataset: str
    setting: str
    approach: str
    model: str
    ms_per_token: float
    mat: float
    over_plain: float
    over_eager: float | None


def simulate(datasets: Iterable[Dataset], model: str, times: StepTimes, eager_ms: float | None) -> list[Simulated]:
    """All approaches of all datasets on one model.

    Args:
        datasets: the recordings.
        model: its name.
        times: of its steps.
        eager_ms: of a step of eager transformers with one row; None where it was not measured.
    """
    found = []
    gap_ms = max(times.gap_us(), 0.0) / 1e3
    for dataset in datasets:
        plain = _ms_per_token(dataset, PLAIN, times, gap_ms)
        for approach in dataset.approaches:
            ms = _ms_per_token(dataset, approach, times, gap_ms)
            found.append(
                Simulated(
                    dataset=dataset.name,
                    setting=dataset.setting,
                    approach=approach,
                    model=model,
                    ms_per_token=ms,
                    mat=_mat(dataset, approach),
                    over_plain=plain / ms,
                    over_eager=eager_ms / ms if eager_ms is not None else None,
                )
            )
    return found


def told(cell: Simulated) -> dict[str, Any]:
    """A cell as plain values."""
    return asdict(cell)


def draft_us(datasets: Iterable[Dataset], approach: str) -> float | None:
    """Median microseconds of drafting, where it was recorded."""
    found = [
        step.draft_us for dataset in datasets for task in dataset.tasks for step in task.approaches.get(approach, ())
    ]
    return statistics.median(found) if found else None


def _ms_per_token(dataset: Dataset, approach: str, times: StepTimes, gap_ms: float) -> float:
    total, tokens = 0.0, 0
    for task in dataset.tasks:
        for cached, step in task.steps(approach):
            total += times.interpolated(step.rows, cached, best=approach in ASKING) + gap_ms + step.draft_us / 1e3
            tokens += step.emitted
    return total / tokens


def _mat(dataset: Dataset, approach: str) -> float:
    steps = [step for task in dataset.tasks for step in task.approaches[approach]]
    return sum(step.emitted for step in steps) / len(steps)
