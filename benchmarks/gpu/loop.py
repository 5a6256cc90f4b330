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

from benchmarks.common.requests import decode_request
from benchmarks.gpu.machine import Bench, say
from benchmarks.gpu.shapes import Named
from benchmarks.gpu.steps import bench_prompt, prepared
from fastcoder_lsp.core import GREEDY, Draft, DraftContext, Drafter, DraftTree, Engine, Sampler
from fastcoder_lsp.decode.guard import GuardedDrafter
from fastcoder_lsp.decode.loop import Decoding
from fastcoder_lsp.draft.none import NoDrafter
from fastcoder_lsp.engine.static.engine import StaticEngine
from fastcoder_lsp.observe import Spans

STORED = 1_000_000
"""Tokens of the stores that are searched: a repository of middling size."""
PROMPTER = "prompter"


class Prompter(NoDrafter):
    """A drafter that knows the text: chains of what comes next, wrong at seeded places, with wrong branches beside."""

    def __init__(self, truth: Sequence[int], vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        self.name = PROMPTER
        self._truth, self._vocabulary = truth, vocabulary
        self._random = np.random.default_rng(seed)

    def propose(self, context: DraftContext, nodes: int) -> Draft:
        """Up to six right tokens, one of them spoilt at times, and as many wrong ones below the root."""
        said = len(context.tokens) - context.prompt_length
        right = list(self._truth[said : said + min(6, nodes // 2)])
        if right and self._random.random() < 0.5:
            right[int(self._random.integers(len(right)))] = int(self._random.integers(self._vocabulary))
        wrong = [int(token) for token in self._random.integers(0, self._vocabulary, min(9, nodes - len(right)))]
        return Draft((*right, *wrong), (*range(-1, len(right) - 1), *[-1] * len(wrong)))


@dataclass(frozen=True, slots=True)
class Decode:
    """Tokens; milliseconds of the prefill; and of every step, milliseconds, drafting included, and rows."""

    tokens: tuple[int, ...]
    prefill_ms: float
    step_ms: tuple[float, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """Medians over the steps of one decode: rows, milliseconds, and microseconds that the device waits for the host."""

    drafter: str
    rows: float
    step_ms: float
    us: float


def decode(
    engine: Engine, drafter: Drafter, prompt: Sequence[int], count: int, nodes: int, sampler: Sampler = GREEDY
) -> Decode:
    """Decode `count` tokens by the product's loop; nothing ends the text before."""
    request = decode_request(None, prompt, count, sampler=sampler, nodes=nodes)
    rows = list[int]()
    began = time.perf_counter()
    decoding = Decoding(
        engine, GuardedDrafter(drafter), request, Spans(), on_step=lambda tree, _verified: rows.append(len(tree))
    )
    assert decoding.prefill(lambda: False)
    prefill_ms = (time.perf_counter() - began) * 1e3
    taken, going = [], True
    while going:
        started = time.perf_counter()
        going = decoding.step()
        taken.append((time.perf_counter() - started) * 1e3)
    return Decode(decoding.result().tokens, prefill_ms, tuple(taken), tuple(rows))


def host_gap(bench: Bench, model: Named, kernels: str) -> list[Gap]:
    """The gap without drafts, with ready-made ones, and with the product's own drafters where they can run."""
    engine = bench.engine(model, kernels)
    # The whole decode stays in one bucket, the one that the device is timed in.
    prompt, count, nodes = bench_prompt(model, bench.decoded), 32 if bench.smoke else 128, 16
    truth = decode(engine, NoDrafter(), prompt, count, nodes).tokens
    drafters: list[Drafter] = [NoDrafter(), Prompter(truth, model.shape.vocabulary)]
    try:
        drafters += _own_drafters(model)
    except ImportError as why:
        bench.skip("host gap with the product's own drafters", str(why))
    found = []
    for drafter in drafters:
        decode(engine, drafter, prompt, count, nodes)
        done = decode(engine, drafter, prompt, count, nodes)
        device_ms = {rows: _device_ms(bench, engine, prompt, rows, drafter.traits.top_k) for rows in set(done.rows)}
        waited = [ms - device_ms[rows] for ms, rows in zip(done.step_ms, done.rows, strict=True)]
        step_ms, us = statistics.median(done.step_ms), statistics.median(waited) * 1e3
        found.append(Gap(drafter.name, statistics.median(done.rows), step_ms, us))
    say(f"{model.name}: host gap " + ", ".join(f"{gap.drafter} {gap.us:.0f} µs" for gap in found))
    engine.close()
    bench.tidy()
    return found


def _own_drafters(model: Named) -> list[Drafter]:
    """Those that the product takes, over stores of tokens that mean nothing: they are searched at every step."""
    from benchmarks.drafting.drafters import DrafterParts, make  # noqa: PLC0415 needs numba
    from fastcoder_lsp.draft.base import Pinned  # noqa: PLC0415
    from fastcoder_lsp.index.part import Document, FileRecord, build_part  # noqa: PLC0415
    from fastcoder_lsp.index.searcher import LivePart, Searcher, StoreSnapshot  # noqa: PLC0415

    tokens_N = np.random.default_rng(0).integers(0, model.shape.vocabulary, STORED, dtype=np.int32)
    part = build_part([Document(FileRecord("tokens", ""), tokens_N)])
    store = Searcher([StoreSnapshot((LivePart(part, frozenset(), None, recent=False),), 1)])
    parts = DrafterParts(pin=lambda _document: Pinned(store, store, (1,)))
    return [make(name, parts) for name in ("suffix", "fastcoder", "auto:skips=false")]


@torch.inference_mode()
def _device_ms(bench: Bench, engine: StaticEngine, prompt: Sequence[int], rows: int, top_k: int) -> float:
    """Milliseconds of a step of so many rows, one after the other without the host between."""
    engine.prefill(prompt[:-1], lambda: False)
    tree = DraftTree((prompt[-1], *range(rows - 1)), (-1, *[0] * (rows - 1)))
    return bench.ms(prepared(engine, tree, top_k))
