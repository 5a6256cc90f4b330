"""Byte products alone, of this process's kind of instructions: a matrix that caches hold, by rows, on one thread.

`FASTCODER_KIND=avx2 python -m benchmarks.products` times the code of another kind. Each figure is the least of many
short runs, which on a machine that others use says what the code takes.
"""

import argparse
import time
from typing import Any, Final

import numpy as np

from fastcoder_lsp.bench.limits import measure_limits
from fastcoder_lsp.bench.report import print_table
from fastcoder_lsp.engine.int8.dot import DotKind, in_four_bits, kinds_here, unfolded_bytes
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.product import make_block
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.kernels import tagged

INPUTS: Final = 896
OUTPUTS: Final = 768
"""A multiple of every kind's block of columns."""
WIDTHS: Final = (1, 2, 4, 8, 16, 64)
SECONDS: Final = 0.3


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    kind = kinds_here()[0]
    columns, found = list[str](), list[list[object]]()
    for one in (kind, in_four_bits(kind)):
        limits, times = measure_limits(one, 1), _times(one)
        columns += [f"{one.bits} bits, µs", "products a cycle", "of limit"]
        rates = [rows * INPUTS * OUTPUTS / us / 1e3 / limits.ghz for rows, us in times.items()]
        found.append([f"{us:.0f}" for us in times.values()])
        found.append([f"{rate:.1f}" for rate in rates])
        found.append([f"{rate / limits.products:.0%}" for rate in rates])
    title = f"{kind.name}: products of {INPUTS} inputs and {OUTPUTS} outputs, one thread"
    print_table(title, ["rows", *columns], list(zip(WIDTHS, *found, strict=True)))


def _times(kind: DotKind) -> dict[int, float]:
    run, blocks = _runner(kind), OUTPUTS // (kind.vectors * LANES)
    weights = aligned((blocks, INPUTS // kind.line * kind.line_bytes), np.int8)
    weights[:] = np.random.default_rng(0).integers(0, 16, weights.shape)  # factors of four-bit weights are at most 15
    unfolded = aligned((unfolded_bytes(kind, INPUTS),), np.int8)
    room = max(WIDTHS) + kind.rows + kind.panel
    x, sides = aligned((room, INPUTS), kind.number), aligned((room + OUTPUTS,), np.float32)
    out = aligned((room, OUTPUTS), np.float32)
    x.fill(1)
    times = {}
    for rows in WIDTHS:
        run(x, weights, sides, out, unfolded, rows)  # compiles
        least, until = np.inf, time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            start = time.perf_counter()
            run(x, weights, sides, out, unfolded, rows)
            least = min(least, time.perf_counter() - start)
        times[rows] = least * 1e6
    return times


def _runner(kind: DotKind) -> Any:
    tag = f"{kind.name}_timed".replace("-", "_")
    begin, multiply_block, end = make_block(kind, tag, add=False)
    columns = kind.vectors * LANES

    @tagged(tag, called=True)
    def run(x: Any, weights: Any, sides: Any, out: Any, unfolded: Any, rows: int) -> None:
        side = sides.ctypes.data
        begin()
        for block in range(weights.shape[0]):
            multiply_block(
                x.ctypes.data,
                weights[block].ctypes.data,
                INPUTS // 4,
                side,
                side,
                side,
                side,
                out.ctypes.data + 4 * columns * block,
                out.strides[0],
                rows,
                unfolded.ctypes.data,
            )
        end()

    return run


if __name__ == "__main__":
    main()
