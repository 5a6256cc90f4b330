"""The live index over a real folder: whatever happens to files and documents, it holds what a new one would hold."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.bench.data import data_folder
from fastcoder_lsp.config import resolve
from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.part import Document, FileRecord, build_part
from fastcoder_lsp.index.searcher import LivePart, Searcher, Snapshot
from fastcoder_lsp.workspace.live_index import LiveIndex
from fastcoder_lsp.workspace.rules import ReadingRules
from tests.index import history
from tests.index.toy_encoder import ToyEncoder

SETTINGS, _ = resolve(())
Open = Callable[..., LiveIndex]
needs_replay = pytest.mark.skipif(
    data_folder() is None or not (data_folder() or Path()).joinpath("replay").is_dir(),
    reason="the replay histories are not on this machine (FASTCODER_DATA)",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def open_index(tmp_path: Path) -> Iterator[Open]:
    """Opens live indexes that share one cache, and stops them at the end."""
    opened: list[LiveIndex] = []

    def make(*roots: Path, watching: bool = False) -> LiveIndex:
        rules = ReadingRules(roots, SETTINGS)
        live = LiveIndex(rules, roots, ToyEncoder(), tmp_path / "cache", watching=watching)
        opened.append(live)
        live.start()
        assert live.settle(60)
        return live

    yield make
    for live in opened:
        live.stop()


def held(live: LiveIndex) -> dict[str, list[int]]:
    return {key: tokens.tolist() for snapshot in live.pin() for key, tokens in snapshot.files().items()}


def expected(root: Path, files: Mapping[str, str]) -> dict[str, list[int]]:
    """What a store holds that was built from these texts alone."""
    encoder = ChunkedEncoder(ToyEncoder())
    return {str(root / path): encoder.encode(text).tolist() for path, text in files.items()}


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w", encoding="utf-8", newline="") as file:
            file.write(text)


def same_answers(live: LiveIndex, files: Mapping[str, list[int]], chance: random.Random, count: int) -> None:
    """Searches give what a store built from scratch gives: length, number of hits and, where few, the same places."""
    documents = [Document(FileRecord(key, ""), np.array(tokens, np.int32)) for key, tokens in files.items()]
    fresh = Searcher([Snapshot((LivePart(build_part(documents), frozenset(), None, recent=False),), 0)])
    searcher = Searcher(live.pin())
    for _ in range(count):
        tokens = chance.choice(documents).tokens.tolist()
        end = chance.randint(0, len(tokens))
        context = tokens[max(0, end - 20) : end]
        one, other = searcher.search(context, 16, 64, 10), fresh.search(context, 16, 64, 10)
        assert (one.length, one.count) == (other.length, other.count)
        if one.count <= 64:
            assert places(searcher, one) == places(fresh, other)


def places(searcher: Searcher, hits: object) -> set[tuple[str, int, tuple[int, ...]]]:
    found = set()
    for hit in range(len(hits.rows_H)):  # type: ignore[attr-defined]
        place = searcher.place(hits, hit)  # type: ignore[arg-type]
        found.add((place.key, place.token, tuple(hits.continuations_HD[hit].tolist())))  # type: ignore[attr-defined]
    return found


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for what the operating system brings in its own time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def slice_of(request: pytest.FixtureRequest, name: str, every: int) -> int:
    """How many steps of a history to replay: all with --long."""
    return 10**9 if request.config.getoption("--long", default=False) else {"svcs": 250}.get(name, 200) // every


@needs_replay
@pytest.mark.parametrize("name", history.HISTORIES)
def test_replayed_history(name: str, root: Path, open_index: Open, request: pytest.FixtureRequest) -> None:
    """After every step of a real history the index equals one built from scratch; after a restart too."""
    files, chance = history.base(name), random.Random(name)
    on_disk = dict(files)
    write(root, files)
    live = open_index(root)
    for number, step in enumerate(history.steps(name, files)):
        if number >= slice_of(request, name, 1):
            break
        path = root / step.path
        if step.kind == "edit":
            live.document_changed(path, step.text)
        elif step.kind == "remove":
            path.unlink()
            on_disk.pop(step.path, None)
            live.files_changed([path])
            live.document_closed(path)
        else:
            write(root, {step.path: step.text})
            on_disk[step.path] = step.text
            live.files_changed([path])
            if chance.random() < 0.5:
                live.document_closed(path)
        assert live.settle(60)
        now = expected(root, files)
        assert held(live) == now
        same_answers(live, now, chance, 2)
    live.stop()
    again = open_index(root)
    assert held(again) == expected(root, on_disk)
    assert [problem for store in again.stores() for problem in store.verify()] == []
