"""Memory that is taken as it is written, and given back in whole pages."""

import mmap

import numpy as np
import pytest

from fastcoder_lsp.engine.lazy_memory import CAN_GIVE_BACK, LazyMemory


def test_it_is_zeros_of_its_shape() -> None:
    """However it is divided into pages."""
    memory = LazyMemory((3, 5, 7), np.float32)
    assert memory.array.shape == (3, 5, 7)
    assert memory.array.flags.writeable
    assert memory.array.flags.c_contiguous
    assert not memory.array.any()


@pytest.mark.skipif(not CAN_GIVE_BACK, reason="this system keeps what a process was given")
def test_whole_pages_alone_are_given_back() -> None:
    """What shares a page with what counts stays; what lies on pages of its own is zero again."""
    page = mmap.PAGESIZE
    memory = LazyMemory((4 * page,), np.uint8)
    memory.array[:] = 1
    memory.give_back(100, 3 * page - 1)
    assert memory.array[:page].all()
    assert not memory.array[page : 2 * page].any()
    assert memory.array[2 * page :].all()
