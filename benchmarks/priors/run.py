"""`bench priors` at work: replays `auto` over recordings, fits what its sources said, and replays with what was learnt.

Recordings are of `row_traces`, what is learnt from them is collected by `examples` and fitted by `fit`. Held out by
repository: learnt on all but one, replayed on that one.
"""

import argparse
from collections.abc import Mapping, Sequence

from benchmarks.drafting.task_parts import TaskParts, TaskPin, parts_of
from benchmarks.priors.examples import auto_of, collect
from benchmarks.priors.fit import Example, fit, starting_priors
from benchmarks.priors.row_traces import RowRecorder, RowTrace, replay_rows
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.draft.auto.evidence import SOURCES, Priors

WIDTHS = (8, 16, 64)
_ABLATED_AT = 16
_ROUNDS = 2
"""The second learns where the first one's drafts leave off, as in use."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parts = parts_of(arguments)
    recorder = RowRecorder(parts)
    try:
        recorded = [trace for task in parts.chosen if (trace := recorder.trace(task)) is not None]
    finally:
        recorder.close()
    examples, priors = list[Example](), starting_priors()
    for _ in range(_ROUNDS):
        examples = list(collect(parts.stores, recorded, priors))
        priors = fit(examples)
    if arguments.out:
        arguments.out.write_text(priors.to_json(), encoding="utf-8")
    repos = sorted({trace.task.repo for trace in recorded})
    held_out = {repo: fit([example for example in examples if example.repo != repo]) for repo in repos}
    figures = {
        str(width): {
            "learnt": mat(parts, recorded, dict.fromkeys(repos, priors), width, learns=False),
            "held_out": mat(parts, recorded, held_out, width, learns=False),
            "held_out_learning": mat(parts, recorded, held_out, width, learns=True),
        }
        for width in WIDTHS
    }
    print_table(
        f"{len(recorded)} tasks, product, cold: MAT of auto",
        ("nodes", "priors of all tasks", "of other repositories", "and learning on"),
        [(width, *row.values()) for width, row in figures.items()],
    )
    without = {
        name: mat(parts, recorded, held_out, _ABLATED_AT, learns=True, without=name)
        for name in SOURCES
        if name != "trained"
    }
    print_table(
        f"the same, {_ABLATED_AT} nodes, priors of other repositories and learning on",
        ("without", "MAT", "lost"),
        [(name, left, figures[str(_ABLATED_AT)]["held_out_learning"] - left) for name, left in without.items()],
    )
    if arguments.json:
        settings = {"model": parts.model.files.name, "tasks": [trace.task.id for trace in recorded]}
        write_json(arguments.json, "priors", settings, {"nodes": figures, "without": without})
    return 0


def mat(
    parts: TaskParts,
    traces: Sequence[RowTrace],
    priors: Mapping[str, Priors],
    nodes: int,
    *,
    learns: bool,
    without: str = "",
) -> float:
    """Tokens a step, pooled; each task with its repository's priors, and fresh counts for each repository."""
    steps = tokens = 0
    for repo, believed in priors.items():
        pin = TaskPin(parts.stores, traces[0].task)
        drafter = auto_of(pin, believed, learns=learns, without=without)
        for trace in traces:
            if trace.task.repo == repo:
                pin.task = trace.task
                steps += sum(1 for _ in replay_rows(drafter, trace, nodes, trace.task.id))
                tokens += len(trace.tokens)
                drafter.forget(trace.task.id)
    return tokens / steps
