"""Several workspaces of one process over the same stores: shared where folders and rules are the same, never else."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fastcoder_lsp.config import Settings, resolve
from fastcoder_lsp.workspace.datastore import Datastore
from fastcoder_lsp.workspace.live_index import IndexProgress
from fastcoder_lsp.workspace.shared_stores import SharedStores, group_nested
from tests.index.live import edit, until, write
from tests.index.toy_encoder import ToyEncoder
from tests.opened import opening

SETTINGS, _ = resolve(())
CAREFUL = replace(SETTINGS, read_exclude=("private/",))
Open = Callable[..., Datastore]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    write(folder, {"a.py": "everybody = 1\n", "private/b.py": "somebody = 2\n"})
    return folder


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedStores:
    library = tmp_path / "stdlib"
    write(library, {"module.py": "common = 1\n"})
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(library))
    return SharedStores(tmp_path / "cache")


@pytest.fixture
def begin(stores: SharedStores) -> Iterator[Open]:

    def make(folders: Mapping[Path, Settings], report: Callable[[IndexProgress], None] = lambda _: None) -> Datastore:
        datastore = Datastore(folders, stores, report)
        datastore.start(ToyEncoder())
        assert datastore.wait_idle(60)
        return datastore

    yield from opening(make, Datastore.stop)


def knows(datastore: Datastore, text: str, document: Path = Path("/nowhere.py")) -> bool:
    repository, tokens = datastore.pin(document.as_uri()).repository, ToyEncoder().encode(text)
    return repository is not None and repository.longest(tokens, 16)[0] == len(tokens)


def test_the_same_folders_and_rules_are_watched_once(root: Path, stores: SharedStores, begin: Open) -> None:
    first, second = begin({root: SETTINGS}), begin({root: SETTINGS})
    assert len(stores.indexes) == 1
    first_pin, second_pin = (one.pin("file:///x.py") for one in (first, second))
    assert first_pin.generation == second_pin.generation
    assert knows(first, "somebody = 2")
    assert knows(second, "somebody = 2")
    first.stop()
    assert len(stores.indexes) == 1
    write(root, {"later.py": "afterwards = 3\n"})
    second.files_changed([root / "later.py"])
    until(lambda: knows(second, "afterwards = 3"))
    assert first.pin("").repository is None
    second.stop()
    assert len(stores.indexes) == 0


def test_a_client_never_finds_files_that_only_others_may_read(
    root: Path, tmp_path: Path, stores: SharedStores, begin: Open
) -> None:
    free, careful = begin({root: SETTINGS}), begin({root: CAREFUL})
    assert len(stores.indexes) == 2
    assert knows(free, "somebody = 2")
    assert knows(careful, "everybody = 1")
    assert not knows(careful, "somebody = 2")
    edit(free, root / "private/b.py", "unsaved = 3\n")
    until(lambda: knows(free, "unsaved = 3"))
    assert not knows(careful, "unsaved = 3")
    free.change({root: CAREFUL})
    until(lambda: knows(free, "everybody = 1"))
    assert not knows(free, "somebody = 2")
    assert len(stores.indexes) == 1
    careful.change({root: SETTINGS})
    until(lambda: knows(careful, "somebody = 2"))
    assert not knows(free, "somebody = 2")
    for datastore in (free, careful):
        datastore.stop()
    later = Datastore({root: CAREFUL}, SharedStores(tmp_path / "cache"))
    later.start(ToyEncoder())
    seen: list[bool] = []

    def found() -> bool:
        seen.append(knows(later, "somebody = 2"))
        return knows(later, "everybody = 1")

    until(found)
    later.stop()
    assert not any(seen)


def test_unsaved_texts_belong_to_the_client_that_sent_them(root: Path, begin: Open) -> None:
    one, other = begin({root: SETTINGS}), begin({root: SETTINGS})
    edit(one, root / "a.py", "first = 1\n")
    edit(other, root / "a.py", "second = 2\n")
    until(lambda: knows(one, "second = 2") and not knows(one, "first = 1"))
    edit(other, root / "a.py", None)
    until(lambda: knows(other, "first = 1") and not knows(other, "second = 2"))
    edit(other, root / "a.py", "second = 2\n")
    until(lambda: knows(one, "second = 2"))
    one.stop()
    assert other.wait_idle(60)
    assert knows(other, "second = 2")
    edit(other, root / "a.py", None)
    until(lambda: knows(other, "everybody = 1"))


def test_a_later_front_gets_the_last_progress(root: Path, begin: Open) -> None:
    told: list[IndexProgress] = []
    first = begin({root: SETTINGS})
    begin({root: SETTINGS}, report=told.append)
    assert told[-1] == IndexProgress(building=False, done=2, total=2)
    assert knows(first, "everybody = 1")


def test_workspaces_share_the_folders_that_they_have_in_common(
    root: Path, tmp_path: Path, stores: SharedStores, begin: Open
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    write(beside, {"c.py": "besides = 1\n"})
    both, alone = begin({root: SETTINGS, beside: SETTINGS}), begin({beside: SETTINGS})
    assert len(stores.indexes) == 2
    assert knows(both, "besides = 1")
    assert knows(alone, "besides = 1")
    assert not knows(alone, "everybody = 1")
    both.change({root: SETTINGS, root / "private": SETTINGS})
    assert both.wait_idle(60)
    assert len(stores.indexes) == 2
    assert sorted(map(len, group_nested({root: SETTINGS, beside: SETTINGS, root / "private": SETTINGS}))) == [1, 2]
    assert knows(both, "somebody = 2")
    assert not knows(both, "besides = 1")


def test_common_code_is_open_once(root: Path, tmp_path: Path, begin: Open) -> None:
    other = tmp_path / "other"
    write(other, {"node_modules/pack/index.js": "export function installed() {}\n"})
    one, two = begin({root: SETTINGS}), begin({other: SETTINGS})
    assert one.wait_idle(60)
    common, tokens = ToyEncoder().encode("common = 1"), ToyEncoder().encode("export function installed()")
    found = []
    for datastore in (one, two):
        corpus = datastore.pin("").corpus
        assert corpus is not None
        assert corpus.longest(common, 16)[0] == len(common)
        found.append(corpus.longest(tokens, 16)[0] == len(tokens))
    assert found == [False, True]
