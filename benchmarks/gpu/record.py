"""Record acceptance for `simulate`: `python -m benchmarks.gpu.record`, on a machine that has the model.

Replays drafters over the traces of `bench draft` (which are recorded first where they are missing), as they would draft
for a GPU: up to 64 rows, and for drafters that weigh costs, those of a step that is nearly as wide as it is deep.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import get_args

from benchmarks.drafting.drafters import make
from benchmarks.drafting.replay import replay
from benchmarks.drafting.task_parts import TaskParts, document_of, load_parts
from benchmarks.drafting.traces import Setting, Trace, record
from benchmarks.gpu.acceptance import FILE, PLAIN, Dataset, Step, Task, write
from fastcoder_lsp.core import StepCosts

NODES = 64
APPROACHES = ("lookup", "suffix", "rest", "fastcoder", "cacheback", "auto")
GPU_COSTS = StepCosts((1, 16, 64), (1.0, 1.1, 1.4), 0.01)
"""Relative costs of a step by its rows, as the figures to reach have them: wide steps are nearly free."""


def main() -> None:
    """Record what each approach has accepted, and write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FILE, help="default: the file that is shipped")
    parser.add_argument("--limit", type=int, default=24, help="tasks, evenly spread; default: 24")
    parser.add_argument("--engine", default="cpu-int8", help="what records traces that are missing; default: cpu-int8")
    parser.add_argument("--settings", default="product,paper", help="default: product,paper")
    arguments = parser.parse_args()
    wanted = arguments.settings.split(",")
    if not set(wanted) <= set(get_args(Setting)):
        parser.error(f"--settings takes {' and '.join(get_args(Setting))}, not {arguments.settings}")
    parts = load_parts(limit=arguments.limit, engine=arguments.engine)
    model, datasets = parts.model.files.name, []
    settings: list[Setting] = [setting for setting in get_args(Setting) if setting in wanted]
    for setting in settings:
        traces = record(parts, setting)
        tasks = [_task(parts, trace) for trace in traces]
        source = f"{model}, {arguments.engine}, {len(tasks)} of {len(parts.tasks.tasks)} tasks, {NODES} rows, cold"
        datasets.append(Dataset("RepoEval", setting, source, tuple(tasks)))
    write(datasets, arguments.out)


def _task(parts: TaskParts, trace: Trace) -> Task:
    """All approaches over one recording, each beginning with nothing learnt."""
    found = {PLAIN: [Step(1, 1, 0.0) for _ in trace.tokens]}
    given = replace(parts.drafter_parts(trace.task), costs=GPU_COSTS)
    for name in APPROACHES:
        drafter = make(name, given)
        steps = replay(drafter, trace, NODES, document_of(trace.task, warm=False), parts.tokenizer.vocabulary)
        found[name] = [Step(step.drafted + 1, step.emitted, step.us) for step in steps]
    return Task(len(trace.prompt), found)


if __name__ == "__main__":
    main()
