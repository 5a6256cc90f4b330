"""The phase of one product: its jobs are blocks of columns; each runs all rows, so that weights are read once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastcoder_lsp.core.arrays import Floats
from fastcoder_lsp.engine.int4.grouped import grouped_tile, unpacked_tile, unpacking_tile
from fastcoder_lsp.engine.int4.lookup import lookup_tile
from fastcoder_lsp.engine.int4.unfold import folded_tile, unfold_block, unfolding_tile
from fastcoder_lsp.engine.int8.amx import SIDE, begin_tiles, end_tiles, tiled_product
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.memory import Product, Scratch
from fastcoder_lsp.engine.int8.neon import FOLDED_ROWS_OF_NEON, neon_folded_tile, neon_tile
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.sync import await_jobs, finish_job, take_job
from fastcoder_lsp.engine.int8.tiles import product_tile
from fastcoder_lsp.kernels import tagged

FOLDED_EACH, FOLDED_ROWS = 4, 8
"""Rows for which four-bit weights are unpacked in registers: at a time, and at most; more rows unpack them once."""
LOOKED_UP = 16  # the most rows per looked-up byte


def make_multiply(kind: DotKind, tag: str, *, add: bool) -> Any:
    """The compiled phase; its output replaces the content of `out_MN`, or is added to it."""
    columns, fours, line_bytes = kind.vectors * LANES, kind.line // 4, kind.line_bytes
    begin, multiply_block, end = make_block(kind, f"{tag}_{add}", add=add)

    @tagged(f"{tag}_{add}")
    def multiply(
        work: Scratch, phase: int, product: Product, layer: int, count: int, out_MN: Floats, thread: int, threads: int
    ) -> None:
        blocks, lines = product.weights_LBKx.shape[1], product.weights_LBKx.shape[2]
        groups, unfolded = lines * fours, work.unfolded_TB[thread].ctypes.data
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
                at, w = block * columns * 4, weights + block * lines * line_bytes
                multiply_block(
                    x, w, groups, sums + at, scales + at, biases + at, row_scales, out + at, stride, count, unfolded
                )
            finish_job(work.counters, phase)
            job = take_job(work.counters, phase)
        end()
        await_jobs(work.counters, phase, jobs)

    return multiply


def make_block(kind: DotKind, tag: str, *, add: bool) -> tuple[Any, Any, Any]:
    """A thread's three functions: at the start, for each block of columns, and at the end.

    For each block: addresses, and bytes between rows, as of `tiles.product_tile`, for `count` rows of any number in
    panels of `panel_of(count)`; and an address of room for `unfolded_bytes`.
    """
    make = _folded_block if kind.bits < 8 else _tiled_block if kind.tiled else _rows_block
    block = make(kind, tag, add=add)
    if kind.panel > kind.panel_of(1):
        block = _block_of_one(kind, tag, block, add=add)
    return (begin_tiles, block, end_tiles) if kind.tiled else (_nothing, block, _nothing)


@tagged("product")
def _nothing() -> None:
    pass


def _block_of_one(kind: DotKind, tag: str, block: Any, *, add: bool) -> Any:
    """A single row by a tile of its own, since its bytes are contiguous; more by `block`."""
    make = product_tile if kind.bits == 8 else grouped_tile if kind.grouped else folded_tile
    tile = make(replace(kind, panel=kind.panel_of(1)), 1, add=add)

    @tagged(f"{tag}_or_one")
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
        unfolded: int,
    ) -> None:
        if count == 1:
            tile(x, w, groups, sums, scales, biases, row_scales, out, stride)
        else:
            block(x, w, groups, sums, scales, biases, row_scales, out, stride, count, unfolded)

    return multiply_block


def _tiled_block(kind: DotKind, tag: str, *, add: bool) -> Any:
    single = product_tile(kind, 1, add=add)  # a single row is bound by memory, which vectors read more evenly
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
        unfolded: int,  # noqa: ARG001 all blocks have the same signature
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


Tile = Callable[..., Any]  # makes the product of so many rows, `tile(kind, rows, add=…)`


def _rows_block(
    kind: DotKind, tag: str, *, add: bool, tile: Tile | None = None, most: int | None = None, first: int = 0
) -> Any:
    """Run `tile` on the rows from `first` on, up to `most` at a time."""
    most, panel, four = most or kind.rows, kind.panel, kind.four_bytes
    tile = tile or (neon_tile if kind.neon else product_tile)
    few, some, many = _fewer(most)
    tile1, tile2, tile3, tile4 = (tile(kind, rows, add=add) for rows in (few, some, many, most))

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
        unfolded: int,  # noqa: ARG001 all blocks have the same signature
    ) -> None:
        for row in range(first, count, most):
            here = x + ((row // panel) * groups * panel + row % panel) * four
            row_scale, target, left = row_scales + row * 4, out + row * stride, count - row
            if left <= few:
                tile1(here, w, groups, sums, scales, biases, row_scale, target, stride)
            elif left <= some:
                tile2(here, w, groups, sums, scales, biases, row_scale, target, stride)
            elif many < most and left <= many:
                tile3(here, w, groups, sums, scales, biases, row_scale, target, stride)
            else:
                tile4(here, w, groups, sums, scales, biases, row_scale, target, stride)

    return multiply_block


def _fewer(most: int) -> tuple[int, int, int]:
    """The numbers of rows below `most` that have code of their own."""
    return (4, 8, 12) if most == LOOKED_UP else (min(1, most), min(2, most), min(4, most))


def _folded_block(kind: DotKind, tag: str, *, add: bool) -> Any:
    """Few rows multiply weights unpacked in registers; for more, they are unpacked once into bytes."""
    tile, each, limit = folded_tile, min(kind.rows, FOLDED_EACH), FOLDED_ROWS
    if kind.grouped:
        tile, limit = grouped_tile, each
    elif kind.neon:
        tile, each, limit = neon_folded_tile, FOLDED_ROWS_OF_NEON, FOLDED_ROWS_OF_NEON
    elif kind.tiled:
        each = limit = 1
    elif kind.looks_up:
        limit = each
    few = _rows_block(kind, f"{tag}_folded", add=add, tile=tile, most=each)
    if kind.looks_up:
        many = _rows_block(kind, tag, add=add, tile=lookup_tile, most=LOOKED_UP)
    else:
        many = _unfolded_block(kind, tag, add=add)

    @tagged(f"{tag}_chosen")
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
        unfolded: int,
    ) -> None:
        if count <= limit:
            few(x, w, groups, sums, scales, biases, row_scales, out, stride, count, unfolded)
        else:
            many(x, w, groups, sums, scales, biases, row_scales, out, stride, count, unfolded)

    return multiply_block


def _unfolded_block(kind: DotKind, tag: str, *, add: bool) -> Any:
    """Unpacks a block once, and multiplies its bytes by all rows, or by those not multiplied meanwhile."""
    if kind.grouped:
        unfold = unpacking_tile(kind, add=add)
        read = _rows_block(kind, tag, add=add, tile=unpacked_tile, first=kind.rows)
    elif kind.tiled or kind.neon:
        unfold, read = unfold_block(kind), (_tiled_block if kind.tiled else _rows_block)(kind, tag, add=add)
    else:
        unfold, read = unfolding_tile(kind, add=add), _rows_block(kind, tag, add=add, first=kind.rows)

    @tagged(f"{tag}_unfolded")
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
        unfolded: int,
    ) -> None:
        unfold(x, w, groups, sums, scales, biases, row_scales, out, stride, unfolded)
        read(x, unfolded, groups, sums, scales, biases, row_scales, out, stride, count, unfolded)

    return multiply_block
