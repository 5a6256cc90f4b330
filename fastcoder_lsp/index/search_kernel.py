"""The compiled search: longest live match over many parts, number of hits, and continuations of a sample of them.

Pure arithmetic over the arrays of `part`. Parts come as rows of addresses (`ROW` names the columns), so
that one call searches all of them. The caller keeps the arrays alive until then.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from fastcoder_lsp.index.part import live_before, nth_live
from fastcoder_lsp.kernels import NONE, inner, kernel

ROW = ("tokens", "size", "order", "entries", "bits", "before", "words", "recent")
"""Columns of a row: addresses of tokens_N, order_M, bits and running counts (0 where all live), their lengths, and 1
for a part that holds recent edits, whose hits are taken first."""

_TOKENS, _SIZE, _ORDER, _ENTRIES, _BITS, _BEFORE, _WORDS, _RECENT = range(8)


def _array_at(element: Any) -> Any:
    """An intrinsic that makes an array of `element` from an address; numba's `carray` takes far longer to compile."""

    def array_at(_context: Any, address: Any = None, size: Any = None) -> Any:  # noqa: ARG001 numba passes them by name
        kind = types.Array(element, 1, "C")

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            bytes_each = ir.Constant(ir.IntType(64), element.bitwidth // 8)
            data = builder.inttoptr(arguments[0], array.data.type)
            populate_array(array, data, [arguments[1]], [bytes_each], bytes_each, meminfo=None)  # type: ignore[no-untyped-call]
            return array._getvalue()  # noqa: SLF001 numba's own idiom

        return kind(types.int64, types.int64), generate

    return intrinsic(array_at)


int32_array = _array_at(types.int32)
"""`int32_array(address, size)`: int32 values at an address (of integers), in compiled code."""
int64_array = _array_at(types.int64)  # as `int32_array`, of int64 values
uint64_array = _array_at(types.uint64)  # as `int32_array`, of uint64 values


@kernel
def search(rows_P8: Any, context_L: Any, continuations_HD: Any, hits_H2: Any, scratch_4P: Any) -> Any:
    """Search all parts for the longest live match of a context.

    Returns the length of the match, the number of its live hits, and how many of them were sampled.

    Args:
        rows_P8: the parts, those with recent edits first, newest first.
        context_L: the context *backwards*: its last token first.
        continuations_HD: out: the tokens after each sampled hit, -1 past the end of the file.
        hits_H2: out: row and place of each sampled hit; at most H are sampled.
        scratch_4P: four numbers of each part, undefined afterwards.
    """
    near_P, length_P, low_P, count_P = scratch_4P[0], scratch_4P[1], scratch_4P[2], scratch_4P[3]
    longest, found = NONE, NONE
    for p in range(len(rows_P8)):
        near_P[p] = _first_at_least(rows_P8[p], context_L)
        length_P[p] = _longest(rows_P8[p], context_L, near_P[p])
        longest = max(longest, length_P[p])
    if longest == 0:
        return longest, found, NONE
    query = context_L[:longest]
    for p in range(len(rows_P8)):
        count_P[p] = 0
        if length_P[p] == longest:
            row = rows_P8[p]
            low_P[p] = _edge_below(row, query, near_P[p])
            count_P[p] = _rank(row, _edge_above(row, query, near_P[p])) - _rank(row, low_P[p])
            found += count_P[p]
    taken = _sample(rows_P8, low_P, count_P, hits_H2)
    for h in range(taken):
        row = rows_P8[hits_H2[h, 0]]
        tokens_N = int32_array(row[_TOKENS], row[_SIZE])
        place = np.int64(hits_H2[h, 1])
        token = np.int32(0)
        for d in range(continuations_HD.shape[1]):
            token = tokens_N[place + d] if token >= 0 else np.int32(-1)
            continuations_HD[h, d] = token
    return longest, found, taken


@inner
def _first_at_least(row: Any, context_L: Any) -> Any:
    """The first entry whose context is not below `context_L`; an entry that begins with all of it is not below."""
    tokens_N, order_M = int32_array(row[_TOKENS], row[_SIZE]), int32_array(row[_ORDER], row[_ENTRIES])
    low, high, low_common, high_common = 0, row[_ENTRIES], 0, 0
    while low < high:
        middle = (low + high) >> 1
        place = np.int64(order_M[middle])
        # All entries between two share the prefix that both of those share with the context.
        common = min(low_common, high_common)
        while common < len(context_L) and tokens_N[place - 1 - common] == context_L[common]:
            common += 1
        if common < len(context_L) and tokens_N[place - 1 - common] < context_L[common]:
            low, low_common = middle + 1, common
        else:
            high, high_common = middle, common
    return low


@inner
def _common(row: Any, entry: Any, context_L: Any) -> Any:
    """How many tokens before an entry's place equal the context's."""
    tokens_N, order_M = int32_array(row[_TOKENS], row[_SIZE]), int32_array(row[_ORDER], row[_ENTRIES])
    place, common = np.int64(order_M[entry]), 0
    while common < len(context_L) and tokens_N[place - 1 - common] == context_L[common]:
        common += 1
    return common


@inner
def _rank(row: Any, entry: Any) -> Any:
    if row[_BITS] == 0:
        return entry
    return live_before(uint64_array(row[_BITS], row[_WORDS]), int64_array(row[_BEFORE], row[_WORDS] + 1), entry)


@inner
def _entry(row: Any, rank: Any) -> Any:
    if row[_BITS] == 0:
        return rank
    return nth_live(uint64_array(row[_BITS], row[_WORDS]), int64_array(row[_BEFORE], row[_WORDS] + 1), rank)


@inner
def _longest(row: Any, context_L: Any, near: Any) -> Any:
    """The longest match of any live entry: that of the nearest live entries on either side."""
    rank, longest = _rank(row, near), NONE
    if rank < _rank(row, row[_ENTRIES]):
        longest = _common(row, _entry(row, rank), context_L)
    if rank > 0:
        longest = max(longest, _common(row, _entry(row, rank - 1), context_L))
    return longest


@inner
def _edge_below(row: Any, query: Any, near: Any) -> Any:
    """The first entry that begins with `query`: at or below `near`, found by doubling steps."""
    high, step = near, 1
    while high > 0 and _common(row, max(high - step, 0), query) == len(query):
        high = max(high - step, 0)
        step *= 2
    low = max(high - step, -1)
    while high - low > 1:
        middle = (low + high) >> 1
        if _common(row, middle, query) == len(query):
            high = middle
        else:
            low = middle
    return high


@inner
def _edge_above(row: Any, query: Any, near: Any) -> Any:
    """One past the last entry that begins with `query`: at or above `near`."""
    low, step, entries = near - 1, 1, row[_ENTRIES]
    while low < entries - 1 and _common(row, min(low + step, entries - 1), query) == len(query):
        low = min(low + step, entries - 1)
        step *= 2
    high = min(low + step, entries)
    while high - low > 1:
        middle = (low + high) >> 1
        if _common(row, middle, query) == len(query):
            low = middle
        else:
            high = middle
    return low + 1


@inner
def _sample(rows_P8: Any, low_P: Any, count_P: Any, hits_H2: Any) -> Any:
    """Choose hits: all of the parts with recent edits in turn, then an even sample of the others."""
    taken, settled = NONE, NONE
    for p in range(len(rows_P8)):
        if rows_P8[p, _RECENT] == 1:
            taken += _take(rows_P8, p, low_P[p], count_P[p], hits_H2[taken:], NONE, 1.0)
        else:
            settled += count_P[p]
    free = len(hits_H2) - taken
    passed = NONE
    for p in range(len(rows_P8)):
        if rows_P8[p, _RECENT] == 1 or count_P[p] == 0 or free == 0:
            continue
        # Number all settled hits through the parts; take the numbers i * settled // free, i < free.
        taken += _take(rows_P8, p, low_P[p], count_P[p], hits_H2[taken:], passed, max(1.0, settled / free))
        passed += count_P[p]
    return taken


@inner
def _take(rows_P8: Any, p: Any, low: Any, count: Any, hits_H2: Any, passed: Any, every: Any) -> Any:
    """Write those of a range's hits that are due, where `passed` came before and one of `every` is taken."""
    taken = NONE
    if count == 0:
        return taken
    row = rows_P8[p]
    order_M = int32_array(row[_ORDER], row[_ENTRIES])
    first = _rank(row, low)
    due = np.int64(np.ceil(passed / every))
    while taken < len(hits_H2):
        wanted = np.int64(due * every) - passed
        if wanted >= count:
            break
        hits_H2[taken, 0], hits_H2[taken, 1] = p, order_M[_entry(row, first + wanted)]
        taken += 1
        due += 1
    return taken
