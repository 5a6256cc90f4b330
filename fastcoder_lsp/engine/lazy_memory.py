"""Zeroed memory that the system gives page by page as it is written, and takes back on request.

Owns the calls to the system. What has no large pages costs a look at a table more for every 4 kB read, which cannot be
measured here, and saves the two megabytes that the first byte of a large page takes.
"""

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt


class LazyMemory:
    """An array of zeros in anonymous memory.

    Args:
        shape: of the array.
        dtype: of its numbers.
    """

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        # Private: what is shared with other processes, as Python would have it, is not given back before its end.
        private = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        self._map = mmap.mmap(-1, max(size, 1), **private)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with suppress(OSError):  # a kernel without large pages
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.array: npt.NDArray[Any] = np.frombuffer(self._map, dtype=dtype, count=size // np.dtype(dtype).itemsize)
        self.array = self.array.reshape(shape)

    def give_back(self, start: int, stop: int) -> None:
        """The bytes `start`…`stop` count no more: whole pages among them are the system's again, where it takes them.

        What is read there afterwards is either what was there or zero.
        """
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, stop // mmap.PAGESIZE * mmap.PAGESIZE
        if CAN_GIVE_BACK and first < last:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)


CAN_GIVE_BACK = hasattr(mmap, "MADV_DONTNEED") and hasattr(mmap, "MADV_NOHUGEPAGE")
"""Linux alone frees at once what is not needed; elsewhere the word means less."""
