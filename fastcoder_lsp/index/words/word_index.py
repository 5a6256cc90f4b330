"""Ranks the files that use some words most; updated with every change.

Two tiers: the lists of all files, and those of recently changed files, which are rebuilt at the first question after a
change. Bounded in files and in words a file. One thread changes it (`put`, `remove`, `settle`, `adopt`), another may
search: merging takes long, but blocks no search.
"""

import threading

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.index.words.stored import EMPTY, NO_FEW, FewPostings, Postings, StoredWords, merged, postings_of

MOST_FILES = 60_000
"""Numbers are 16 bits; some are left for files that changed since the last merge."""
LEAST_MERGED, MOST_MERGED = 256, 2048
"""Changed files that trigger a merge: a quarter of all, within these limits."""
MOST_TERMS = 600
"""Different words of one file: a longer one is data, or is found by its first words."""
MOST_POSTINGS = 18_000_000
"""Bound over all files: 36 MB. Files beyond it are not indexed."""
MOST_ASKED = 64
"""Most words of a question that are looked up: the rarest."""
COMMON = 0.4
"""Words that a larger share of many files has are not looked up: they say little, and their lists are long."""
_MANY = 1000
_SPARE = 256
"""Files that may be added before the arrays by number have to grow."""
_NUMBERS = np.iinfo(np.uint16).max


class WordIndex:
    """Files by their words. The caller chooses the key of a file, a path; it is returned unchanged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: Postings = EMPTY
        self._recent: FewPostings | None = NO_FEW
        self._numbers: dict[str, int] = {}
        self._keys: list[str | None] = []
        self._lengths = np.zeros(_SPARE, np.float32)
        self._stamps = np.zeros(_SPARE, np.int64)
        self._waiting: dict[str, npt.NDArray[np.int32]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: str) -> bool:
        return key in self._numbers

    def known(self) -> list[str]:
        """All files."""
        with self._lock:
            return list(self._numbers)

    def stamp(self, key: str) -> int | None:
        """The stamp that was given with a file's words; None if the file is unknown."""
        with self._lock:
            number = self._numbers.get(key)
            return int(self._stamps[number]) if number is not None else None

    def full(self) -> bool:
        """Whether the index takes no more files."""
        return len(self._numbers) >= MOST_FILES or len(self._base.files) >= MOST_POSTINGS

    def put(self, key: str, terms: npt.NDArray[np.int32], stamp: int = 0) -> bool:
        """Set a file's words, in any order, repeated or not, and the 64 bits that `stamp` returns.

        Returns:
            Whether it was added: there may be too many files, or too much in them.
        """
        self.remove(key)
        if len(self._keys) >= _NUMBERS:
            self.settle()
        if self.full():
            return False
        words, first = np.unique(terms, return_index=True)
        if len(words) > MOST_TERMS:
            words = np.sort(terms[np.sort(first)[:MOST_TERMS]])
        with self._lock:
            number = len(self._keys)
            self._numbers[key] = number
            self._keys.append(key)
            if number >= len(self._lengths):
                self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
                self._stamps = np.concatenate([self._stamps, np.zeros_like(self._stamps)])
            self._lengths[number], self._stamps[number] = len(words), stamp
            self._waiting[key] = words
            self._recent = None
        return True

    def remove(self, key: str) -> None:
        """Remove a file that is gone, or may no longer be read."""
        with self._lock:
            number = self._numbers.pop(key, None)
            if number is not None:
                self._keys[number] = None
                if self._waiting.pop(key, None) is not None:
                    self._recent = None

    def due(self) -> bool:
        """Whether so much has changed that `settle` is worth it."""
        return len(self._waiting) >= max(LEAST_MERGED, min(len(self._numbers) // 4, MOST_MERGED))

    def settle(self, least: int = 1) -> None:
        """Merge changes into the main lists: a second for 50,000 files; searches go on meanwhile.

        Does nothing if fewer than `least` files have changed or gone: a merge moves mapped lists into memory.
        """
        if len(self._waiting) + len(self._keys) - len(self._numbers) < least:
            return
        with self._lock:
            base, changed = self._base, self._changed()
            kept = [number for number, key in enumerate(self._keys) if key is not None]
        numbers = np.full(_NUMBERS + 1, -1, np.int32)
        numbers[kept] = np.arange(len(kept), dtype=np.int32)
        together = merged(base, changed, numbers)
        with self._lock:
            self._base = together
            self._lengths = np.concatenate([self._lengths[kept], np.zeros(_SPARE, np.float32)])
            self._stamps = np.concatenate([self._stamps[kept], np.zeros(_SPARE, np.int64)])
            self._keys = [self._keys[number] for number in kept]
            self._numbers = {key: number for number, key in enumerate(self._keys) if key is not None}
            self._waiting, self._recent = {}, NO_FEW

    def stored(self) -> StoredWords:
        """The whole index, merged, for storing; it does not change."""
        self.settle()
        with self._lock:
            count = len(self._keys)
            keys = tuple(key for key in self._keys if key is not None)
            return StoredWords(self._base, keys, self._lengths[:count].copy(), self._stamps[:count].copy())

    def adopt(self, words: StoredWords) -> None:
        """Replace the whole index."""
        with self._lock:
            self._base, self._keys = words.postings, list(words.keys)
            self._lengths = np.concatenate([words.lengths, np.zeros(_SPARE, np.float32)])
            self._stamps = np.concatenate([words.stamps, np.zeros(_SPARE, np.int64)])
            self._numbers = {key: number for number, key in enumerate(words.keys)}
            self._waiting, self._recent = {}, NO_FEW

    def weights(self, terms: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """The weight of each word: BM25's inverse document frequency over files, never negative."""
        with self._lock:
            return self._weights(terms)

    def best(self, terms: npt.NDArray[np.int32], most: int) -> list[str]:
        """The `most` files that match these words best, best first; each word is given once."""
        with self._lock:
            files, numbers = len(self._numbers), len(self._keys)
            if not files or not len(terms):
                return []
            weights = self._weights(terms)
            if files >= _MANY:
                telling = weights > np.log(1 / COMMON)
                terms, weights = terms[telling], weights[telling]
            rarest = np.argsort(-weights, kind="stable")[:MOST_ASKED]
            scores = np.zeros(numbers, np.float32)
            for tier in (self._base, self._changed()):
                tier.add_scores(terms[rarest], weights[rarest], scores)
            lengths = self._lengths[:numbers]
            scores /= 0.6 + 0.4 * np.maximum(lengths, 16.0) / max(float(lengths.mean()), 1.0)
            wide = min(most + numbers - files, numbers)  # as many more as are gone
            least = max(float(np.partition(scores, numbers - wide)[numbers - wide]), 1e-30)
            first = np.flatnonzero(scores >= least)
            first = first[np.argsort(-scores[first], kind="stable")]
            keys = [self._keys[number] for number in first.tolist()]
        return [key for key in keys if key is not None][:most]

    def _weights(self, terms: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        files = max(len(self._numbers), 1)
        # Removed files count until the next merge; they are few.
        counts = np.minimum(self._base.counts(terms) + self._changed().counts(terms), files)
        return np.asarray(np.log1p((files - counts + 0.5) / (counts + 0.5)), np.float32)

    def _changed(self) -> FewPostings:
        if self._recent is None:
            names = list(self._waiting)
            self._recent = postings_of([self._numbers[name] for name in names], [self._waiting[name] for name in names])
        return self._recent
