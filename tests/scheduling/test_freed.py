"""What was freed goes back to the system, when a model is unloaded."""

import sys
import threading

import psutil
import pytest

from fastcoder_lsp.core import StepCosts
from fastcoder_lsp.scheduling import model
from fastcoder_lsp.scheduling.model import SharedModel, trim_heap

MIB = 2**20


class Blocks:
    """A model made of many small blocks, as objects of Python and of libraries are."""

    costs = StepCosts((1, 8), (1.0, 2.0), 0.1)

    def __init__(self) -> None:
        self.blocks = [bytes(1000) for _ in range(100_000)]

    def close(self) -> None:
        self.blocks.clear()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc keeps what is freed, others do not")
def test_what_was_many_small_blocks_is_given_back() -> None:
    process, kept = psutil.Process(), list[bytes]()

    def load_and_free() -> None:
        blocks = [bytes(1000) for _ in range(100_000)]
        kept.append(blocks[-1])

    thread = threading.Thread(target=load_and_free)
    thread.start()
    thread.join()
    held = process.memory_info().rss
    trim_heap()
    assert process.memory_info().rss < held - 50 * MIB


def test_unloading_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[int] = []
    blocks = Blocks()
    monkeypatch.setattr(model, "trim_heap", lambda: there.append(len(blocks.blocks)))
    shared = SharedModel(lambda _progress: blocks, lambda _share, _what: None, lambda: 0.0)
    shared.unload()
    assert there == []
    shared.get()
    shared.unload()
    assert there == [0]
