"""Part 2: milliseconds of a step by rows and by tokens in the KV cache: ours, in its two kinds of kernels.

Owns the times of our own engine. `device_ms` is a replay among many back to back, `step_ms` a whole `engine.step` with
everything that the host does for it; what lies between them is the host's gap, drafting not included.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.shapes import Named
from fastcoder_lsp.core import GREEDY, DraftTree
from fastcoder_lsp.engine.static.engine import StaticEngine

MOST_DISAGREEMENT = 0.05
"""Beyond it kernels are wrong, not rounded: bf16 through all layers stays well below."""
BEST = 8
"""Best ids of a row that `auto` asks for at every step."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """What a step and a prefill take.

    Attributes:
        kernels: the way of computing.
        device_ms: (rows, tokens cached) → milliseconds on the device.
        step_ms: (rows, tokens cached) → milliseconds of the whole step.
        prefill_ms: tokens of a cold prompt → milliseconds.
        weights: bytes that a pass reads.
        slot: bytes of one token in the KV cache.
        best_ms: rows → what the best ids of every row take beyond that.
    """

    kernels: str
    device_ms: Mapping[tuple[int, int], float]
    step_ms: Mapping[tuple[int, int], float]
    prefill_ms: Mapping[int, float]
    weights: int
    slot: int
    best_ms: Mapping[int, float] = field(default_factory=dict)

    def interpolated(self, rows: int, cached: int, *, best: bool = False) -> float:
        """Device milliseconds of any step: the next width that was timed, linear between lengths.

        `best`: of one that is asked for the best ids of its rows, as by drafters that learn from rejected ones.
        """
        widths = sorted({width for width, _ in self.device_ms})
        lengths = sorted({length for _, length in self.device_ms})
        width = next((width for width in widths if width >= rows), widths[-1])
        plain = float(np.interp(cached, lengths, [self.device_ms[width, length] for length in lengths]))
        return plain + (max(self.best_ms.get(width, 0.0), 0.0) if best else 0.0)

    def gap_us(self) -> float:
        """Median over all sizes of what a whole step takes beyond the device's work, in microseconds."""
        return statistics.median(1e3 * (self.step_ms[size] - self.device_ms[size]) for size in self.step_ms)


@torch.inference_mode()
def measure(
    bench: Bench, model: Named, kernels: str, *, sizes: Sequence[tuple[int, int]] = (), precision: str = "plain"
) -> StepTimes:
    """Times of the given (rows, tokens cached), or of all sizes of the run."""
    engine = bench.engine(model, kernels, precision)
    wanted = sizes or [(width, length) for length in bench.lengths for width in bench.widths]
    device_ms, step_ms, best_ms = {}, {}, {}
    for width, length in wanted:
        if width >= length:
            continue
        tree, prompt = bench_tree(model, width), bench_prompt(model, length)
        fill(engine, prompt)
        device_ms[width, length] = bench.ms(prepared(engine, tree))
        if width not in best_ms:
            best_ms[width] = bench.ms(prepared(engine, tree, BEST)) - device_ms[width, length]
        step_ms[width, length] = timed_steps(engine, prompt, tree, bench.repeats)
    lengths = dict.fromkeys(length for _, length in device_ms)
    prefill_ms = {length: cold_prefill(engine, bench_prompt(model, length), bench) for length in lengths}
    weights = engine.static.programs.weight_bytes
    slot = model.shape.slot_numbers * bench.dtype.itemsize
    engine.close()
    bench.tidy()
    say(f"{model.name}, {kernels}: {', '.join(f'{w}×{n} {ms:.3f}' for (w, n), ms in device_ms.items())} ms")
    return StepTimes(kernels, device_ms, step_ms, prefill_ms, weights, slot, best_ms)


@torch.inference_mode()
def disagreement(bench: Bench, model: Named, ours: str) -> dict[int, float]:
    """How far the logits of our kernels are from torch's on a tree over a prompt, as a share of their norm, by rows."""
    found: dict[str, dict[int, torch.Tensor]] = {}
    for kernels in ("torch", ours):
        engine = bench.engine(model, kernels)
        prompt = bench_prompt(model, bench.lengths[0])
        fill(engine, prompt)
        programs, cached, found[kernels] = engine.static.programs, len(prompt), {}
        for width in bench.widths:
            tree = bench_tree(model, width)
            programs.send(tree.tokens, tree.parents, width=width, cached=cached, sampler=GREEDY)
            found[kernels][width] = programs.logits(width, programs.plan.bucket(cached, width)).float().cpu()
        engine.close()
        bench.tidy()
    return {
        width: float((found[ours][width] - expected).norm() / expected.norm())
        for width, expected in found["torch"].items()
    }


def bench_prompt(model: Named, length: int) -> list[int]:
    """Tokens of no meaning, the same every time."""
    numbers = np.random.default_rng(length).integers(0, model.shape.vocabulary, length)
    return [int(token) for token in numbers]


def bench_tree(model: Named, width: int) -> DraftTree:
    """A root with chains of guesses of up to eight below it."""
    parents = [-1, *(0 if node % 8 == 0 else node for node in range(width - 1))]
    tokens = np.random.default_rng(width).permutation(model.shape.vocabulary)[:width]
    return DraftTree(tuple(int(token) for token in tokens), tuple(parents))


def fill(engine: StaticEngine, tokens: Sequence[int]) -> None:
    """Bring tokens into the cache."""
    done = engine.prefill(tokens, lambda: False)
    assert done.done


def prepared(engine: StaticEngine, tree: DraftTree, top_k: int = 0) -> Callable[[], None]:
    """What launches the step of `tree` on what is cached, without what the host has to do around it.

    A step may run again and again on the same inputs, for it leaves the same behind.
    """
    programs, cached = engine.static.programs, len(engine.cached())
    program = engine.program(len(tree), top_k=top_k)
    programs.send(tree.tokens, tree.parents, width=program.width, cached=cached, sampler=GREEDY)
    return lambda: programs.graphs.run(program)


def timed_steps(engine: StaticEngine, prompt: Sequence[int], tree: DraftTree, count: int) -> float:
    """Median milliseconds of whole steps, each from the same cache."""
    taken = []
    for _ in range(count):
        fill(engine, prompt)
        started = time.perf_counter()
        engine.step(tree)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


def cold_prefill(engine: StaticEngine, prompt: Sequence[int], bench: Bench) -> float:
    """Milliseconds of a prefill of which the cache holds nothing; the second of two."""
    for _ in range(2):
        engine.prefill((), lambda: False)
        bench.synchronize()
        started = time.perf_counter()
        fill(engine, prompt)
        ms = (time.perf_counter() - started) * 1e3
    return ms
