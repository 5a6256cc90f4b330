"""The speed of models of other sizes on this CPU, timed on slices of their shape with random weights.

A slice has a few layers of the size's widths, and for a step as much of its head, so that more is read than a cache
holds. The engine's own kernels and threads run it; the whole model's time follows from the ratio of weights. All slices
have heads like the 0.5B model's, so that one compiled pass serves all sizes.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int8.backend import CHUNK, Int8Backend
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, layout
from fastcoder_lsp.engine.int8.selftest import exact_kind
from fastcoder_lsp.model.catalogue import Size
from fastcoder_lsp.model.choice import PROMPT_TOKENS, Speed, Speeds
from fastcoder_lsp.model.machine import available_bytes
from fastcoder_lsp.model.tensors import TYPES

GROUP, HEAD_DIM = 7, 64
"""Query heads to a key/value head, and their size, of Qwen2.5-Coder-0.5B: every start with it compiles this pass."""
STEP_BYTES, PROMPT_BYTES = 1 << 28, 1 << 26
"""Weights of a slice for a step, which only reads, and for a prompt, where arithmetic is most of the time."""
SHARE = 4
"""Uses at most this part of the free memory: in a small container the system could kill a download."""
SECONDS, ROUNDS = 0.2, 6
"""Each size is timed once, then again together with the next one, for as many rounds as fit into this time."""
_STEPS = 2
"""Steps in each round."""
BUSY = 0.85
"""Below this share of the threads' time on the CPU, other programs had the cores meanwhile."""
_LINE, _SPARE = 64, 1 << 19
"""Alignment of matrices in bytes, and spare bytes for it and the head's last block."""
_CAPACITY, _CACHED = 512, 136
"""Slots of the KV cache, and those in use: the mean of a prompt's chunks."""
_UNFINISHED = 0.9
"""The part of the last layer that a prompt skips: it computes only keys and values there."""


@dataclass(slots=True)
class _Times:
    """The shortest times of a pass in milliseconds: by the clock, and on the CPU, of all threads together."""

    clock_ms: float = math.inf
    worked_ms: float = math.inf

    def take(self, backend: Int8Backend, rows: int, clock: Callable[[], float]) -> None:
        """Time one pass with logits of the last row."""
        asked = replace(Rows.chain([0] * rows, _CACHED), logits_from=rows - 1)
        before, used_s = clock(), time.process_time()
        backend.forward(asked)
        self.clock_ms = min(self.clock_ms, max(1e-3, (clock() - before) * 1e3))
        self.worked_ms = min(self.worked_ms, (time.process_time() - used_s) * 1e3)

    def least(self, threads: int) -> float:
        """The time of a pass; with `threads`, what each of them worked, which other programs hardly change."""
        worked_ms = self.worked_ms / threads if threads else 0.0
        return min(self.clock_ms, worked_ms) if worked_ms > 0 else self.clock_ms  # Windows counts in steps of 16 ms


@dataclass(slots=True)
class _Slices:
    """A size's slices, their shares of the model, and their shortest times: of the clock, and of a thread's work."""

    size: Size
    stepping: Int8Backend
    step_part: float
    reading: Int8Backend
    prompt_part: float
    step: _Times = field(default_factory=_Times)
    chunk: _Times = field(default_factory=_Times)
    rest: _Times = field(default_factory=_Times)
    spent_s: float = 0.0
    rounds: int = 0

    def take(self, clock: Callable[[], float]) -> None:
        """Time steps, a chunk of a prompt, and the rows of its last chunk, until they were timed often enough."""
        if self.rounds and self.spent_s * (1 + 1 / self.rounds) > SECONDS:
            return
        began = clock()
        for _ in range(_STEPS):
            self.step.take(self.stepping, 1, clock)
        self.chunk.take(self.reading, CHUNK, clock)
        self.rest.take(self.reading, PROMPT_TOKENS % CHUNK, clock)
        self.rounds, self.spent_s = self.rounds + 1, self.spent_s + max(0.0, clock() - began)

    def speed(self, threads: int) -> Speed:
        """The whole model's speed. `threads`: of the engine, where other programs had the cores, else 0."""
        prompt_ms = PROMPT_TOKENS // CHUNK * self.chunk.least(threads) + self.rest.least(threads)
        return Speed(self.step.least(threads) / self.step_part, prompt_ms / self.prompt_part)


@dataclass(frozen=True, slots=True)
class Timed:
    """Speeds by hub id and bits, and whether other programs had the cores meanwhile."""

    speeds: Speeds
    disturbed: bool


def measure_speeds(
    sizes: Sequence[Size],
    bits: int,
    threads: int,
    kernels: Path,
    progress: Progress,
    clock: Callable[[], float] = time.perf_counter,
) -> Timed:
    """Time all sizes: within a second, apart from compiling the pass if it is not cached.

    If one layer of a size exceeds the free memory's share, its speed follows from the size before it, by the weights.

    Args:
        sizes: smallest first.
        bits: of a weight, 8 or 4.
        threads: of the engine.
        kernels: folder for machine code.
        progress: receives the progress of compiling the pass.
        clock: seconds.

    Returns:
        The speeds; none if the kernels do not run on this CPU.
    """
    kind = exact_kind(_shape(sizes[0], 1, 1), kernels, bits)
    if kind is None:
        return Timed({}, disturbed=False)
    room = min(STEP_BYTES, max(1 << 24, available_bytes() // SHARE))
    weights = aligned((room,), np.int8)
    # In four bits some bytes are factors, which the kernels expect to be at most 15.
    block = np.random.default_rng(0).integers(*((-128, 128) if bits == 8 else (0, 16)), 1 << 20, np.int8)
    for at in range(0, room, len(block)):
        weights[at : at + len(block)] = block[: room - at]
    found = list[_Slices]()
    with ExitStack() as stack:
        tiny = _shape(sizes[0], 1, 1)
        arrays = _arrays(tiny, kind, weights)
        first = Int8Backend(tiny, arrays, kind, capacity=_CAPACITY, threads=threads, kernels=kernels)
        stack.callback(first.close)
        first.warm_up(progress)
        for size in sizes:
            if (slices := _slices(size, bits, kind, first, weights)) is None:
                break
            found.append(slices)
        began, used = time.perf_counter(), time.process_time()
        for _ in range(ROUNDS):
            for slices in found:
                slices.take(clock)
        share = (time.process_time() - used) / max(1e-9, (time.perf_counter() - began) * threads)
    disturbed = share < BUSY
    speeds = {(slices.size.hub_id, bits): slices.speed(threads if disturbed else 0) for slices in found}
    for smaller, size in pairwise(sizes):
        if (size.hub_id, bits) not in speeds and (known := speeds.get((smaller.hub_id, bits))) is not None:
            step = size.read_bytes(bits) / smaller.read_bytes(bits)
            prompt = size.layers * size.layer_weights / (smaller.layers * smaller.layer_weights)
            speeds[size.hub_id, bits] = Speed(known.step_ms * step, known.prompt_ms * prompt)
    return Timed(speeds, disturbed=disturbed)


def _slices(size: Size, bits: int, kind: DotKind, first: Int8Backend, weights: Array) -> _Slices | None:
    """The slices of a size; None if the weights do not suffice for a layer."""
    layer, room = _bytes(_shape(size, 1, 0), kind), weights.nbytes - _SPARE
    if layer > room:
        return None
    row = (_bytes(_shape(size, 1, size.vocabulary), kind) - layer) / size.vocabulary
    deep = max(1, min(size.layers, int(room * size.layers / (layer * size.layers + row * size.vocabulary))))
    rows = max(1, min(size.vocabulary * deep // size.layers, int((room - layer * deep) / row)))
    stepping, reading = _shape(size, deep, rows), _shape(size, max(1, min(deep, PROMPT_BYTES // layer)), 1)
    return _Slices(
        size,
        first.over(stepping, _arrays(stepping, kind, weights)),
        _bytes(stepping, kind) / size.read_bytes(bits),
        first.over(reading, _arrays(reading, kind, weights)),
        reading.layers * _layer_weights(reading) / ((size.layers - _UNFINISHED) * size.layer_weights),
    )


def _shape(size: Size, layers: int, vocabulary: int) -> Shape:
    """The shape of a slice, its attention as wide as heads of one size allow."""
    groups = max(1, round(size.heads * size.head_dim / (GROUP * HEAD_DIM)))
    return Shape(
        kind="qwen2",
        layers=layers,
        width=size.width,
        heads=GROUP * groups,
        kv_heads=groups,
        head_dim=HEAD_DIM,
        inner=size.inner,
        vocabulary=vocabulary,
        eps=1e-6,
        positions=_CAPACITY,
        angles_H=np.ones(HEAD_DIM // 2),
    )


def _layer_weights(shape: Shape) -> int:
    return (shape.weight_count - shape.vocabulary * shape.width) // shape.layers


def _bytes(shape: Shape, kind: DotKind) -> int:
    """Bytes of the matrices, which a step reads."""
    arrays = layout(shape, kind, "F16")
    return sum(math.prod(sizes) for name, (_, sizes) in arrays.items() if name.endswith(".weights"))


def _arrays(shape: Shape, kind: DotKind, weights: Array) -> dict[str, Array]:
    """Packed weights of this shape; all matrices are views of `weights`."""
    arrays, at = dict[str, Array](), 0
    for name, (what, sizes) in layout(shape, kind, "F16").items():
        if name.endswith(".weights"):
            count = math.prod(sizes)
            arrays[name] = weights[at : at + count].reshape(sizes)
            at += -(-count // _LINE) * _LINE
        else:
            array = arrays[name] = aligned(sizes, TYPES[what])
            array.fill(1e-4 if name.endswith(".scales") else 1 if name.startswith("norm") else 0)
    return arrays
