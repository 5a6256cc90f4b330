"""The store at one size: build, merge, search, update, bytes; while idle and while merging.

Owns the workload: real files repeated under other names until there are enough tokens. Each copy has every token id
shifted in a share of its places, so that copies are alike as forks of a file are, not the same.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.index.records import Growth, percentiles
from benchmarks.index.resident import resident_bytes
from fastcoder_lsp.index.chunks import ChunkedEncoder, Encoder
from fastcoder_lsp.index.part import Document, FileRecord
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace.corpus_files import standard_library

N_MAX, HITS, DEPTH = 16, 64, 10
SEARCHES, UPDATES = 4_000, 200
BATCH_TOKENS = 4_000_000
_CHANGED, _IDS, _ENOUGH = 0.02, 150_000, 20
Tokens = npt.NDArray[np.int32]


def corpus_tokens(encoder: Encoder) -> list[Tokens]:
    """The standard library's files, tokenised."""
    return ChunkedEncoder(encoder).encode_many([text for _, text in standard_library()])


def measure_growth(files: Sequence[Tokens], size: int, folder: Path, identity: str) -> Growth:
    """Build a store of `size` tokens in `folder` and measure it."""
    store = Store.open(folder, identity, "benchmark")
    _warm_up(store)
    build_s = tokens = 0.0
    for batch in _batches(files, size):
        start = time.perf_counter()
        store.add_segment(batch)
        build_s += time.perf_counter() - start
        tokens += sum(len(document.tokens) for document in batch)
    merging = _Merging(store)
    search_merging = _search(store, files, merging.under_way)
    update_merging = _update(store, files, merging.under_way)
    merge_s = merging.finish()
    search = _search(store, files)
    start = time.perf_counter()
    store.overlay(Document(FileRecord(_key(0, 0), "first"), files[0]))
    first_update_s = time.perf_counter() - start
    update = _update(store, files)
    store.drop_overlay(_key(0, 0))
    segments = len(store.status().segments)
    store.close()
    resident = resident_bytes(folder, identity) / tokens
    on_disk = sum(path.stat().st_size for path in folder.iterdir()) / tokens
    return Growth(
        tokens=size,
        segments=segments,
        build_tokens_per_s=tokens / build_s,
        merge_tokens_per_s=tokens / merge_s,
        search_us=percentiles(search, 1e6),
        search_merging_us=percentiles(search_merging, 1e6),
        update_ms=percentiles(update, 1e3),
        update_merging_ms=percentiles(update_merging, 1e3),
        first_update_ms=first_update_s * 1e3,
        bytes_per_token=on_disk,
        resident_bytes_per_token=resident,
    )


class _Merging:
    """All merges that the store wants, in another thread."""

    def __init__(self, store: Store) -> None:
        self._start, self._seconds, self._store = time.perf_counter(), 0.0, store
        self._thread = threading.Thread(target=self._merge)
        self._thread.start()

    def under_way(self) -> bool:
        return self._thread.is_alive()

    def finish(self) -> float:
        """Wait for the end; the seconds that it took."""
        self._thread.join()
        return self._seconds

    def _merge(self) -> None:
        while self._store.merge():
            pass
        self._seconds = time.perf_counter() - self._start


def _batches(files: Sequence[Tokens], size: int) -> Iterator[list[Document]]:
    """Copies of the files until there are `size` tokens, in at least three batches."""
    largest = min(BATCH_TOKENS, -(-size // 3))
    chance = np.random.default_rng(0)
    batch: list[Document] = []
    held = total = copy = 0
    while True:
        for number, original in enumerate(files):
            tokens = original[: size - total]
            if copy:
                other = chance.random(len(tokens)) < _CHANGED
                tokens = np.where(other, (tokens + np.int32(copy)) % _IDS, tokens).astype(np.int32)
            batch.append(Document(FileRecord(_key(copy, number), ""), tokens))
            held, total = held + len(tokens), total + len(tokens)
            if held >= largest or total == size:
                yield batch
                batch, held = [], 0
            if total == size:
                return
        copy += 1


def _key(copy: int, number: int) -> str:
    return f"/benchmark/copy{copy}/file{number}.py"


def _always() -> bool:
    return True


def _search(store: Store, files: Sequence[Tokens], go_on: Callable[[], bool] = _always) -> list[float]:
    """Seconds of searches for contexts out of the files, of which a random number of tokens is as it was."""
    chance, seconds = random.Random(1), []  # noqa: S311
    whole = [file.tolist() for file in chance.choices(files, k=200) if len(file) > N_MAX]
    for number in range(SEARCHES):
        tokens = chance.choice(whole)
        end = chance.randrange(N_MAX, len(tokens))
        context = tokens[end - N_MAX : end]
        if number % 2:
            strange = chance.randrange(N_MAX - 1)
            context[:strange] = [_IDS] * strange
        start = time.perf_counter()
        Searcher([store.pin()]).search(context, N_MAX, HITS, DEPTH)
        seconds.append(time.perf_counter() - start)
        if not go_on() and number > _ENOUGH:
            break
    return seconds


def _update(store: Store, files: Sequence[Tokens], go_on: Callable[[], bool] = _always) -> list[float]:
    """Seconds of updates of a file of some 10,000 tokens that is being edited: every one changes the store."""
    tokens = max(files, key=lambda file: -abs(len(file) - 10_000)).copy()
    chance, seconds = random.Random(2), []  # noqa: S311
    for number in range(UPDATES):
        tokens[chance.randrange(len(tokens))] = number
        start = time.perf_counter()
        store.overlay(Document(FileRecord("/benchmark/edited.py", str(number)), tokens.copy()))
        seconds.append(time.perf_counter() - start)
        if not go_on() and number > _ENOUGH:
            break
    store.drop_overlay("/benchmark/edited.py")
    return seconds


def _warm_up(store: Store) -> None:
    """Compile, or load, everything that is compiled."""
    for generation in range(3):
        store.add_segment([Document(FileRecord(key, ""), np.arange(50, dtype=np.int32)) for key in ("a", "b", "c")])
        store.overlay(Document(FileRecord("b", str(generation)), np.arange(30, dtype=np.int32)))
        Searcher([store.pin()]).search(range(20), N_MAX, HITS, DEPTH)
        store.drop_overlay("b")
    store.merge()
    store.clear()
