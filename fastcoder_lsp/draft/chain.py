"""A text that grows, in which all earlier places of a token are found at once: each place knows the one before it.

Owns the arrays; the loops that read them are in `auto_growth`. A negative token separates texts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.kernels import kernel

HEADS = 4096
"""Chains by the token's lowest bits: a chain holds the places of all tokens that share them."""


class Chains(NamedTuple):
    """The arrays of a `TokenChain`, as compiled code takes them; `size` places are filled."""

    flat_N: npt.NDArray[np.int32]
    before_N: npt.NDArray[np.int32]
    heads: npt.NDArray[np.int32]
    size: int


class TokenChain:
    """Tokens, and for each place the latest place before it whose token may be the same.

    Args:
        capacity: tokens at most; None: as many as come.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._flat_N = np.zeros(1024, np.int32)
        self._before_N = np.zeros(1024, np.int32)
        self._heads = np.full(HEADS, -1, np.int32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def clear(self) -> None:
        """Hold nothing."""
        self._heads.fill(-1)
        self._size = 0

    def extend(self, tokens: Sequence[int] | npt.NDArray[np.int32]) -> None:
        """Append tokens; where that is over the capacity, only the latest half of it stays."""
        if self._capacity is not None and self._size + len(tokens) > self._capacity:
            kept = np.concatenate([self.tokens, np.asarray(tokens, np.int32)])[-(self._capacity // 2) :]
            self.clear()
            tokens = kept
        needed = self._size + len(tokens)
        if needed > len(self._flat_N):
            self._flat_N = np.resize(self._flat_N, 2 * needed)
            self._before_N = np.resize(self._before_N, 2 * needed)
        self._flat_N[self._size : needed] = tokens
        _link(self._flat_N, self._before_N, self._heads, self._size, needed)
        self._size = needed

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """A view of the tokens held; the next `extend` may move them."""
        return self._flat_N[: self._size]

    @property
    def chains(self) -> Chains:
        """What compiled code reads, good until the next change."""
        return Chains(self._flat_N, self._before_N, self._heads, self._size)


@kernel
def _link(flat_N: Any, before_N: Any, heads: Any, start: Any, end: Any) -> None:
    for place in range(start, end):
        head = flat_N[place] & (HEADS - 1)
        before_N[place] = heads[head]
        heads[head] = place
