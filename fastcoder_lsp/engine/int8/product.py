"""The phase of one product: blocks of columns are the jobs, all rows follow inside, so weights are read once."""

from typing import Any

from fastcoder_lsp.engine.int8.amx import SIDE, begin_tiles, end_tiles, tiled_product
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.memory import Floats, Product, Scratch
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.sync import await_jobs, finish_jobs, take_job
from fastcoder_lsp.engine.int8.tagged import tagged
from fastcoder_lsp.engine.int8.tiles import product_tile


def make_multiply(kind: DotKind, tag: str, *, add: bool) -> Any:
    """The compiled phase; its output replaces what `out_MN` holds, or is added to it."""
    columns = kind.vectors * LANES
    begin, multiply_block, end = make_block(kind, f"{tag}_{add}", add=add)

    @tagged(f"{tag}_{add}")
    def multiply(
        work: Scratch,
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
        x, row_scales, out = work.bytes_PK.ctypes.data, work.scales_M.ctypes.data, out_MN.ctypes.data
        share = max(1, blocks // (threads * 8))
        jobs = (blocks + share - 1) // share
        begin()
        job = take_job(work.counters, phase)
        while job < jobs:
            for block in range(job * share, min(blocks, (job + 1) * share)):
                at, w = block * columns * 4, weights + block * groups * columns * 4
                multiply_block(x, w, groups, sums + at, scales + at, biases + at, row_scales, out + at, stride, count)
            finish_jobs(work.counters, phase, 1)
            job = take_job(work.counters, phase)
        end()
        await_jobs(work.counters, phase, jobs)

    return multiply


def make_block(kind: DotKind, tag: str, *, add: bool) -> tuple[Any, Any, Any]:
    """What a thread does first, for each block of columns, and last.

    For each block: addresses, and bytes between rows, as of `tiles.product_tile`, for `count` rows of any number.
    """
    if kind.tiled:
        return begin_tiles, _tiled_block(kind, tag, add=add), end_tiles
    return _nothing, _unrolled_block(kind, tag, add=add), _nothing


@tagged("product")
def _nothing() -> None:
    pass


def _tiled_block(kind: DotKind, tag: str, *, add: bool) -> Any:
    single = product_tile(kind, 1, add=add)  # a row alone waits for memory only, and vectors ask for it more evenly
    one, two = tiled_product(kind, 1, add=add), tiled_product(kind, 2, add=add)

    @tagged(tag)
    def multiply_block(
        x: int,
        w: int,
        groups: int,
        sums: int,
        scales: int,
        biases: int,
        row_scales: int,
        out: int,
        stride: int,
        count: int,
    ) -> None:
        if count == 1:
            single(x, w, groups, sums, scales, biases, row_scales, out, stride)
            return
        for row in range(0, count, 2 * SIDE):
            here, row_scale, target, left = x + row * groups * 4, row_scales + row * 4, out + row * stride, count - row
            if left <= SIDE:
                one(here, w, groups, sums, scales, biases, row_scale, target, stride, left)
            else:
                two(here, w, groups, sums, scales, biases, row_scale, target, stride, left)

    return multiply_block


def _unrolled_block(kind: DotKind, tag: str, *, add: bool) -> Any:
    most, panel = kind.rows, kind.panel
    tile1, tile2, tile4, tile8 = (product_tile(kind, min(rows, most), add=add) for rows in (1, 2, 4, 8))

    @tagged(tag)
    def multiply_block(
        x: int,
        w: int,
        groups: int,
        sums: int,
        scales: int,
        biases: int,
        row_scales: int,
        out: int,
        stride: int,
        count: int,
    ) -> None:
        for row in range(0, count, most):
            here = x + (row // panel) * groups * 4 * panel + (row % panel) * 4
            row_scale, target, left = row_scales + row * 4, out + row * stride, count - row
            if left == 1:
                tile1(here, w, groups, sums, scales, biases, row_scale, target, stride)
            elif left == 2 or most == 2:
                tile2(here, w, groups, sums, scales, biases, row_scale, target, stride)
            elif left <= 4 or most == 4:
                tile4(here, w, groups, sums, scales, biases, row_scale, target, stride)
            else:
                tile8(here, w, groups, sums, scales, biases, row_scale, target, stride)

    return multiply_block
