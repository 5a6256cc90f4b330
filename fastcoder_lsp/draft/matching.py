"""Texts of token ids, separated in a flat array by `GAP`, and the search for matches of a text's end in them.

Legend: K continuations of D tokens, N tokens of text.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fastcoder_lsp.core import DraftContext
from fastcoder_lsp.core.arrays import Int32s
from fastcoder_lsp.kernels import kernel

GAP = -1  # no token: separates texts in a flat array, and pads continuations that end early
_ROOM = 512  # tokens that a text has room for at first
HEADS = 4096  # chains by the token's lowest bits: a chain holds the places of all tokens that share them


@kernel
def match_suffix(text_N: Any, context: Any, n_max: Any, n_min: Any, ends_K: Any) -> Any:
    """The longest suffix of `context`, n_min…n_max tokens, that occurs in `text_N` with a token after it.

    Writes to `ends_K` the places where the matches' continuations begin, latest first, as many as fit. Returns the
    match's length (0: none), and the number of continuations written.
    """
    longest, found = 0, 0
    limit = min(n_max, len(context))
    if limit < 1:
        return 0, 0
    last = context[len(context) - 1]
    for end in range(len(text_N) - 2, -1, -1):
        if text_N[end] != last or text_N[end + 1] < 0:
            continue
        length = 1
        while length < limit and end - length >= 0 and text_N[end - length] == context[len(context) - 1 - length]:
            length += 1
        if length > longest:
            longest, found = length, 0
        if length == longest and found < len(ends_K):
            ends_K[found] = end + 1
            found += 1
    if longest < n_min:
        return 0, 0
    return longest, found


@kernel
def continuations(text_N: Any, ends_K: Any, rows_KD: Any) -> None:
    """The tokens after each place: up to D of them, `GAP` after a text's end."""
    for k in range(len(ends_K)):
        ended = False
        for d in range(rows_KD.shape[1]):
            place = ends_K[k] + d
            ended = ended or place >= len(text_N) or text_N[place] < 0
            rows_KD[k, d] = GAP if ended else text_N[place]


class History:
    """Prompt and output of the running decode, in an array that grows, so that no step copies the whole prompt."""

    def __init__(self) -> None:
        self._buffer = np.zeros(_ROOM, np.int32)
        self._size = 0

    def begin(self, context: DraftContext) -> None:
        """Hold exactly the tokens of `context`."""
        self._size = 0
        self.follow(context)

    def follow(self, context: DraftContext) -> None:
        """Append the new tokens of `context`, which continues the text held."""
        self.append(context.tokens[self._size :])

    def append(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        held, size = self._size, self._size + len(tokens)
        if size > len(self._buffer):
            grown = np.zeros(size * 2, np.int32)
            grown[:held] = self._buffer[:held]
            self._buffer = grown
        self._buffer[held:size] = tokens
        self._size = size

    def __len__(self) -> int:
        return self._size

    @property
    def tokens(self) -> Int32s:
        """A view of the tokens held; the next `follow` may move them."""
        return self._buffer[: self._size]


class Chains(NamedTuple):
    """The arrays of a `TokenChain`, as compiled code takes them; `size` places are filled."""

    flat_N: Int32s
    before_N: Int32s
    heads: Int32s
    size: int


class TokenChain:
    """A text that grows, and for each place the latest place before it whose token may be the same.

    Compiled code (`auto.tree`) finds all earlier places of a token along these chains. Over `capacity` tokens, the
    older half is dropped.
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

    def extend(self, tokens: Sequence[int] | Int32s) -> None:
        """Append tokens; over the capacity, only the latest half of it stays."""
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
    def tokens(self) -> Int32s:
        """A view of the tokens held; the next `extend` may move them."""
        return self._flat_N[: self._size]

    @property
    def chains(self) -> Chains:
        """The arrays that compiled code reads, valid until the next change."""
        return Chains(self._flat_N, self._before_N, self._heads, self._size)


@kernel
def _link(flat_N: Any, before_N: Any, heads: Any, start: Any, end: Any) -> None:
    for place in range(start, end):
        head = flat_N[place] & (HEADS - 1)
        before_N[place] = heads[head]
        heads[head] = place
