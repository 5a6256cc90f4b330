"""The product's own decoding loop over the engine: what a step takes with drafting, and with the host's whole path.

Owns the measurement of the host's gap, drafting included. The weights are random, so guesses are made right on purpose:
the drafter knows what plain decoding said, and makes a mistake now and then.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fastcoder_lsp.bench.gpu.machine import Bench, say
from fastcoder_lsp.bench.gpu.shapes import Named
from fastcoder_lsp.bench.gpu.steps import bench_prompt, prepared
from fastcoder_lsp.core import GREEDY, Draft, DraftContext, Drafter, DraftTree, Engine, Sampler, Verified
from fastcoder_lsp.decode.guard import GuardedDrafter
from fastcoder_lsp.decode.loop import DecodeRequest, Decoding
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.observe import Spans


class Prompter:
    """A drafter that knows the text: chains of what comes next, wrong at seeded places, with wrong branches beside."""

    name, top_k = "prompter", 0

    def __init__(self, truth: Sequence[int], vocabulary: int, seed: int = 0) -> None:
        self._truth, self._vocabulary = truth, vocabulary
        self._random = np.random.default_rng(seed)

    def begin(self, context: DraftContext) -> None:
        """See `core.Drafter`."""

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Up to six right tokens, one of them spoilt at times, and as many wrong ones below the root."""
        said = len(context.tokens) - context.prompt_length
        right = list(self._truth[said : said + min(6, nodes // 2)])
        if right and self._random.random() < 0.5:
            right[int(self._random.integers(len(right)))] = int(self._random.integers(self._vocabulary))
        wrong = [int(token) for token in self._random.integers(0, self._vocabulary, min(9, nodes - len(right)))]
        return Draft((*right, *wrong), (*range(-1, len(right) - 1), *[-1] * len(wrong)))

    def observe(self, tree: DraftTree, verified: Verified) -> None:
        """See `core.Drafter`."""

    def forget(self, document: str) -> None:
        """See `core.Drafter`."""

    def rename(self, old: str, new: str) -> None:
        """See `core.Drafter`."""


@dataclass(frozen=True, slots=True)
class Decode:
    """Tokens, and milliseconds of every step, drafting included."""

    tokens: tuple[int, ...]
    step_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """Medians over the steps of one decode: all of a step, what of it the device works, and the rest."""

    drafter: str
    step_ms: float
    device_ms: float

    @property
    def us(self) -> float:
        """Microseconds that the device waits for the host."""
        return (self.step_ms - self.device_ms) * 1e3


def decode(
    engine: Engine, drafter: Drafter, prompt: Sequence[int], count: int, nodes: int, sampler: Sampler = GREEDY
) -> Decode:
    """Decode `count` tokens by the product's loop; nothing ends the text before."""
    request = DecodeRequest(
        prompt=tuple(prompt),
        max_tokens=count,
        end_ids=frozenset(),
        piece=lambda _token: b"x",
        allow=lambda _bytes: np.zeros(0, np.int64),
        cut=lambda _text: None,
        sampler=sampler,
        nodes=nodes,
    )
    decoding = Decoding(engine, GuardedDrafter(drafter), request, Spans())
    assert decoding.prefill(lambda: False)
    taken, going = [], True
    while going:
        started = time.perf_counter()
        going = decoding.step()
        taken.append((time.perf_counter() - started) * 1e3)
    return Decode(decoding.result().tokens, tuple(taken))


def host_gap(bench: Bench, model: Named, kernels: str) -> list[Gap]:
    """The gap without drafts, with ready-made ones, and with the product's own drafter where it can run."""
    engine = bench.engine(model, kernels)
    prompt, count, nodes = bench_prompt(model, bench.lengths[0]), 32 if bench.smoke else 128, 16
    truth = decode(engine, NoDrafter(), prompt, count, nodes).tokens
    drafters: list[Drafter] = [NoDrafter(), Prompter(truth, model.shape.vocabulary)]
    try:
        from fastcoder_lsp.draft.suffix import SuffixDrafter  # noqa: PLC0415 needs numba

        drafters.append(SuffixDrafter())
    except ImportError as why:
        bench.skip("host gap with the suffix drafter", str(why))
    found = []
    for drafter in drafters:
        decode(engine, drafter, prompt, count, nodes)
        done = decode(engine, drafter, prompt, count, nodes)
        tree = DraftTree((prompt[-1], *range(nodes - 1)), (-1, *[0] * (nodes - 1)))
        if isinstance(drafter, NoDrafter):
            tree = DraftTree.chain(prompt[-1:])
        found.append(Gap(drafter.name, statistics.median(done.step_ms), _device_ms(bench, engine, prompt, tree)))
    say(f"{model.name}: host gap " + ", ".join(f"{gap.drafter} {gap.us:.0f} µs" for gap in found))
    engine.close()
    bench.tidy()
    return found


@torch.inference_mode()
def _device_ms(bench: Bench, engine: StaticEngine, prompt: Sequence[int], tree: DraftTree) -> float:
    engine.prefill(prompt[:-1], lambda: False)
    return bench.ms(prepared(engine, tree))
