"""Time to ghost text: from a keystroke to the end of a line, the prompt in the KV cache but for what was typed.

Owns the measurement on random weights, whose acceptance is made up: see `loop.Prompter`. What a server and an editor
add to it is measured with the real model, by typing (`real`).
"""

import statistics
from dataclasses import dataclass

import numpy as np

from benchmarks.gpu.loop import PROMPTER, Decode, Prompter, decode
from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.shapes import Named
from benchmarks.gpu.steps import bench_prompt, fill
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.observe import percentile

LINE = 10
"""Tokens of a line: the median of what the 0.5B model says to the RepoEval tasks."""
TYPED = 2
"""Tokens that are not in the cache."""
NODES = 16


@dataclass(frozen=True, slots=True)
class Ghost:
    """Milliseconds over all questions; `steps`: forward passes of one, the mean."""

    drafter: str
    p50_ms: float
    p95_ms: float
    steps: float


def measure(bench: Bench, model: Named, kernels: str) -> list[Ghost]:
    """The same questions with no drafts, and with drafts that are mostly right."""
    engine = bench.engine(model, kernels)
    before = bench_prompt(model, bench.lengths[1 if len(bench.lengths) > 1 else 0])
    plain, drafted = list[Decode](), list[Decode]()
    for number in range(-2, 4 if bench.smoke else 40):  # the first two capture what is captured at a first run
        typed = np.random.default_rng(number + 2).integers(0, model.shape.vocabulary, TYPED)
        prompt = [*before, *(int(token) for token in typed)]
        fill(engine, before)
        truth = decode(engine, NoDrafter(), prompt, LINE, NODES)
        fill(engine, before)
        prompter = Prompter(truth.tokens, model.shape.vocabulary, seed=number + 2)
        guessed = decode(engine, prompter, prompt, LINE, NODES)
        if number >= 0:
            plain.append(truth)
            drafted.append(guessed)
    engine.close()
    bench.tidy()
    found = [_ghost("none", plain), _ghost(PROMPTER, drafted)]
    say(f"{model.name}: ghost text after " + ", ".join(f"{ghost.p50_ms:.1f} ms ({ghost.drafter})" for ghost in found))
    return found


def _ghost(drafter: str, decodes: list[Decode]) -> Ghost:
    ms = [decoded.prefill_ms + sum(decoded.step_ms) for decoded in decodes]
    steps = statistics.mean(len(decoded.step_ms) for decoded in decodes)
    return Ghost(drafter, percentile(ms, 0.5), percentile(ms, 0.95), steps)
