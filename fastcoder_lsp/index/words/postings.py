"""Posting lists of files by word, immutable: many, which begin where a table says, and few, which are sorted pairs.

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
        """Size of the arrays, in bytes."""
        return self.starts.nbytes + self.files.nbytes

    def counts(self, terms: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """In how many files each of these words stands."""
        return self.starts[terms + 1] - self.starts[terms]

    def add_scores(
        self, terms: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]
    ) -> None:
        """Add each word's weight to the scores of its files; `scores` is indexed by their numbers."""
        _add(self.files, self.starts[terms], self.starts[terms + 1], weights, scores)


@dataclass(frozen=True, slots=True)
class FewPostings:
    """The same of a few files, made in little time and memory.

    Attributes:
        terms: int32, ascending.
        files: uint16, the file that holds the word at the same place in `terms`.
    """

    terms: npt.NDArray[np.int32]
    files: npt.NDArray[np.uint16]

    @property
    def nbytes(self) -> int:
        """Size of the arrays, in bytes."""
        return self.terms.nbytes + self.files.nbytes

    def counts(self, terms: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """In how many files each of these words stands."""
        begins, ends = self._places(terms)
        return (ends - begins).astype(np.int32)

    def add_scores(
        self, terms: npt.NDArray[np.int32], weights: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]
    ) -> None:
        """As `Postings.add_scores`."""
        _add(self.files, *self._places(terms), weights, scores)

    def _places(self, terms: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.searchsorted(self.terms, terms), np.searchsorted(self.terms, terms, side="right")


EMPTY = Postings(np.zeros(TERMS + 1, np.int32), np.zeros(0, np.uint16))
NO_FEW = FewPostings(np.zeros(0, np.int32), np.zeros(0, np.uint16))


def postings_of(numbers: Sequence[int], terms: Sequence[npt.NDArray[np.int32]]) -> FewPostings:
    """The lists of some files: each one's number, and its words, each once."""
    if not terms:
        return NO_FEW
    words = np.concatenate(terms)
    files = np.repeat(np.asarray(numbers, np.uint16), [len(one) for one in terms])
    order = np.argsort(words, kind="stable")
    return FewPostings(words[order], files[order])


def merged(many: Postings, few: FewPostings, numbers: npt.NDArray[np.int32]) -> Postings:
    """Both, with files renumbered.

    Args:
        many: the larger one; it is given up by whoever merges it, so memory for both is taken once.
        few: the other.
        numbers: int32, a file's new number by its old one; negative: the file is gone.
    """
    starts = np.zeros(TERMS + 1, np.int32)
    together = np.empty(len(many.files) + len(few.files), np.uint16)
    edges = np.searchsorted(few.terms, np.arange(0, TERMS + 1, _BLOCK))
    at = 0
    for block, low in enumerate(range(0, TERMS, _BLOCK)):
        begins = many.starts[low : low + _BLOCK + 1]
        changed = slice(edges[block], edges[block + 1])
        words = np.concatenate(
            [np.repeat(np.arange(_BLOCK, dtype=np.int32), np.diff(begins)), few.terms[changed] - low]
        )
        files = numbers[np.concatenate([many.files[begins[0] : begins[-1]], few.files[changed]])]
        kept = files >= 0
        words, files = words[kept], files[kept]
        end = at + len(words)
        together[at:end] = files[np.argsort(words, kind="stable")]
        starts[low + 1 : low + _BLOCK + 1] = at + np.cumsum(np.bincount(words, minlength=_BLOCK))
        at = end
    return Postings(starts, together[:at])


def _add(
    files: npt.NDArray[np.uint16],
    begins: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    ends: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    weights: npt.NDArray[np.float32],
    scores: npt.NDArray[np.float32],
) -> None:
    for begin, end, weight in zip(begins.tolist(), ends.tolist(), weights.tolist(), strict=True):
        scores[files[begin:end]] += weight
