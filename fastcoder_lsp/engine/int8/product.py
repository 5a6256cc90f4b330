"""The phase of one product: blocks of columns are the jobs, all rows follow inside, so weights are read once."""

from typing import Any

from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.kernel_cache import compiled
from fastcoder_lsp.engine.int8.memory import Floats, Product, Work
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.sync import await_jobs, finish_jobs, take_job
from fastcoder_lsp.engine.int8.tiles import PANEL, product_tile


def make_multiply(kind: DotKind, tag: str, *, add: bool) -> Any:
    """The compiled phase; its output replaces what `out_MN` holds, or is added to it."""
    columns = kind.vectors * LANES
    most = kind.rows
    tile1, tile2, tile4, tile8 = (product_tile(kind, min(rows, most), add=add) for rows in (1, 2, 4, 8))

    @compiled(f"{tag}_{add}")
    def multiply(
        work: Work,
        phase: int,
        product: Product,
        layer: int,
        count: int,
        out_MN: Floats,
        threads: int,
    ) -> None:
        blocks, groups = product.weights_LBKx.shape[1], product.weights_LBKx.shape[2]
        weights = product.weights_LBKx[layer].ctypes.data
        sums, scales = product.sums_LN[layer].ctypes.data, product.scales_LN[layer].ctypes.data
        biases, stride = product.biases_LN[layer].ctypes.data, out_MN.strides[0]
        share = max(1, blocks // (threads * 8))
        jobs = (blocks + share - 1) // share
        job = take_job(work.counters, phase)
        while job < jobs:
            for block in range(job * share, min(blocks, (job + 1) * share)):
                at, w = block * columns * 4, weights + block * groups * columns * 4
                for row in range(0, count, most):
                    x = work.bytes_PK.ctypes.data + (row // PANEL) * groups * 4 * PANEL + (row % PANEL) * 4
                    out, row_scales = out_MN.ctypes.data + row * stride + at, work.scales_M.ctypes.data + row * 4
                    left = count - row
                    if left == 1:
                        tile1(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
                    elif left == 2 or most == 2:
                        tile2(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
                    elif left <= 4 or most == 4:
                        tile4(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
                    else:
                        tile8(x, w, groups, sums + at, scales + at, biases + at, row_scales, out, stride)
            finish_jobs(work.counters, phase, 1)
            job = take_job(work.counters, phase)
        await_jobs(work.counters, phase, jobs)

    return multiply
