"""FastCoder's CACHE: short sequences of tokens, searched by suffix like the datastore.

Owns the sequences of one document and their bound; knows not where they came from.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.draft.matching import GAP, continuations, match_suffix


class SequenceCache:
    """The latest sequences, at most `capacity` tokens of them; the oldest go first."""

    def __init__(self, capacity: int = 8192) -> None:
        self._flat = np.full(capacity, GAP, np.int32)
        self._size = 0
        self._count = 0

    def __len__(self) -> int:
        """The number of sequences."""
        return self._count

    def add(self, sequence: Sequence[int]) -> None:
        """Take in a sequence of at least two tokens; a shorter one has nothing to say."""
        needed = len(sequence) + 1
        if needed < 3 or needed > len(self._flat) // 2:
            return
        if self._size + needed > len(self._flat):
            self._drop_oldest_half()
        self._flat[self._size : self._size + len(sequence)] = sequence
        self._flat[self._size + len(sequence)] = GAP
        self._size += needed
        self._count += 1

    def search(
        self, context: npt.NDArray[np.int32], n_max: int, n_min: int, max_hits: int, depth: int
    ) -> tuple[int, npt.NDArray[np.int32]]:
        """The longest match of the context's end, and what followed it, latest first.

        Returns:
            The match's length, 0 for none, and continuations of `depth` tokens ended by `GAP`.
        """
        ends_K = np.empty(max_hits, np.int64)
        flat = self._flat[: self._size]
        length, found = match_suffix(flat, context, n_max, n_min, ends_K)
        rows_KD = np.empty((found, depth), np.int32)
        continuations(flat, ends_K[:found], rows_KD)
        return int(length), rows_KD

    def _drop_oldest_half(self) -> None:
        half = self._size // 2
        gaps = np.flatnonzero(self._flat[half : self._size] == GAP)
        start = half + int(gaps[0]) + 1
        self._count -= int(np.count_nonzero(self._flat[:start] == GAP))
        kept = self._flat[start : self._size].copy()
        self._flat[: len(kept)] = kept
        self._size = len(kept)
