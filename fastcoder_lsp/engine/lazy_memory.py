"""Zeroed memory that the system allocates page by page as it is written, and frees on request.

Small pages cost one more table lookup for every 4 kB read, which is too little to measure here, and save the two
megabytes that the first byte of a huge page takes.
"""

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt


class LazyMemory:
    """An array of zeros in anonymous memory."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        # Private: a shared mapping, Python's default, frees no memory before its end.
        private = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        self._map = mmap.mmap(-1, max(size, 1), **private)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.array: npt.NDArray[Any] = np.frombuffer(self._map, dtype=dtype, count=size // np.dtype(dtype).itemsize)
        self.array = self.array.reshape(shape)

    def give_back(self, start: int, stop: int) -> None:
        """Free the whole pages within the bytes `start`…`stop`, if the system can; their content is undefined then."""
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, stop // mmap.PAGESIZE * mmap.PAGESIZE
        if CAN_GIVE_BACK and first < last:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)


CAN_GIVE_BACK = hasattr(mmap, "MADV_DONTNEED") and hasattr(mmap, "MADV_NOHUGEPAGE")
"""Only Linux frees the pages at once; the flag is weaker elsewhere."""
