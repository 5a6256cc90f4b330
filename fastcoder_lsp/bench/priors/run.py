"""`bench priors` at work: replays `auto`, collects what its sources said, fits, and replays with what was learnt.

Replays `auto` over recordings with the model's rows (`row_traces`), with cold caches and with warm ones, and collects
what every source said of every token that might have followed, and which of them did; `fit` learns from it. Held out by
repository: learnt on all but one, replayed on that one.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fastcoder_lsp.bench.drafting.task_parts import TaskParts, TaskPin, parts_of
from fastcoder_lsp.bench.priors.fit import Example, fit, starting_priors
from fastcoder_lsp.bench.priors.row_traces import ReplayedStep, RowRecorder, RowTrace, replay_rows
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.draft.auto import AutoDrafter, AutoParameters
from fastcoder_lsp.draft.auto_branches import TAIL, expand, new_branches
from fastcoder_lsp.draft.calibration import Priors
from fastcoder_lsp.draft.evidence import SOURCES

WIDTHS = (8, 16, 64)
_ABLATED_AT = 16
_LEARNT_AT = 32
"""Rows of the replays that are learnt from."""
_AHEAD = 8
"""Tokens along what was said that each step is learnt from."""
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
        examples = list(collect(parts, recorded, priors))
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
        drafter = _drafter(pin, believed, learns=learns, without=without)
        for trace in traces:
            if trace.task.repo == repo:
                pin.task = trace.task
                steps += sum(1 for _ in replay_rows(drafter, trace, nodes, trace.task.id))
                tokens += len(trace.tokens)
                drafter.forget(trace.task.id)
    return tokens / steps


def collect(parts: TaskParts, traces: Sequence[RowTrace], priors: Priors) -> Iterator[Example]:
    """What was said of all tokens that might have followed, at each node along what did follow.

    Each task twice: with caches that hold nothing, and with what the earlier tasks of its file left.
    """
    pin = TaskPin(parts.stores, traces[0].task)
    for warm in (False, True):
        drafter = _drafter(pin, priors, learns=False)
        for trace in sorted(traces, key=lambda trace: (trace.task.repo, trace.task.path, trace.task.start)):
            pin.task = trace.task
            document = f"{trace.task.repo}/{trace.task.path}" if warm else trace.task.id
            for step in replay_rows(drafter, trace, _LEARNT_AT, document):
                yield from _along(drafter, trace, step)
            if not warm:
                drafter.forget(document)


def _drafter(pin: TaskPin, priors: Priors, *, learns: bool, without: str = "") -> AutoDrafter:
    return AutoDrafter(pin, AutoParameters(width="fixed", learns=learns, without=without), priors=priors)


def _along(drafter: AutoDrafter, trace: RowTrace, step: ReplayedStep) -> Iterator[Example]:
    """Ask at the root, at what followed it, and so on, as far as any source knew what followed."""
    said, branches = drafter.said(), new_branches()
    count = len(said.asked.source_K)
    following, head = np.arange(-1, count, dtype=np.int32), np.int32(count - 1)
    context = np.array(step.context.tokens[: -TAIL - 1 : -1], np.int32)
    for depth, token in enumerate(trace.tokens[step.position : step.position + _AHEAD]):
        size = expand(context, said, following, head, np.int32(depth), branches)
        right_B = branches.token_B[:size] == token
        yield Example(trace.task.repo, branches.cell_BS[:size].copy(), right_B)
        if not right_B.any():
            return
        head = branches.rows_B[int(np.argmax(right_B))]
        context = np.concatenate([np.array([token], np.int32), context])[:TAIL]
