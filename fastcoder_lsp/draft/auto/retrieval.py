"""Whether a search of a datastore is worth its time: learnt from what the searches after the same token gave.

FastCoder's skip tokens and missing table are special cases. A context that ends in white space at a line's start (skip
token) is one whose searches seldom give anything: here that is seen by its last token, and weighed against what a
search costs. A suffix that stands nowhere (missing table) is one whose search gives nothing until the store changes.

Owns the counts; searches nothing.
"""

import numpy as np

_BUCKETS = 4096
_HALVED_AT = 4096.0
"""Searches after a token before they and their gains count half."""


class RetrievalRule:
    """The rule by which one store is searched or left out.

    Args:
        gain: tokens that a search is believed to give before any was made.
        strength: that belief weighs as much as so many searches.
    """

    def __init__(self, gain: float = 0.2, strength: float = 4.0) -> None:
        self._gain, self._strength = gain, strength
        self._searched = np.zeros(_BUCKETS, np.float32)
        self._gained = np.zeros(_BUCKETS, np.float32)
        self._missing: set[int] = set()
        self._generation: tuple[int, ...] = ()
        self.searches = self.missing = self.skipped = 0

    def pinned(self, generation: tuple[int, ...]) -> None:
        """The store is searched as it is now; where it changed, what was missing in it may be there."""
        if generation != self._generation:
            self._generation = generation
            self._missing.clear()

    def worth(self, last: int, search_ms: float, token_ms: float) -> bool:
        """Whether to search for a context that ends in the token `last`.

        Args:
            last: the token.
            search_ms: what a search takes.
            token_ms: what a token takes that no draft gave.
        """
        if last in self._missing:
            self.missing += 1
            return False
        bucket = last % _BUCKETS
        gain = (self._gain * self._strength + self._gained[bucket]) / (self._strength + self._searched[bucket])
        if gain * token_ms < search_ms:
            # Fades, so that what is skipped is tried again one day.
            self._searched[bucket] *= 0.99
            self.skipped += 1
            return False
        self.searches += 1
        return True

    def nothing(self, last: int) -> None:
        """A search found not even the last token."""
        self._missing.add(last)

    def gave(self, last: int, tokens: int) -> None:
        """A search's guesses were verified: so many accepted tokens came from it."""
        bucket = last % _BUCKETS
        self._searched[bucket] += 1
        self._gained[bucket] += tokens
        if self._searched[bucket] > _HALVED_AT:
            self._searched[bucket] /= 2
            self._gained[bucket] /= 2
