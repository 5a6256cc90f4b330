"""Larger models in shape: random weights of a seed; what memory and steps take, beside reading them.

`python -m benchmarks.shapes --shapes 1.5B,3B,7B` for our CPU kernels: one thread, its CPU time, in turns, the least of
all, which on a machine that others use says what the code takes. With `--engine cuda-graphs`, `cuda-int8` or
`cuda-int4` the graph engine on a GPU: the median by the clock. Nothing sensible is said by such a model.
"""

import argparse
import statistics
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import psutil
import torch

from benchmarks.harness import Reported, write
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.cli.options import add_options, filled, option
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.engine.architecture import Shape, fast_shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import DotKind, in_four_bits, kinds_here
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, kind_of, layout
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.static.build import Recipe, build
from fastcoder_lsp.engine.static.device import CpuDevice, CudaDevice
from fastcoder_lsp.engine.static.weights import TensorSource
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model.tensors import TYPES

_CHUNK: Final = 1 << 24
_CACHED: Final = 700
_CAPACITY: Final = 1024
_READ_BYTES: Final = 1 << 28
WIDTHS: Final = (1, 16)
PRECISIONS: Final = {"cpu-graphs": "plain", "cuda-graphs": "plain", "cuda-int8": "int8", "cuda-int4": "int4"}
"""Engines of graphs → the precision of their weights."""


_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


def _qwen(*sizes: int, vocabulary: int = 151936) -> dict[str, Any]:
    rest = {"model_type": "qwen2", "max_position_embeddings": 32768, "rope_theta": 1e6}
    words = {"vocab_size": vocabulary, "tie_word_embeddings": vocabulary == 151936}
    return dict(zip(_SIZES, sizes, strict=True)) | words | rest


def _llama(width: int, inner: int, layers: int, heads: int, vocabulary: int, theta: float) -> dict[str, Any]:
    rest = {"model_type": "llama", "max_position_embeddings": 16384, "rope_theta": theta, "rms_norm_eps": 1e-6}
    words = {"vocab_size": vocabulary, "tie_word_embeddings": False}
    return dict(zip(_SIZES, (width, inner, layers, heads, heads), strict=True)) | words | rest


MODELS: Mapping[str, Mapping[str, Any]] = {
    "Qwen2.5-Coder 0.5B": _qwen(896, 4864, 24, 14, 2),
    "Qwen2.5-Coder 7B": _qwen(3584, 18944, 28, 28, 4, vocabulary=152064),
    "Qwen2.5-Coder 1.5B": _qwen(1536, 8960, 28, 12, 2),
    "Qwen2.5-Coder 3B": _qwen(2048, 11008, 36, 16, 2),
    "DeepSeek-Coder 1.3B": _llama(2048, 5504, 24, 16, 32256, 1e5),
    "DeepSeek-Coder 6.7B": _llama(4096, 11008, 32, 32, 32256, 1e5),
    "CodeLlama 7B": _llama(4096, 11008, 32, 32, 32016, 1e6),
    "CodeLlama 13B": _llama(5120, 13824, 40, 40, 32016, 1e6),
}
"""Published shapes."""
TINY: Mapping[str, Mapping[str, Any]] = {
    "tiny Qwen2": _qwen(64, 96, 2, 4, 2, vocabulary=211) | {"tie_word_embeddings": True},
    "tiny Llama": _llama(64, 96, 2, 4, 211, 1e5),
}
"""For tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reported):
    """Measure models of published shapes with random weights."""

    shapes: str = option("models whose names hold one of these, by commas", "1.5B,3B,7B")
    engine: str = option("cpu-int8, cpu-int4, cuda-graphs, cuda-int8, cuda-int4 or cpu-graphs", "cpu-int4")
    bits: int | None = option("4 or 8: as the engine cpu-int4 or cpu-int8", None, choices=(4, 8))
    rounds: int = option("measurements of each figure", 8)


@dataclass(frozen=True, slots=True)
class NamedShape:
    name: str
    config: Mapping[str, Any]
    shape: Shape


def named(models: Mapping[str, Mapping[str, Any]]) -> list[NamedShape]:
    found = []
    for name, config in models.items():
        shape = fast_shape(config)
        assert shape is not None, name
        found.append(NamedShape(name, config, shape))
    return found


@dataclass(frozen=True, slots=True)
class ShapeCost:
    """By a model: bytes that a step reads, memory in use, seconds by rows, and for reading those bytes alone."""

    weights_bytes: int
    memory_bytes: int
    steps_s: Mapping[int, float]
    read_s: float


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, Options)
    options = filled(Options, parser.parse_args(words))
    engine = f"cpu-int{options.bits}" if options.bits else options.engine
    found: dict[str, ShapeCost] = {}
    for model in named({**MODELS, **TINY}):
        if any(part in model.name for part in options.shapes.split(",")):
            found[model.name] = measure(model, engine, options.rounds)
    rows = []
    for name, taken in found.items():
        ratios = [f"{taken.steps_s[width] / taken.read_s:.2f}" for width in WIDTHS]
        times = [f"{taken.steps_s[width] * 1e3:.2f}" for width in WIDTHS]
        sizes = [f"{size / 1e9:.2f}" for size in (taken.weights_bytes, taken.memory_bytes)]
        rows.append([name, *sizes, f"{taken.read_s * 1e3:.2f}", *times, *ratios])
    columns = ["shape", "weights GB", "memory GB", "reading ms", "1 row ms", "16 rows ms", "1 / reading", "16"]
    print_table(f"{engine}, random weights", columns, rows)
    write(options, "shapes", {"shapes": {name: asdict(taken) for name, taken in found.items()}})


def measure(model: NamedShape, engine: str, rounds: int) -> ShapeCost:
    """Make a model of this shape, run steps of it, and read as many bytes; UsageError for any other engine."""
    if engine in PRECISIONS:
        return _on_graphs(model, engine, rounds)
    if engine not in ("cpu-int8", "cpu-int4"):
        raise UsageError(f"{engine} is not measured by shape", f"Take cpu-int8, cpu-int4, {', '.join(PRECISIONS)}.")
    kind = kinds_here()[0] if engine == "cpu-int8" else in_four_bits(kinds_here()[0])
    return _by_our_kernels(replace(model.shape, positions=_CAPACITY), kind, rounds)


@torch.inference_mode()
def _on_graphs(model: NamedShape, engine: str, rounds: int) -> ShapeCost:
    device = CpuDevice() if engine.startswith("cpu") else CudaDevice()
    dtype = torch.float32 if engine.startswith("cpu") else torch.bfloat16
    recipe = Recipe(
        name=engine,
        model=model.name,
        source="random weights",
        shape=model.shape,
        open_source=lambda: random_weights(model, device.place, dtype),
        context=_CAPACITY,
        dtype=dtype,
        progress=lambda _share, _what: None,
        precision=PRECISIONS[engine],
    )
    graphs = build(recipe, device)
    chance = np.random.default_rng(0)
    prompt = chance.integers(0, model.shape.vocabulary, _CACHED).tolist()
    memory = torch.ones(_READ_BYTES // 4, dtype=torch.float32, device=device.place)
    steps: dict[int, list[float]] = {width: [] for width in WIDTHS}
    reading = []
    for number in range(rounds + 2):  # the first two capture, and warm up
        for width in WIDTHS:
            tree = DraftTree((prompt[0], *range(1, width)), (-1, *[0] * (width - 1)))
            graphs.prefill(prompt, lambda: False)
            steps[width] += [_s(device, partial(graphs.step, tree))] * (number > 1)
        reading += [_s(device, memory.sum)] * (number > 1)
    weights, free = graphs.static.programs.transformer.model.bytes, device.memory()
    graphs.close()
    medians = {width: statistics.median(taken) for width, taken in steps.items()}
    return ShapeCost(weights, free.total - free.free, medians, statistics.median(reading) * weights / memory.nbytes)


def _s(device: CpuDevice | CudaDevice, act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    device.mark()
    device.wait()
    return time.perf_counter() - start


def _by_our_kernels(shape: Shape, kind: DotKind, rounds: int) -> ShapeCost:
    arrays = random_arrays(shape, kind)
    read = sum(array.nbytes for name, array in arrays.items() if name != "embedding")
    backend = Int8Backend(shape, arrays, kind, capacity=_CAPACITY, threads=1, kernels=kernels_folder())
    backend.warm_up(lambda _share, _what: None)
    steps = {width: partial(backend.forward, Rows.chain(list(range(width)), _CACHED)) for width in WIDTHS}
    for step in steps.values():
        step()
    resident = psutil.Process().memory_info().rss
    memory = np.ones(_READ_BYTES // 8, np.int64)
    least = dict.fromkeys(WIDTHS, np.inf)
    reading = np.inf
    for _ in range(rounds):
        for width, step in steps.items():
            least[width] = min(least[width], _cpu_s(step))
        reading = min(reading, _cpu_s(memory.sum))
    backend.close()
    return ShapeCost(read, resident, least, reading * read / memory.nbytes)


def random_arrays(shape: Shape, kind: DotKind, seed: int = 0) -> dict[str, Array]:
    """Packed weights of a seed; scales and norms are what keeps numbers small."""
    chance, arrays = np.random.default_rng(seed), dict[str, Array]()
    for name, (what, sizes) in layout(shape, kind, "F16").items():
        array = arrays[name] = aligned(sizes, TYPES[what])
        if name.endswith(".weights"):
            flat = array.reshape(-1).view(np.uint8)
            for at in range(0, len(flat), _CHUNK):
                part = flat[at : at + _CHUNK]
                part[:] = chance.integers(0, 256, len(part), np.uint8)
            if kind_of(kind, name.removesuffix(".weights")).bits == 4:  # factors are −15…15
                array.reshape(-1, kind.line_bytes)[:, : kind.vectors * LANES] = 5
        elif name.endswith(".scales"):
            array.fill(1e-4)
        elif name.startswith("norm"):
            array.fill(1)
    return arrays


def _cpu_s(act: Callable[[], object]) -> float:
    start = time.thread_time()
    act()
    return time.thread_time() - start


class RandomSource:
    """Weights that are made up when asked for, on the device: the same for the same seed, in whatever order."""

    def __init__(self, model: NamedShape, device: torch.device, dtype: torch.dtype, seed: int = 0) -> None:
        self._model, self._device, self._dtype, self._seed = model, device, dtype, seed
        self._generator = torch.Generator(device)

    def __contains__(self, name: str) -> bool:
        if name == "lm_head.weight":
            return not self._model.config["tie_word_embeddings"]
        if name.endswith(".bias"):
            return self._model.shape.kind == "qwen2" and name.split(".")[-2] in ("q_proj", "k_proj", "v_proj")
        return True

    def raw(self, name: str, *shape: int) -> torch.Tensor:
        values = torch.empty(shape, dtype=self._dtype, device=self._device)
        if "norm" in name:
            return values.fill_(1.0)
        self._generator.manual_seed(zlib.crc32(f"{self._seed} {name}".encode()))
        return values.normal_(0.0, 0.02 if name.endswith(".bias") else shape[-1] ** -0.5, generator=self._generator)


@contextmanager
def random_weights(model: NamedShape, device: torch.device, dtype: torch.dtype) -> Iterator[TensorSource]:
    yield RandomSource(model, device, dtype)


if __name__ == "__main__":
    main()
