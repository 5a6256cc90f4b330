"""A decode timed with a drafter beside the same decode without: what `bench decode` and `bench trained` call speed.

Owns the runs, their times (prefill excluded), and what a drafter's pairs come to.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from fastcoder_lsp.core import Draft, DraftContext, DraftTree, Engine, Verified
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.decode.tree import GuardedDrafter
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.observe import Spans, percentile

LONG_ENOUGH = 48
"""Tokens: shorter tasks say little about the worst case."""


@dataclass(frozen=True, slots=True)
class Run:
    """One decode of one task: what came out, passes after the prefill, and milliseconds without it.

    `cpu_ms`: of all threads together. `draft_us`: what the drafter's own work took in each step. `prefill_ms`: before.
    """

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
    """Decode to the end; the clock runs from the end of the prefill."""
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
        "draft_us": {"p50": percentile(us, 0.5), "p99": percentile(us, 0.99)} if us else None,
    }


class ObservedDrafter(GuardedDrafter):
    """A drafter whose drafts and outcomes are passed on unchanged, for a subclass to listen to.

    It is told of each outcome at once, because a subclass would hear of a late one in another step.
    """

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.traits = replace(drafter.traits, late=False)


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
