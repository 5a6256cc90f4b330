"""`bench decode`: the model for real, every drafter against plain decoding, in interleaved pairs, outputs compared."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from benchmarks.datasets import PROMPT_TOKENS
from benchmarks.drafting import (
    LEAKAGE,
    PAPER_TOKENS,
    REPLAYED,
    DraftOptions,
    Pair,
    TaskParts,
    TaskPin,
    document_of,
    drafter_names,
    figures,
    label,
    load_parts,
    make,
    run_once,
    warm_up,
)
from benchmarks.harness import NODES, write
from benchmarks.product import measure_costs
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.core import Engine, Sampler, StepCosts
from fastcoder_lsp.draft.base import NoDrafter

EXAMPLE = "decode --limit 24 --nodes 8 --drafters fastcoder,cacheback"
_DRAFTERS = "as for `bench draft`"
AUTO_NODES = 64
"""Rows, where no number is asked for, for a drafter that chooses by their cost; one that fills all gets `NODES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(DraftOptions):
    """Decode every task plainly and with each drafter, one after the other, and compare outputs and times.

    Times are without prefill. The worst speed-up is the lowest median of a task of at least 48 tokens.
    """

    drafters: str = option(_DRAFTERS, f"{REPLAYED},recycling,recycling-paper,jacobi,lookahead,auto", metavar="NAMES")
    nodes: int | None = option(
        "rows of one verification (default: 16, and for auto what pays, 64 at most)", None, metavar="N"
    )
    temperature: float = option("sample at this temperature; 0 is greedy", 0.0, metavar="T")
    top_p: float = option("of sampled tokens, the likeliest ones up to this share", 1.0, metavar="P")
    top_k: int = option("of sampled tokens, so many of the likeliest; 0: all", 0, metavar="K")
    rule: Literal["keyed", "rejection"] = option(
        "acceptance of sampled guesses: by the tokens of plain sampling, or by its distribution", "keyed"
    )
    tokens: int = option("most tokens of a task", PAPER_TOKENS, metavar="N")
    rounds: int = option("runs of each pair", 3, metavar="N")

    @property
    def sampler(self) -> Sampler:
        """How tokens are chosen."""
        return Sampler(self.temperature, self.top_k, self.top_p, rule=self.rule)


def run(options: Options) -> int:
    parts = load_parts(options)
    engine = parts.engine()
    names = drafter_names(options.drafters)
    parts.require(names)
    costs = None if options.nodes else measure_costs(engine)
    pairs: dict[str, list[Pair]] = defaultdict(list)
    try:
        for _round in range(options.rounds):
            for name, pair in run_round(parts, engine, names, options, costs):
                pairs[name].append(pair)
    finally:
        engine.close()
        parts.smaller.close()
    results = {name: figures(of_name) for name, of_name in pairs.items()}
    _print(parts, engine, options, results)
    write(
        options,
        "decode",
        {"setting": options.setting, "nodes": options.nodes or NODES, "cache": options.cache, "drafters": results},
        model=parts.model.files.name,
        engine=engine.info.name,
        width="fixed" if options.nodes else "auto: what pays",
        prompt_tokens=PROMPT_TOKENS,
        corpus_tokens=parts.stores.corpus_tokens(),
        tasks=[task.id for task in parts.chosen],
        leakage=LEAKAGE,
    )
    return 0


def run_round(
    parts: TaskParts, engine: Engine, names: Sequence[str], options: Options, costs: StepCosts | None
) -> Sequence[tuple[str, Pair]]:
    """All tasks once, in the order of their files, with fresh drafters: a round must not teach the next one.

    With the engine's `costs`, `auto` chooses its width as in the server.
    """
    pin = TaskPin(parts.stores, parts.chosen[0])
    given = parts.drafter_parts(pin, costs)
    drafters = {name: make(name, given) for name in names}
    for drafter in drafters.values():
        warm_up(drafter)
    done = []
    for task in parts.in_file_order():
        pin.task = task
        document = document_of(task, warm=options.cache == "warm")
        request = parts.request(
            task,
            options.tokens,
            to_body_end=options.setting == "product",
            document=document,
            nodes=options.nodes or NODES,
        )
        request = replace(request, sampler=options.sampler)
        for name, drafter in drafters.items():
            plain = run_once(engine, NoDrafter(), request)
            chooses = costs is not None and drafter.traits.weighs_costs
            drafted = run_once(engine, drafter, replace(request, nodes=AUTO_NODES) if chooses else request)
            if plain.emitted:
                done.append((name, Pair(task.id, plain, drafted)))
            if options.cache == "cold":
                drafter.forget(document)
    return done


def _print(parts: TaskParts, engine: Engine, options: Options, results: Mapping[str, Any]) -> None:
    rows = options.nodes or f"{NODES} (auto: what pays, {AUTO_NODES} at most)"
    columns = ("ms_per_token", "plain_ms_per_token", "speedup", "cpu_ms_per_token", "mat", "worst_speedup", "identical")
    print_table(
        f"{len(parts.chosen)} tasks, {options.setting}, {rows} nodes, {options.cache}, {engine.info.name}",
        ("drafter", "ms/token", "plain", "speed-up", "CPU ms/token", "MAT", "worst", "identical"),
        [(label(name), *(found[column] for column in columns)) for name, found in results.items()],
    )
