"""One drafter replayed over the recordings of all tasks: tokens a forward pass (MAT), and what a draft costs."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.datasets.repoeval import Task
from benchmarks.drafting.drafters import DrafterParts, make
from benchmarks.drafting.replay import Step, replay
from benchmarks.drafting.task_parts import TaskParts, TaskPin, document_of
from benchmarks.drafting.traces import Trace
from fastcoder_lsp.core import Drafter
from fastcoder_lsp.observe import percentile


@dataclass(frozen=True, slots=True)
class Replayed:
    """One drafter's replay: the steps of each task."""

    drafter: Drafter
    steps: Mapping[str, Sequence[Step]]

    def mat(self, tasks: Sequence[str] | None = None) -> float:
        """Tokens over passes, pooled over `tasks`; all by default."""
        chosen = [self.steps[task] for task in (tasks if tasks is not None else self.steps)]
        passes = sum(map(len, chosen))
        return sum(step.emitted for steps in chosen for step in steps) / passes if passes else 0.0

    def figures(self) -> dict[str, Any]:
        """The figures of the report."""
        each = [sum(step.emitted for step in steps) / len(steps) for steps in self.steps.values()]
        every = [step for steps in self.steps.values() for step in steps]
        us = [step.us for step in every]
        accepted = Counter(source for step in every for source in step.sources)
        figures: dict[str, Any] = {
            "mat": self.mat(),
            "mat_mean": statistics.mean(each),
            "mat_median": statistics.median(each),
            "draft_us": {"p50": percentile(us, 0.5), "p99": percentile(us, 0.99)},
            "drafted": sum(step.drafted > 0 for step in every) / len(every),
            "hit": sum(step.emitted > 1 for step in every) / len(every),
            "nodes_mean": statistics.mean(step.drafted for step in every),
            "accepted_by_source": dict(accepted.most_common()),
        }
        if counted := self.drafter.figures():
            figures["retrievals"] = counted
        return figures


def replay_all(name: str, parts: TaskParts, traces: Sequence[Trace], nodes: int, *, warm: bool) -> Replayed:
    """Replay one drafter over all traces; cold: each task is a document of its own."""
    pin = TaskPin(parts.stores, traces[0].task)
    given = DrafterParts(pin, parts.tokenizer.piece, smaller=parts.lend)
    drafter = make(name, given)
    vocabulary = parts.tokenizer.vocabulary
    # The first replay compiles; it is not counted, and its document is kept by nobody.
    replay(make(name, given), traces[0], nodes, "", vocabulary)
    steps = {}
    for trace in traces:
        task = pin.task = trace.task
        document = document_of(task, warm=warm)
        steps[task.id] = replay(drafter, trace, nodes, document, vocabulary)
        if not warm:
            drafter.forget(document)
    return Replayed(drafter, steps)


def not_alone(traces: Sequence[Trace]) -> list[Task]:
    """The tasks that have an earlier one in their file: those for which warm differs from cold."""
    seen: set[tuple[str, str]] = set()
    later = []
    for trace in traces:
        place = trace.task.repo, trace.task.path
        if place in seen:
            later.append(trace.task)
        seen.add(place)
    return later


def alone(traces: Sequence[Trace]) -> int:
    """How many tasks are the only one of their file: warm is cold for them."""
    files = Counter((trace.task.repo, trace.task.path) for trace in traces)
    return sum(count == 1 for count in files.values())
