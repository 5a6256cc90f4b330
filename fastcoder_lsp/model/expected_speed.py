"""How long a model will take for a token on this machine's CPU, and how much memory, told before it is fetched.

Owns the estimate: what a step reads of the weights, over what memory hands to all threads together. That is what a step
of one row waits for (docs/benchmarks.md); a prompt, which is computed once, is not in it. Those weights are what is in
memory, and what a server needs beside them; of the embedding only the rows that are used.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.model.memory import available_bytes

WEIGHTS: Mapping[str, int] = {
    "Qwen2.5-Coder-0.5B": 494_000_000,
    "Qwen2.5-Coder-1.5B": 1_544_000_000,
    "Qwen2.5-Coder-3B": 3_086_000_000,
    "Qwen2.5-Coder-7B": 7_070_000_000,
}
"""Numbers that a step reads: all but the embedding, where the head is another matrix."""
ATTENTION = 0.1
"""Of the weights, attention's matrices, which stay in eight bits: 0.09 of the smallest model's, 0.12 of the largest."""
BYTES: Mapping[str, float] = {"eight bits": 1.0, "four bits": ATTENTION + (1 - ATTENTION) * 4.25 / 8}
ABOVE_LIMIT = 1.2
"""A step takes so much longer than its reading: 1.06 to 1.3 were measured."""
BESIDE_BYTES = 270_000_000
"""Of a server's memory, beside the weights: its two processes with the default model (docs/benchmarks.md)."""
_READ_BYTES, _TIMES, _MOST_THREADS = 1 << 26, 8, 8
_SHARE, _LEAST_BYTES = 4, 1 << 20
"""Of what memory is free, a part is read: a container with little of it would end the download."""


def expected_ms(weights: int, bytes_a_second: float) -> dict[str, float]:
    """Milliseconds a token, by the precision of the weights."""
    return {name: weights * size / bytes_a_second * ABOVE_LIMIT * 1e3 for name, size in BYTES.items()}


def expected_bytes(weights: int) -> dict[str, float]:
    """Memory of a server, by the precision of the weights."""
    return {name: weights * size + BESIDE_BYTES for name, size in BYTES.items()}


def expectation(bytes_a_second: float, free_bytes: int) -> str:
    """A table of every size of the default family, and what memory is free for a server."""
    lines = [f"Expected on this CPU, without drafting ({free_bytes / 1e9:.1f} GB of memory are free):"]
    lines.append(f"  {'model':20}  {'ms a token':>10}  {'memory':>7}  {'in four bits':>12}  {'memory':>7}")
    for name, weights in WEIGHTS.items():
        eight, four = expected_ms(weights, bytes_a_second).values()
        memory, less = (f"{size / 1e9:.1f} GB" for size in expected_bytes(weights).values())
        lines.append(f"  {name:20}  {eight:10.0f}  {memory:>7}  {four:12.0f}  {less:>7}")
    return "\n".join(lines)


def read_speed() -> float:
    """Bytes a second that all threads together read: measured, in a fraction of a second, the best of a few times."""
    threads = max(1, min(os.cpu_count() or 1, _MOST_THREADS))
    size = max(_LEAST_BYTES, min(_READ_BYTES, available_bytes() // _SHARE // threads))
    parts = [np.ones(size // 8, np.int64) for _ in range(threads)]
    best = 0.0
    with ThreadPoolExecutor(threads) as team:
        for _ in range(_TIMES):
            start = time.perf_counter()
            list(team.map(_read, parts))
            best = max(best, threads * size / max(time.perf_counter() - start, 1e-9))
    return best


def _read(numbers: npt.NDArray[np.int64]) -> int:
    return int(numbers.sum())
