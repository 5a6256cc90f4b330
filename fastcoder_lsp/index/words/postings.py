"""Posting lists of files by word, as two arrays; immutable.

A file counts once for each of its words, however often it stands there: the ranking of pieces counts again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.index.words.terms import TERMS

_BLOCK = TERMS // 64
"""Words merged at once: it bounds the memory of a merge to a fraction of the lists."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Which files hold each word.

    Attributes:
        starts: int32 (TERMS + 1), where each word's list begins in `files`.
        files: uint16, numbers of files, each list in no particular order.
    """

    starts: npt.NDArray[np.int32]
    files: npt.NDArray[np.uint16]

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.starts.nbytes + self.files.nbytes

    def counts(self, terms: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """In how many files each of these words stands."""
        return self.starts[terms + 1] - self.starts[terms]

    def add_scores(
        self, terms: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]
    ) -> None:
        """Add each word's weight to the scores of its files; `scores` is indexed by their numbers."""
        for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
            scores[self.files[self.starts[term] : self.starts[term + 1]]] += weight


EMPTY = Postings(np.zeros(TERMS + 1, np.int32), np.zeros(0, np.uint16))


def postings_of(numbers: Sequence[int], terms: Sequence[npt.NDArray[np.int32]]) -> Postings:
    """The lists of some files: each one's number, and its words, each once."""
    if not terms:
        return EMPTY
    words = np.concatenate(terms)
    files = np.repeat(np.asarray(numbers, np.uint16), [len(one) for one in terms])
    order = np.argsort(words, kind="stable")
    starts = np.zeros(TERMS + 1, np.int32)
    np.cumsum(np.bincount(words, minlength=TERMS), out=starts[1:])
    return Postings(starts, files[order])


def merged(left: Postings, right: Postings, numbers: npt.NDArray[np.int32]) -> Postings:
    """Both, with files renumbered.

    Args:
        left: the larger one, at best.
        right: the other.
        numbers: int32, a file's new number by its old one; negative: the file is gone.
    """
    starts = np.zeros(TERMS + 1, np.int32)
    pieces: list[npt.NDArray[np.uint16]] = []
    at = 0
    for low in range(0, TERMS, _BLOCK):
        block = slice(low, low + _BLOCK + 1)
        words, files = [], []
        for side in (left, right):
            begins = side.starts[block]
            renumbered = numbers[side.files[begins[0] : begins[-1]]]
            kept = renumbered >= 0
            words.append(np.repeat(np.arange(_BLOCK, dtype=np.int32), np.diff(begins))[kept])
            files.append(renumbered[kept].astype(np.uint16))
        order = np.argsort(all_words := np.concatenate(words), kind="stable")
        pieces.append(np.concatenate(files)[order])
        ends = np.cumsum(np.bincount(all_words, minlength=_BLOCK))
        starts[low + 1 : low + _BLOCK + 1] = at + ends
        at += len(order)
    return Postings(starts, np.concatenate(pieces))
