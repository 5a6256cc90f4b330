"""The positions and ancestry of a tree's rows, as numbers for a program: computed on the host.

Numbers the rows so that "row j is above row i" is a comparison: rows get places in the order of a walk, so that a row's
descendants lie in one stretch behind it, `enter`…`leave`; row i sees row j if j's stretch holds i's `enter`. The cached
text is one more row above all real ones, and the padding behind the rows is one without descendants.

Compiled if numba is installed, which every drafter needs anyway; the same in plain Python otherwise.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

HEAD = 8
"""Numbers before the rows: cached, noise, top-k, pending, room, one unused, temperature, top-p, both floats."""
FLOATS = 6
"""Where the floats begin; they lie in the same buffer, bit for bit."""
EDGES = 2
"""Columns of a stretch beside the rows: the cached text before them, and the padding behind them."""
FAR = 1 << 40
"""A place that no row has."""
NOWHERE = -2
"""The parent of a row that is no draft, or cannot be accepted."""


def size(width: int) -> int:
    """How many numbers a program of `width` rows reads."""
    return HEAD + 4 * width + 2 * (width + EDGES)


def ids_at(width: int) -> slice:
    """Embedding ids."""
    return slice(HEAD, HEAD + width)


def positions_at(width: int) -> slice:
    """Positions in the text."""
    return slice(HEAD + width, HEAD + 2 * width)


def slots_at(width: int) -> slice:
    """Slots of the KV cache."""
    return slice(HEAD + 2 * width, HEAD + 3 * width)


def parents_at(width: int) -> slice:
    """The parents of drafts."""
    return slice(HEAD + 3 * width, HEAD + 4 * width)


def stretches_at(width: int) -> slice:
    """`enter` and then `leave` of the cached text, of the rows, and of the padding."""
    return slice(HEAD + 4 * width, size(width))


def _lay_out(
    tokens_N: Any, parents_N: Any, pending: Any, cached: Any, width: Any, vocabulary: Any, numbers: Any, free: Any
) -> bool:
    """Fill `numbers` after the head, for a tree of N rows in a program of `width`; `free` has N + 1 places.

    Drafts outside the vocabulary get any embedding, since they are never accepted; rows from N on see only themselves.
    Returns False, and fills nothing, if a row's parent is not before it, or the first `pending` are no chain.
    """
    count = len(tokens_N)
    for row in range(count):
        above = parents_N[row]
        if above >= row or above < -1 or (row < pending and above != row - 1):
            return False
    positions, slots, above_row = HEAD + width, HEAD + 2 * width, HEAD + 3 * width
    enter = HEAD + 4 * width + 1
    leave = enter + width + EDGES
    numbers[enter - 1], numbers[leave - 1] = 0, count
    numbers[enter + width], numbers[leave + width] = FAR, 0
    for row in range(count):
        numbers[leave + row] = 1
    for row in range(count - 1, -1, -1):
        if parents_N[row] >= 0:
            numbers[leave + parents_N[row]] += numbers[leave + row]
    free[0] = 0
    for row in range(count):
        above = parents_N[row]
        place, below = free[above + 1], numbers[leave + row]
        free[above + 1] = place + below
        free[row + 1] = place + 1
        numbers[enter + row], numbers[leave + row] = place, place + below
        numbers[positions + row] = cached if above < 0 else numbers[positions + above] + 1
        known = 0 <= tokens_N[row] < vocabulary
        numbers[HEAD + row] = tokens_N[row] if known else 0
        numbers[above_row + row] = above if known and row >= pending else NOWHERE
    for row in range(count, width):
        numbers[enter + row], numbers[leave + row] = row, row + 1
        numbers[positions + row], numbers[HEAD + row] = cached, 0
        numbers[above_row + row] = NOWHERE
    for row in range(width):
        numbers[slots + row] = cached + row
    return True


def _compiled(function: Callable[..., bool]) -> Callable[..., bool]:
    try:
        from fastcoder_lsp.kernels import kernel  # noqa: PLC0415 imports numba
        from fastcoder_lsp.kernels.decorators import FixedTypes  # noqa: PLC0415 imports packages that a benchmark may lack
    except ImportError:
        return function
    return FixedTypes(kernel(function))


lay_out: Callable[
    [npt.NDArray[np.int64], npt.NDArray[np.int64], int, int, int, int, npt.NDArray[np.int64], npt.NDArray[np.int64]],
    bool,
] = _compiled(_lay_out)
"""`_lay_out`, compiled if numba is installed."""
