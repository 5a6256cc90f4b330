"""What a store costs in memory, measured in a process of its own.

Run as `python -P -m benchmarks.index.resident FOLDER IDENTITY`, it prints the bytes that opening and searching
the store added; pages mapped from its files do not count.
"""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil

from fastcoder_lsp.config.programs import neutral_folder, python_command
from fastcoder_lsp.index.part import Document, FileRecord
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.index.store import Store

SEARCHES = 2_000


def resident_bytes(folder: Path, identity: str) -> int:
    """Run this module for a store that nobody writes."""
    command = python_command("benchmarks.index.resident", str(folder.absolute()), identity)
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=neutral_folder())
    return int(done.stdout)


def _measure(folder: Path, identity: str) -> int:
    with_code = Searcher([])
    with_code.search([1], 16, 64, 10)
    before = _anonymous_bytes()
    store = Store.open(folder, identity, reader=True)
    chance = np.random.default_rng(0)
    for _ in range(SEARCHES):
        searcher = Searcher([store.pin()])
        searcher.search(chance.integers(0, 1000, 16).tolist(), 16, 64, 10)
    # One file is being edited, so that one segment has dead files.
    key = next(iter(store.records()))
    store.overlay(Document(FileRecord(key, "edited"), chance.integers(0, 1000, 10_000, dtype=np.int32)))
    gc.collect()
    return max(0, _anonymous_bytes() - before)


def _anonymous_bytes() -> int:
    """Memory of this process that is not mapped from files."""
    memory = psutil.Process().memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))


if __name__ == "__main__":
    print(_measure(Path(sys.argv[1]), sys.argv[2]))  # noqa: T201
