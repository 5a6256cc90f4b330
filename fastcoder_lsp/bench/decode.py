"""`bench decode`: the model for real, every drafter against plain decoding, in interleaved pairs, outputs compared.

Owns the runs and their times, prefill excluded. D_c is the standard library alone; the target's body is in no index and
no prompt.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastcoder_lsp.bench import repoeval
from fastcoder_lsp.bench.draft import drafter_names, label
from fastcoder_lsp.bench.parts import BenchParts, load_parts
from fastcoder_lsp.bench.report import print_table, write_json
from fastcoder_lsp.bench.stopwatch import Stopwatch
from fastcoder_lsp.bench.traces import PAPER_TOKENS
from fastcoder_lsp.completion.costs import measure
from fastcoder_lsp.core import Drafter, Engine, StepCosts
from fastcoder_lsp.decode.guard import GuardedDrafter
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.draft.auto import AutoDrafter
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.draft.registry import DrafterParts, make, require_tuned
from fastcoder_lsp.draft.store import Pinned
from fastcoder_lsp.observe import Spans, percentile

NODES, AUTO_NODES = 16, 64
"""Where no number is asked for: rows for a drafter that fills what it gets, and for one that chooses by their cost."""
LONG_ENOUGH = 48
"""Tokens: shorter tasks say little about the worst case."""


@dataclass(frozen=True, slots=True)
class Run:
    """One decode of one task: what came out, passes after the prefill, and milliseconds without it.

    `draft_us`: what the drafter's own work took in each step.
    """

    tokens: tuple[int, ...]
    emitted: int
    steps: int
    ms: float
    draft_us: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A task decoded plainly and then with a drafter."""

    task: str
    plain: Run
    drafted: Run

    @property
    def speedup(self) -> float:
        """How many times faster the drafter was."""
        return self.plain.ms / self.drafted.ms


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    parts = load_parts(arguments)
    engine = parts.engine()
    names = drafter_names(arguments.drafters)
    for name in names:
        require_tuned(name, parts.trained)
    costs = None if arguments.nodes else measure(engine)
    pairs: dict[str, list[Pair]] = defaultdict(list)
    try:
        for _round in range(arguments.rounds):
            for name, pair in run_round(parts, engine, names, arguments, costs):
                pairs[name].append(pair)
    finally:
        engine.close()
    results = {name: figures(of_name) for name, of_name in pairs.items()}
    rows = arguments.nodes or f"{NODES} (auto: what pays, {AUTO_NODES} at most)"
    how = f"{arguments.setting}, {rows} nodes, {arguments.cache}, {engine.info.name}"
    print_table(
        f"{len(parts.chosen)} tasks, {how}",
        ("drafter", "ms/token", "plain", "speed-up", "MAT", "worst", "identical"),
        [
            (
                label(name),
                r["ms_per_token"],
                r["plain_ms_per_token"],
                r["speedup"],
                r["mat"],
                r["worst_speedup"],
                r["identical"],
            )
            for name, r in results.items()
        ],
    )
    if arguments.json:
        settings = {
            "model": parts.model,
            "engine": engine.info.name,
            "rounds": arguments.rounds,
            "width": "fixed" if arguments.nodes else "auto: what pays",
            "prompt_tokens": repoeval.PROMPT_TOKENS,
            "corpus_tokens": parts.stores.corpus_tokens(),
            "tasks": [task.id for task in parts.chosen],
            "leakage": "the target's body is in no index and no prompt",
        }
        head = {"setting": arguments.setting, "nodes": arguments.nodes or NODES, "cache": arguments.cache}
        write_json(arguments.json, "decode", settings, head | {"drafters": results})
    return 0


def run_round(
    parts: BenchParts,
    engine: Engine,
    names: Sequence[str],
    arguments: argparse.Namespace,
    costs: StepCosts | None = None,
) -> Sequence[tuple[str, Pair]]:
    """All tasks once, in the order of their files, with fresh drafters: a round must not teach the next one.

    With the engine's `costs`, `auto` chooses its width as in the server.
    """
    place = [parts.chosen[0]]

    def pin(_document: str) -> Pinned:
        return parts.stores.pin(place[0])

    given = DrafterParts(pin, parts.tokenizer.piece, costs, trained=parts.trained)
    drafters = {name: make(name, given) for name in names}
    done = []
    for task in sorted(parts.chosen, key=lambda task: (task.repo, task.path, task.start)):
        place[0] = task
        document = f"file:///{task.repo}/{task.path}" if arguments.cache == "warm" else f"task:{task.id}"
        request = request_of(parts, task, arguments, document)
        for name, drafter in drafters.items():
            plain = run_once(engine, NoDrafter(), request)
            chooses = costs is not None and isinstance(drafter, AutoDrafter)
            drafted = run_once(engine, drafter, replace(request, nodes=AUTO_NODES) if chooses else request)
            if plain.emitted:
                done.append((name, Pair(task.id, plain, drafted)))
            if arguments.cache == "cold":
                drafter.forget(document)
    return done


def request_of(parts: BenchParts, task: repoeval.Task, arguments: argparse.Namespace, document: str) -> DecodeRequest:
    """What is decoded for a task."""
    product = arguments.setting == "product"
    return DecodeRequest(
        prompt=repoeval.prompt(parts.tokenizer, parts.tasks.before(task)),
        max_tokens=PAPER_TOKENS,
        end_ids=parts.tokenizer.end_ids,
        piece=parts.tokenizer.piece,
        allow=parts.tokenizer.starting_with,
        cut=repoeval.function_end if product else lambda _text: None,
        document=document,
        nodes=arguments.nodes or NODES,
    )


def run_once(engine: Engine, drafter: Drafter, request: DecodeRequest) -> Run:
    """Decode to the end; the clock runs from the end of the prefill."""
    timed = Stopwatch(drafter)
    decoding = Decoding(engine, GuardedDrafter(timed), request, Spans())
    done = decoding.prefill(lambda: False)
    assert done
    started = time.perf_counter()
    while decoding.step():
        pass
    ms = (time.perf_counter() - started) * 1e3
    result = decoding.result()
    return Run(result.tokens, len(result.tokens) + (result.finish == "eos"), result.steps, ms, tuple(timed.us))


def figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """One drafter's figures over all its pairs."""
    tokens = sum(pair.drafted.emitted for pair in pairs)
    drafted_ms, plain_ms = sum(pair.drafted.ms for pair in pairs), sum(pair.plain.ms for pair in pairs)
    by_task: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_task[pair.task].append(pair)
    medians = {
        task: statistics.median(pair.speedup for pair in of_task)
        for task, of_task in by_task.items()
        if of_task[0].plain.emitted >= LONG_ENOUGH
    }
    worst = min(medians, key=lambda task: medians[task], default=None)
    us = [us for pair in pairs for us in pair.drafted.draft_us]
    return {
        "ms_per_token": drafted_ms / tokens,
        "plain_ms_per_token": plain_ms / tokens,
        "speedup": plain_ms / drafted_ms,
        "mat": tokens / sum(pair.drafted.steps for pair in pairs),
        "identical": all(pair.plain.tokens == pair.drafted.tokens for pair in pairs),
        "worst_speedup": medians[worst] if worst else None,
        "worst_task": worst,
        "draft_us": {"p50": percentile(us, 0.5), "p99": percentile(us, 0.99)} if us else None,
    }
