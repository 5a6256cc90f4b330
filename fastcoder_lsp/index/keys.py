"""The keys of a store's files in order, so that those below a folder are found without looking at the others."""

import os
from bisect import bisect_left, insort
from collections.abc import Sequence

_FEW = 64
"""Keys that are put in one by one; more are sorted in at once."""


class SortedKeys:
    """Keys that are paths. Not for several threads at once."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def add(self, keys: Sequence[str]) -> None:
        """Put in keys that are not in it, each once."""
        if len(keys) <= _FEW:
            for key in keys:
                insort(self._keys, key)
        else:
            self._keys += sorted(keys)
            self._keys.sort()  # two runs in order, which are merged in one pass

    def discard(self, keys: Sequence[str]) -> None:
        """Take out keys that are in it."""
        if len(keys) <= _FEW:
            for key in keys:
                del self._keys[bisect_left(self._keys, key)]
        else:
            gone = set(keys)
            self._keys = [key for key in self._keys if key not in gone]

    def below(self, folder: str) -> list[str]:
        """The keys of the files in a folder and in its folders."""
        prefix = folder.rstrip(os.sep) + os.sep
        start = bisect_left(self._keys, prefix)
        return self._keys[start : bisect_left(self._keys, prefix[:-1] + chr(ord(os.sep) + 1), start)]
