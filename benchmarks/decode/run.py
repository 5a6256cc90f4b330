"""`bench decode`: the model for real, every drafter against plain decoding, in interleaved pairs, outputs compared.

Owns the runs and their times, prefill excluded. D_c is the standard library alone; the target's body is in no index and
no prompt.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.common.product import measure_costs
from benchmarks.common.requests import NODES
from benchmarks.datasets import repoeval
from benchmarks.drafting.drafters import (
    DrafterParts,
    drafter_names,
    label,
    make,
    warm_up,
)
from benchmarks.drafting.pairs import Pair, figures, run_once
from benchmarks.drafting.task_parts import LEAKAGE, TaskParts, TaskPin, document_of, parts_of
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.core import Engine, Sampler, StepCosts
from fastcoder_lsp.draft.none import NoDrafter

AUTO_NODES = 64
"""Rows, where no number is asked for, for a drafter that chooses by their cost; one that fills all gets `NODES`."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parts = parts_of(arguments)
    engine = parts.engine()
    names = drafter_names(arguments.drafters)
    for name in names:
        parts.require(name)
    costs = None if arguments.nodes else measure_costs(engine)
    pairs: dict[str, list[Pair]] = defaultdict(list)
    try:
        for _round in range(arguments.rounds):
            for name, pair in run_round(parts, engine, names, arguments, costs):
                pairs[name].append(pair)
    finally:
        engine.close()
        parts.smaller.close()
    results = {name: figures(of_name) for name, of_name in pairs.items()}
    _print(parts, engine, arguments, results)
    if arguments.json:
        _write(parts, engine, arguments, results)
    return 0


def run_round(
    parts: TaskParts,
    engine: Engine,
    names: Sequence[str],
    arguments: argparse.Namespace,
    costs: StepCosts | None = None,
) -> Sequence[tuple[str, Pair]]:
    """All tasks once, in the order of their files, with fresh drafters: a round must not teach the next one.

    With the engine's `costs`, `auto` chooses its width as in the server.
    """
    pin = TaskPin(parts.stores, parts.chosen[0])
    given = DrafterParts(
        pin,
        parts.tokenizer.piece,
        costs,
        trained=parts.trained,
        smaller=parts.lend,
        skipped=parts.skipped.skipped,
        linear=parts.linear,
        skipped_speed=parts.skipped.speed,
    )
    drafters = {name: make(name, given) for name in names}
    for drafter in drafters.values():
        warm_up(drafter)
    done = []
    for task in parts.in_file_order():
        pin.task = task
        document = document_of(task, warm=arguments.cache == "warm")
        request = parts.request(
            task,
            arguments.tokens,
            to_body_end=arguments.setting == "product",
            document=document,
            nodes=arguments.nodes or NODES,
        )
        request = replace(request, sampler=sampler_of(arguments))
        for name, drafter in drafters.items():
            plain = run_once(engine, NoDrafter(), request)
            chooses = costs is not None and drafter.traits.weighs_costs
            drafted = run_once(engine, drafter, replace(request, nodes=AUTO_NODES) if chooses else request)
            if plain.emitted:
                done.append((name, Pair(task.id, plain, drafted)))
            if arguments.cache == "cold":
                drafter.forget(document)
    return done


def sampler_of(arguments: argparse.Namespace) -> Sampler:
    """How tokens are chosen, by the options."""
    return Sampler(temperature=arguments.temperature, rule=arguments.rule)


def _print(parts: TaskParts, engine: Engine, arguments: argparse.Namespace, results: Mapping[str, Any]) -> None:
    rows = arguments.nodes or f"{NODES} (auto: what pays, {AUTO_NODES} at most)"
    columns = ("ms_per_token", "plain_ms_per_token", "speedup", "cpu_ms_per_token", "mat", "worst_speedup", "identical")
    print_table(
        f"{len(parts.chosen)} tasks, {arguments.setting}, {rows} nodes, {arguments.cache}, {engine.info.name}",
        ("drafter", "ms/token", "plain", "speed-up", "CPU ms/token", "MAT", "worst", "identical"),
        [(label(name), *(found[column] for column in columns)) for name, found in results.items()],
    )


def _write(parts: TaskParts, engine: Engine, arguments: argparse.Namespace, results: Mapping[str, Any]) -> None:
    settings = {
        "model": parts.model.files.name,
        "engine": engine.info.name,
        "rounds": arguments.rounds,
        "tokens": arguments.tokens,
        "temperature": arguments.temperature,
        "rule": arguments.rule,
        "width": "fixed" if arguments.nodes else "auto: what pays",
        "prompt_tokens": repoeval.PROMPT_TOKENS,
        "corpus_tokens": parts.stores.corpus_tokens(),
        "tasks": [task.id for task in parts.chosen],
        "leakage": LEAKAGE,
    }
    head = {"setting": arguments.setting, "nodes": arguments.nodes or NODES, "cache": arguments.cache}
    write_json(arguments.json, "decode", settings, head | {"drafters": results})
