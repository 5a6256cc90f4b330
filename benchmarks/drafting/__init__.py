"""Drafters as the command line of a benchmark names them, and a decode timed with one beside the same without.

The one door to the drafters' registry. Times are without the prefill.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from benchmarks.harness import percentiles
from fastcoder_lsp.core import Draft, DraftContext, DraftTree, Engine, Verified
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.decode.tree import GuardedDrafter
from fastcoder_lsp.draft.base import Drafter, Trained
from fastcoder_lsp.draft.registry import SPECIFICATIONS, DrafterParts, make, require_smaller, require_tuned, warm_up
from fastcoder_lsp.observe import Spans

__all__ = ["DrafterParts", "make", "require_smaller", "require_tuned", "warm_up"]

LONG_ENOUGH = 48
"""Tokens: shorter tasks say little about the worst case."""
ABLATION: Mapping[str, str] = {
    "fastcoder-paper:repository=false,skip=false,missing=false,cache=false": "REST with D_c",
    "fastcoder-paper:skip=false,missing=false,cache=false": "+ D_r",
    "fastcoder-paper:cache=false": "+ skip token, missing table",
    "fastcoder-paper": "fastcoder-paper (+ CACHE)",
}
"""The steps of the FastCoder paper's ablation, and what it calls them; the last one is the whole method."""


def drafter_names(text: str) -> list[str]:
    """Drafters by `,`; a part that holds no name but `key=value` belongs to the drafter before it.

    `ablation` stands for the drafters of `ABLATION`.
    """
    names: list[str] = []
    for part in text.split(","):
        if part == "ablation":
            names += ABLATION
        elif names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


def all_names(trained: Trained, smaller: int = 0) -> list[str]:
    """Every drafter that can draft on a model tuned for `trained`, with so many smaller ones."""
    able = {
        name: known
        for name, known in SPECIFICATIONS.items()
        if (smaller or not known.smaller) and not known.own_weights  # their folders have to be named
    }
    return [name for name, known in able.items() if trained.suits(known.tuned_by)]


def label(name: str) -> str:
    return ABLATION.get(name, name)


@dataclass(frozen=True, slots=True)
class Run:
    """One decode of one task; `steps`, `ms` and `cpu_ms` (all threads) are after the prefill; `draft_us`: by step."""

    tokens: tuple[int, ...]
    emitted: int
    steps: int
    ms: float
    cpu_ms: float
    draft_us: tuple[float, ...]
    prefill_ms: float


@dataclass(frozen=True, slots=True)
class Pair:
    task: str
    plain: Run
    drafted: Run

    @property
    def speedup(self) -> float:
        return self.plain.ms / self.drafted.ms


def run_once(engine: Engine, drafter: Drafter, request: DecodeRequest) -> Run:
    timed = Stopwatch(drafter)
    decoding, begun = Decoding(engine, timed, request, Spans()), time.perf_counter()
    done = decoding.prefill(lambda: False)
    assert done
    started, cpu = time.perf_counter(), time.process_time()
    while decoding.step():
        pass
    ms, cpu_ms = (time.perf_counter() - started) * 1e3, (time.process_time() - cpu) * 1e3
    result = decoding.result()
    emitted, prefill_ms = len(result.tokens) + (result.finish == "eos"), (started - begun) * 1e3
    return Run(result.tokens, emitted, result.counts.steps, ms, cpu_ms, tuple(timed.us), prefill_ms)


def figures(pairs: Sequence[Pair]) -> dict[str, Any]:
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
        "cpu_ms_per_token": sum(pair.drafted.cpu_ms for pair in pairs) / tokens,
        "mat": tokens / sum(pair.drafted.steps for pair in pairs),
        "identical": all(pair.plain.tokens == pair.drafted.tokens for pair in pairs),
        "worst_speedup": medians[worst] if worst else None,
        "worst_task": worst,
        "draft_us": percentiles(us, 50, 99) if us else None,
    }


class ObservedDrafter(GuardedDrafter):
    """A drafter whose drafts and outcomes are passed on unchanged, for a subclass to listen to."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.traits = replace(drafter.traits, late=False)  # a subclass would hear of a late outcome in another step


class Stopwatch(ObservedDrafter):
    """Times `propose` and `observe` of a drafter; `us` holds the sum of both for each step, in microseconds."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.us: list[float] = []

    @override
    def propose(self, context: DraftContext, nodes: int) -> Draft:
        started = time.perf_counter_ns()
        draft = super().propose(context, nodes)
        self.us.append((time.perf_counter_ns() - started) / 1e3)
        return draft

    @override
    def observe(self, tree: DraftTree, verified: Verified) -> None:
        started = time.perf_counter_ns()
        super().observe(tree, verified)
        self.us[-1] += (time.perf_counter_ns() - started) / 1e3
