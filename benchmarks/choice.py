"""Times that `auto` promises beside those of whole models in shape: a step, and a prompt of 400 tokens.

`fastcoder-lsp bench choice`. The promise is the product's own measurement on slices; the whole models have random
weights of the published shapes, and run by as many threads. Both are taken in turns, and the least of each counts.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.harness import Reported, write
from benchmarks.shapes import MODELS, named, random_arrays
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import option
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int8.backend import CHUNK, Int8Backend
from fastcoder_lsp.engine.int8.selftest import exact_kind
from fastcoder_lsp.engine.int8.sync import default_threads
from fastcoder_lsp.engine.speeds import measure_speeds
from fastcoder_lsp.model.catalogue import FAMILY
from fastcoder_lsp.model.choice import PRECISIONS, PROMPT_TOKENS, Speed

EXAMPLE = "choice --sizes 0.5B,1.5B"
CAPACITY = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Compare the times that `auto` promises with those of whole models in shape."""

    sizes: str = option("sizes, by commas", "0.5B,1.5B,3B,7B")
    bits: str = option("bits of a weight, by commas", "8,4")
    threads: int = option("threads; 0 for the engine's own number", 0)
    rounds: int = option("measurements of each figure", 4)
    shared: bool = option("one thread and its CPU time: on a machine that other programs use", False)


def run(options: Options) -> int:
    threads, clock = options.threads or default_threads(), time.perf_counter
    if options.shared:
        threads, clock = 1, time.thread_time
    rows = []
    results: dict[str, Mapping[str, float]] = {}
    shapes = {model.name.rpartition(" ")[2]: model.shape for model in named(MODELS) if "Qwen" in model.name}
    for bits in map(int, options.bits.split(",")):
        for size in FAMILY:
            name = size.name.rpartition("-")[2]
            if name not in options.sizes.split(","):
                continue
            promised, measured, seconds = compare(shapes[name], size.hub_id, bits, threads, options.rounds, clock)
            found = {"promised_step_ms": promised.step_ms, "measured_step_ms": measured.step_ms}
            found |= {"promised_prompt_ms": promised.prompt_ms, "measured_prompt_ms": measured.prompt_ms}
            results[f"{name} {PRECISIONS[bits]}"] = found | {"seconds": seconds}
            step, taken, prompt, read = (f"{ms:.1f}" for ms in found.values())
            rows.append([name, PRECISIONS[bits], step, taken, f"{promised.step_ms / measured.step_ms:.2f}"])
            rows[-1] += [prompt, read, f"{promised.prompt_ms / measured.prompt_ms:.2f}", f"{seconds:.2f}"]
    columns = ["size", "weights", "promised ms a token", "measured", "ratio"]
    columns += [f"promised prompt of {PROMPT_TOKENS}", "measured", "ratio"]
    print_table("What `auto` promises", [*columns, "s to promise"], rows)
    write(options, "choice", {"sizes": results})
    return 0


def compare(
    shape: Shape, hub_id: str, bits: int, threads: int, rounds: int, clock: Callable[[], float]
) -> tuple[Speed, Speed, float]:
    """The promise for one size, its measured times, and the seconds that promising all sizes takes."""
    kind = exact_kind(shape, kernels_folder(), bits)
    assert kind is not None, "no kernels run here"
    arrays = random_arrays(shape, kind)
    whole = Int8Backend(shape, arrays, kind, capacity=CAPACITY, threads=threads, kernels=kernels_folder())
    whole.warm_up(lambda _share, _what: None)
    measure_speeds(FAMILY, bits, threads, kernels_folder(), lambda _share, _what: None)  # compiles
    promises, steps, prompts, seconds = list[Speed](), list[float](), list[float](), list[float]()
    for _ in range(rounds):
        began = clock()
        found = measure_speeds(FAMILY, bits, threads, kernels_folder(), lambda _share, _what: None, clock)
        seconds.append(clock() - began)
        promises.append(found.speeds[hub_id, bits])
        prompts.append(_prompt_ms(whole, clock))
        steps += [_ms(whole, 1, PROMPT_TOKENS, clock, wanted=1) for _ in range(4)]
    whole.close()
    promised = Speed(min(each.step_ms for each in promises), min(each.prompt_ms for each in promises))
    return promised, Speed(min(steps), min(prompts)), min(seconds)


def _prompt_ms(backend: Int8Backend, clock: Callable[[], float]) -> float:
    starts = range(0, PROMPT_TOKENS, CHUNK)
    return sum(_ms(backend, min(CHUNK, PROMPT_TOKENS - start), start, clock) for start in starts)


def _ms(backend: Int8Backend, count: int, cached: int, clock: Callable[[], float], *, wanted: int = 0) -> float:
    rows = np.arange(count, dtype=np.int64)
    asked = Rows(rows % 1000, rows - 1, rows, cached, count - wanted)
    before = clock()
    backend.forward(asked)
    return (clock() - before) * 1e3
