"""Memory that was freed goes back to the system: the C library keeps what many small blocks were made of.

glibc keeps it by thread, and the next model is loaded by another thread, in memory of its own: a server that loads its
model again and again would grow by some 150 MB each time.
"""

import ctypes
import sys


def give_back() -> None:
    """Give back what is free now, within some milliseconds. Nothing happens where the library does so itself."""
    if sys.platform != "linux":
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another library than glibc
        return
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    trim(0)
