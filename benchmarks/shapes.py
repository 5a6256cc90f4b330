"""Larger models in shape: random weights of a seed, made in a stream; what memory and steps take, beside reading them.

`python -m benchmarks.shapes --shapes 1.5B,3B,7B`. One thread, its CPU time, in turns, the least of all:
on a machine that others use, that says what the code takes. Nothing sensible is said by such a model.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import psutil

from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import DotKind, in_four_bits, kinds_here
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, kind_of, layout
from fastcoder_lsp.engine.int8.simd import LANES

_SIZES: Final[Mapping[str, tuple[int, int, int, int, int, int, int]]] = {
    "0.5B": (24, 896, 14, 2, 64, 4864, 151936),
    "1.5B": (28, 1536, 12, 2, 128, 8960, 151936),
    "3B": (36, 2048, 16, 2, 128, 11008, 151936),
    "7B": (28, 3584, 28, 4, 128, 18944, 152064),
}
"""Of Qwen2.5-Coder: layers, width, heads, of keys and values, their size, of the inner layer, of the vocabulary."""
_TYPES: Final[Mapping[str, type[np.generic]]] = {"I8": np.int8, "I32": np.int32, "F32": np.float32, "F16": np.float16}
_CHUNK: Final = 1 << 24
_CACHED: Final = 700
_CAPACITY: Final = 1024
_READ_BYTES: Final = 1 << 28
WIDTHS: Final = (1, 16)


@dataclass(frozen=True, slots=True)
class Taken:
    """By a model: bytes that a step reads, resident memory of the process, seconds by rows, and for reading alone."""

    weights_bytes: int
    resident_bytes: int
    steps_s: Mapping[int, float]
    read_s: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the shapes that are named, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="1.5B,3B,7B", help="names, with commas (default: 1.5B,3B,7B)")
    parser.add_argument("--bits", type=int, default=4, choices=(4, 8))
    parser.add_argument("--rounds", type=int, default=8, help="of which the least counts (default: 8)")
    options = parser.parse_args(arguments)
    kind = kinds_here()[0] if options.bits == 8 else in_four_bits(kinds_here()[0])
    rows = []
    for name in options.shapes.split(","):
        taken = measure(shape_of(name), kind, options.rounds)
        ratios = [f"{taken.steps_s[width] / taken.read_s:.2f}" for width in WIDTHS]
        times = [f"{taken.steps_s[width] * 1e3:.0f}" for width in WIDTHS]
        sizes = [f"{size / 1e9:.2f}" for size in (taken.weights_bytes, taken.resident_bytes)]
        rows.append([name, *sizes, f"{taken.read_s * 1e3:.0f}", *times, *ratios])
    columns = ["shape", "weights GB", "resident GB", "reading ms", "1 row ms", "16 rows ms", "1 / reading", "16"]
    print_table(f"{kind.name}, one thread", columns, rows)


def shape_of(name: str) -> Shape:
    """A shape of the family.

    Raises:
        KeyError: there is none of this name.
    """
    layers, width, heads, kv_heads, head_dim, inner, vocabulary = _SIZES[name]
    angles_H = 1e6 ** -(np.arange(head_dim // 2) / (head_dim // 2))
    return Shape("qwen2", layers, width, heads, kv_heads, head_dim, inner, vocabulary, 1e-6, _CAPACITY, angles_H)


def measure(shape: Shape, kind: DotKind, rounds: int) -> Taken:
    """Make a model of this shape, run steps of it, and read as many bytes."""
    arrays = random_arrays(shape, kind)
    read = sum(array.nbytes for name, array in arrays.items() if name != "embedding")
    backend = Int8Backend(shape, arrays, kind, capacity=_CAPACITY, threads=1, kernels=kernels_folder())
    backend.warm_up(lambda _share, _what: None)
    steps = {width: _step(backend, width) for width in WIDTHS}
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
    return Taken(read, resident, least, reading * read / memory.nbytes)


def random_arrays(shape: Shape, kind: DotKind, seed: int = 0) -> dict[str, Array]:
    """Packed weights of a seed; scales and norms are what keeps numbers small."""
    chance, arrays = np.random.default_rng(seed), dict[str, Array]()
    for name, (what, sizes) in layout(shape, kind, "F16").items():
        array = arrays[name] = aligned(sizes, _TYPES[what])
        if name.endswith(".weights"):
            flat = array.reshape(-1).view(np.uint8)
            for at in range(0, len(flat), _CHUNK):
                _fill(flat[at : at + _CHUNK], chance)
            if kind_of(kind, name.removesuffix(".weights")).bits == 4:  # factors are −15…15
                array.reshape(-1, kind.line_bytes)[:, : kind.vectors * LANES] = 5
        elif name.endswith(".scales"):
            array.fill(1e-4)
        elif name.startswith("norm"):
            array.fill(1)
    return arrays


def _fill(part: npt.NDArray[np.uint8], chance: np.random.Generator) -> None:
    part[:] = chance.integers(0, 256, len(part), np.uint8)


def _step(backend: Int8Backend, width: int) -> Callable[[], object]:
    rows = Rows.chain(list(range(width)), _CACHED)
    return lambda: backend.forward(rows)


def _cpu_s(act: Callable[[], object]) -> float:
    start = time.thread_time()
    act()
    return time.thread_time() - start


if __name__ == "__main__":
    main()
