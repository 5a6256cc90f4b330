"""`bench draft` at work: the recordings, every drafter's replay over them, the tables.

Records greedy traces once (`drafting.traces`), replays every drafter that can be replayed (`replayed`). D_c is the
standard library alone; the target's body is in no index and no prompt.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.datasets import repoeval
from benchmarks.draft.heatmap import blank_share, draw, retrieved_share
from benchmarks.draft.replayed import alone, not_alone, replay_all
from benchmarks.drafting.drafters import drafter_names, label
from benchmarks.drafting.task_parts import LEAKAGE, TaskParts, parts_of
from benchmarks.drafting.traces import Trace, record
from fastcoder_lsp.bench.report import print_table, write_json


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parts = parts_of(arguments)
    names = drafter_names(arguments.drafters)
    for name in names:
        parts.require(name)
    traces = record(parts, arguments.setting)
    warm = arguments.cache == "warm"
    done = {name: replay_all(name, parts, traces, arguments.nodes, warm=warm) for name in names}
    results = {name: replayed.figures() for name, replayed in done.items()}
    if warm:
        later = not_alone(traces)
        for name, replayed in done.items():
            results[name]["mat_with_predecessor"] = replayed.mat([task.id for task in later])
    _print(traces, arguments, results)
    if arguments.heatmap:
        piece = parts.tokenizer.piece
        shares = {label(name): retrieved_share(traces, replayed.steps, piece) for name, replayed in done.items()}
        draw({"white space": blank_share(traces, piece)} | shares, arguments.heatmap)
    if arguments.json:
        _write(parts, traces, arguments, results)
    return 0


def _print(traces: Sequence[Trace], arguments: argparse.Namespace, results: Mapping[str, Any]) -> None:
    counted = f", {len(not_alone(traces))} of them after another of their file" if arguments.cache == "warm" else ""
    print_table(
        f"{len(traces)} tasks{counted}, {sum(len(trace.tokens) for trace in traces)} tokens, {arguments.setting}, "
        f"{arguments.nodes} nodes, {arguments.cache}",
        ("drafter", "MAT", "mean", "median", "p50 µs", "p99 µs", "drafted", "hit"),
        [
            (label(name), r["mat"], r["mat_mean"], r["mat_median"], *r["draft_us"].values(), r["drafted"], r["hit"])
            for name, r in results.items()
        ],
    )
    if retrievals := {name: r["retrievals"] for name, r in results.items() if "retrievals" in r}:
        print_table(
            "Retrievals: the share spared by skip tokens and missing table, and answered by the CACHE",
            ("drafter", "retrievals", "spared", "CACHE", "most sequences"),
            [(label(name), r["asked"], r["saved"], r["from_cache"], r["sequences"]) for name, r in retrievals.items()],
        )


def _write(
    parts: TaskParts, traces: Sequence[Trace], arguments: argparse.Namespace, results: Mapping[str, Any]
) -> None:
    settings = {
        "model": parts.model.files.name,
        "engine": arguments.engine,
        "prompt_tokens": repoeval.PROMPT_TOKENS,
        "corpus_tokens": parts.stores.corpus_tokens(),
        "tasks": [trace.task.id for trace in traces],
        "leakage": LEAKAGE,
    }
    head = {"setting": arguments.setting, "nodes": arguments.nodes, "cache": arguments.cache}
    alone_ones = {"tasks_with_predecessor": len(not_alone(traces)), "tasks_alone": alone(traces)}
    warmed = alone_ones if arguments.cache == "warm" else {}
    write_json(arguments.json, "draft", settings, head | warmed | {"drafters": results})
