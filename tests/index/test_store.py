"""The store against a naive index, through any sequence of changes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fastcoder_lsp.index.part import FileRecord, IndexedFile
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.index.store import Store
from tests.index import naive

IDENTITY = "test-tokenizer"
KEYS = st.sampled_from([f"file{number}" for number in range(6)])
# Few tokens make many matches; the greatest ids need every byte of the sorter's keys.
TOKENS = st.lists(st.sampled_from([0, 1, 2, 3, 65_535, 151_000, 2**24 - 1]), max_size=30)


def document(key: str, tokens: Sequence[int], version: int) -> IndexedFile:
    return IndexedFile(FileRecord(key, f"{version}", version, len(tokens)), np.array(tokens, np.int32))


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store.open(Path(self.folder.name), IDENTITY)
        self.saved: dict[str, list[int]] = {}
        self.unsaved: dict[str, list[int]] = {}
        self.version = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def next(self) -> int:
        self.version += 1
        return self.version

    @rule(files=st.dictionaries(KEYS, TOKENS, max_size=3))
    def save(self, files: dict[str, list[int]]) -> None:
        self.store.save([document(key, tokens, self.next()) for key, tokens in files.items()])
        self.saved.update(files)

    @rule(files=st.dictionaries(KEYS, TOKENS, max_size=6))
    def add_segment(self, files: dict[str, list[int]]) -> None:
        self.store.add_segment([document(key, tokens, self.next()) for key, tokens in files.items()])
        self.saved.update(files)

    @rule(key=KEYS, tokens=TOKENS)
    def edit(self, key: str, tokens: list[int]) -> None:
        self.store.overlay(document(key, tokens, self.next()))
        self.unsaved[key] = tokens

    @rule(key=KEYS)
    def save_what_is_unsaved(self, key: str) -> None:
        if key in self.unsaved:
            record = next(
                record
                for entry in self.store.pin().parts
                for file, record in enumerate(entry.part.records)
                if record.key == key and file not in entry.dead
            )
            assert self.store.keep_unsaved(record)
            self.saved[key] = self.unsaved[key]
        else:
            assert not self.store.keep_unsaved(FileRecord(key, "unknown"))

    @rule(key=KEYS)
    def close(self, key: str) -> None:
        self.store.drop_overlay(key)
        self.unsaved.pop(key, None)

    @rule(keys=st.lists(KEYS, max_size=3))
    def remove(self, keys: list[str]) -> None:
        self.store.remove(keys)
        for key in keys:
            self.saved.pop(key, None)

    @rule(old=KEYS, new=KEYS)
    def rename(self, old: str, new: str) -> None:
        if old in self.saved and new != old:
            tokens = self.saved.pop(old)
            self.store.remove([old])
            self.store.save([document(new, tokens, self.next())])
            self.saved[new] = tokens

    @rule()
    def seal(self) -> None:
        self.store.seal()

    @rule()
    def merge(self) -> None:
        while self.store.merge():
            pass

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store.open(Path(self.folder.name), IDENTITY)
        self.unsaved = {}
        assert naive.faults(self.store.folder) == []

    @invariant()
    def holds_exactly_the_files(self) -> None:
        held = {key: tokens.tolist() for key, tokens in self.store.pin().files().items()}
        assert held == {**self.saved, **self.unsaved}
        assert set(self.store.records()) == set(self.saved)

    @rule(context=TOKENS, n_max=st.integers(1, 20), prefer=KEYS)
    def search(self, context: list[int], n_max: int, prefer: str) -> None:
        check(Searcher([self.store.pin()], prefer), {**self.saved, **self.unsaved}, context, n_max)

    @rule(key=KEYS, n_max=st.integers(1, 40), data=st.data())
    def search_what_is_there(self, key: str, n_max: int, data: st.DataObject) -> None:
        files = {**self.saved, **self.unsaved}
        if files.get(key):
            end = data.draw(st.integers(0, len(files[key])))
            check(Searcher([self.store.pin()]), files, files[key][:end], n_max)


def check(searcher: Searcher, files: dict[str, list[int]], context: list[int], n_max: int) -> None:
    """One search, with room for all hits and with little room, against the naive index."""
    length, count, expected = naive.search(files, context, n_max)
    hits = searcher.search(context, n_max, 1000, 4)
    places = [searcher.position(hits, hit) for hit in range(len(hits.rows_H))]
    assert (hits.length, hits.count) == (length, count) == searcher.longest(context, n_max)
    assert frozenset((place.key, place.token) for place in places) == expected
    assert len(places) == count
    for place, continuation in zip(places, hits.continuations_HD.tolist(), strict=True):
        assert continuation == naive.continuation(files[place.key], place.token, 4)
    few = searcher.search(context, n_max, 3, 2)
    sample = [searcher.position(few, hit) for hit in range(len(few.rows_H))]
    assert (few.length, few.count, len(sample)) == (length, count, min(3, count))
    assert len({(place.key, place.token) for place in sample}) == len(sample)
    assert {(place.key, place.token) for place in sample} <= expected
    if end := context[-n_max:][::-1]:
        rows_HD, hits_H2 = np.full((3, 2), 77, np.int32), np.empty((3, 2), np.int32)
        for _ in range(2):  # what an earlier search left does no harm
            filled = searcher.fill(np.array(end, np.int32), rows_HD, hits_H2)
            assert filled == (length, len(few.continuations_HD))
            assert rows_HD[: filled[1]].tolist() == few.continuations_HD.tolist()


Machine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStore = Machine.TestCase
