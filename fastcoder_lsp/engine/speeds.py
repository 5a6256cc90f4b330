"""The speed of models on this CPU, timed on slices of one size's shape with random weights.

A slice has a few layers of the size's widths, and for a step as much of its head, so that more is read than a cache
holds. The engine's own kernels and threads run it; the time of every model follows from the ratio of weights. Slices
have heads like the 0.5B model's, whose pass every start with it compiles.
"""

import math
import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from fastcoder_lsp.config.environment import usable_cores
from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int8.backend import CHUNK, Int8Backend
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, layout
from fastcoder_lsp.engine.int8.selftest import exact_kind
from fastcoder_lsp.kernels.cache import current_version
from fastcoder_lsp.model.catalogue import FAMILY
from fastcoder_lsp.model.choice import PROMPT_TOKENS, Measured, Speed
from fastcoder_lsp.model.machine import available_bytes, on_battery
from fastcoder_lsp.model.tensors import TYPES

SIZE = FAMILY[1]
"""The limits of time decide about it on most machines."""
GROUP, HEAD_DIM = 7, 64
"""Query heads to a key/value head, and their size, of Qwen2.5-Coder-0.5B."""
STEP_BYTES = 1 << 28
"""Weights of the slice for a step, which only reads; the one for prompts, where arithmetic takes longer, is a layer."""
SHARE = 4
"""Uses at most this part of the free memory: in a small container the system could kill a download."""
SECONDS, ROUNDS = 1.0, 20
"""No new round begins after this time."""
_LINE, _PAGE, _SPARE = 64, 4096, 128
"""Alignment of matrices in bytes, random bytes that are repeated, and how often for alignment and the last block."""
_CAPACITY, _CACHED = 512, 136
"""Slots of the KV cache, and those in use: the mean of a prompt's chunks."""
_UNFINISHED = 0.9
"""The part of the last layer that a prompt skips: it computes only keys and values there."""


def measure(bits: int, threads: int, kernels: Path, progress: Progress) -> Measured | None:
    """Time steps and parts of a prompt: within two seconds, apart from compiling the pass if it is not cached.

    Args:
        bits: of a weight, 8 or 4.
        threads: of the engine.
        kernels: folder for machine code.
        progress: receives the progress of compiling the pass.

    Returns None if the kernels do not run on this CPU.
    """
    kind = exact_kind(_shape(1, 1), kernels, bits)
    if kind is None:
        return None
    room = min(STEP_BYTES, available_bytes() // SHARE)
    deep = max(1, room * SIZE.layers // SIZE.read_bytes(bits))
    step, chunk = _shape(deep, SIZE.vocabulary * deep // SIZE.layers), _shape(1, 1)
    weights = aligned((_bytes(step, kind) // _PAGE + _SPARE, _PAGE), np.int8)
    # In four bits some bytes are factors, which the kernels expect to be at most 15.
    weights[:] = np.random.default_rng(0).integers(*((-128, 128) if bits == 8 else (0, 16)), _PAGE, np.int8)
    battery, least = on_battery(), dict[int, float]()
    arrays = _arrays(step, kind, weights.reshape(-1))
    with closing(Int8Backend(step, arrays, kind, capacity=_CAPACITY, threads=threads, kernels=kernels)) as stepping:
        stepping.warm_up(progress)
        reading = stepping.over(chunk, _arrays(chunk, kind, weights.reshape(-1)))
        began_s = time.perf_counter()
        for _ in range(ROUNDS):
            for rows in (1, 1, CHUNK, PROMPT_TOKENS % CHUNK):
                ms = pass_ms(stepping if rows == 1 else reading, rows)
                least[rows] = min(ms, least.get(rows, ms))
            if time.perf_counter() - began_s > SECONDS:
                break
    prompt_ms, smallest = PROMPT_TOKENS // CHUNK * least[CHUNK] + least[PROMPT_TOKENS % CHUNK], FAMILY[0]
    prompt = (smallest.layers - _UNFINISHED) * smallest.layer_weights / (chunk.weight_count - chunk.width)
    speed = Speed(least[1] * smallest.read_bytes(bits) / _bytes(step, kind), prompt_ms * prompt)
    return Measured(bits, speed, kind.grouped, threads, current_version(), battery)


def pass_ms(backend: Int8Backend, rows: int) -> float:
    """Milliseconds of a pass with logits of the last row: by the clock, or what each thread worked if that is less.

    The second hardly changes where other programs have the cores.
    """
    asked = replace(Rows.chain([0] * rows, _CACHED), logits_from=rows - 1)
    began_s, used_s = time.perf_counter(), time.process_time()
    backend.forward(asked)
    spent_s, worked_s = time.perf_counter() - began_s, time.process_time() - used_s
    if worked_s > 0 and os.name != "nt":  # Windows counts in steps of 16 ms
        spent_s = min(spent_s, worked_s / min(backend.threads, usable_cores()))
    return max(1e-3, spent_s * 1e3)


def _shape(layers: int, vocabulary: int) -> Shape:
    """The shape of a slice, its attention as wide as heads of one size allow."""
    groups = round(SIZE.heads * SIZE.head_dim / (GROUP * HEAD_DIM))
    return Shape(
        kind="qwen2",
        layers=layers,
        width=SIZE.width,
        heads=GROUP * groups,
        kv_heads=groups,
        head_dim=HEAD_DIM,
        inner=SIZE.inner,
        vocabulary=vocabulary,
        eps=1e-6,
        positions=_CAPACITY,
        angles_H=np.ones(HEAD_DIM // 2),
    )


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
