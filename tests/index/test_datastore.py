"""Corpora, and the datastore that drafters pin: repository and common code as one thing."""

import errno
import io
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.config import resolve
from fastcoder_lsp.draft.frozen_table import TableShape
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.index.corpus import Corpora
from fastcoder_lsp.index.searcher import Searcher
from fastcoder_lsp.workspace import corpus_files
from fastcoder_lsp.workspace.common_code import STANDARD_LIBRARY, CommonCode, Installed
from fastcoder_lsp.workspace.datastore import Datastore
from fastcoder_lsp.workspace.shared_stores import SharedStores
from tests.index import naive
from tests.index.live import edit
from tests.index.toy_encoder import ToyEncoder

SETTINGS, _ = resolve(())
CODE = "def common(argument):\n    return argument + 41\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small standard library, so that no test indexes the real one."""
    folder = tmp_path / "stdlib"
    write(folder / "module.py", CODE)
    write(folder / "test" / "test_module.py", "def test_common():\n    pass\n")
    write(folder / "site-packages" / "package.py", "installed = 1\n")
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(folder))
    return folder


@pytest.fixture
def datastore(tmp_path: Path, library: Path) -> Iterator[Datastore]:
    assert library.is_dir()
    root = tmp_path / "project"
    write(root / "a.py", "def repository(argument):\n    return argument - 1\n")
    write(root / ".venv" / "lib" / "python3.11" / "site-packages" / "dep" / "code.py", "def dependency():\n    pass\n")
    write(root / ".venv" / "lib" / "python3.11" / "site-packages" / "dep" / ".env", "SECRET = 1\n")
    write(root / "node_modules" / "@scope" / "pack" / "index.js", "export function installed() {}\n")
    store = Datastore({root: SETTINGS}, SharedStores(tmp_path / "cache"))
    yield store
    store.stop()


def ids(text: str) -> list[int]:
    return ToyEncoder().encode(text)


def test_drafters_pin_repository_and_common_code(datastore: Datastore, tmp_path: Path) -> None:
    edited = tmp_path / "project" / "b.py"
    edit(datastore, edited, "def repository(argument):\n    return 0\n")
    assert datastore.pin(edited.as_uri()).repository is None
    datastore.start(ToyEncoder())
    assert datastore.wait_idle(60)
    pinned = datastore.pin(edited.as_uri())
    assert pinned.repository is not None
    assert pinned.corpus is not None
    hits = pinned.repository.search(ids("def repository(argument):\n"), 16, 8, 8)
    assert hits.count == 2
    assert pinned.repository.position(hits, 0).key == str(edited)
    assert pinned.corpus.longest(ids("def common(argument)"), 16) == (6, 1)
    for held in ("def dependency()", "export function installed()"):
        assert pinned.corpus.longest(ids(held), 16) == (len(ids(held)), 1)
    for absent in ("test_common", "SECRET"):
        assert pinned.corpus.longest(ids(absent), 16)[0] == 0
    edit(datastore, edited, None)
    assert datastore.wait_idle(60)
    assert datastore.pin(edited.as_uri()).generation != pinned.generation
    # What is pinned stays as it was.
    assert pinned.repository.longest(ids("def repository(argument)"), 16) == (6, 2)


def test_common_code_has_a_frozen_table(datastore: Datastore) -> None:
    early, late = TableShape(1, 2), TableShape(2, 1)
    assert datastore.pin("").frozen(early) is None
    datastore.start(ToyEncoder())
    assert datastore.wait_idle(60)
    table = datastore.pin("").frozen(early)
    assert table is not None
    assert next(iter(table.query(tuple(ids("return"))))) == tuple(ids("return argument"))[1:3]
    assert datastore.pin("").frozen(late) is None
    assert datastore.wait_idle(60)
    assert datastore.pin("").frozen(late) is not None


def test_common_code_is_that_of_the_documents_language(datastore: Datastore, tmp_path: Path) -> None:
    """Another language's may not even guess: a Rust file gets nothing of Python's standard library."""
    gem = [("gems/rack/rack.rb", "def served_by_rack\nend\n")]
    assert Corpora(tmp_path / "cache").build("ruby-packages", ["gems"], iter(gem), ToyEncoder()) is not None
    datastore.start(ToyEncoder())
    datastore.pin("").frozen(TableShape(1, 2))
    assert datastore.wait_idle(60)

    def longest(name: str, held: str) -> int:
        corpus = datastore.pin((tmp_path / "project" / name).as_uri()).corpus
        return 0 if corpus is None else corpus.longest(ids(held), 16)[0]

    common, ruby = "def common(argument)", "def served_by_rack"
    assert longest("a.py", common) == longest("no_suffix", common) == len(ids(common))
    assert longest("a.rb", ruby) == longest("no_suffix", ruby) == len(ids(ruby))
    assert longest("a.py", ruby) < len(ids(ruby))
    assert longest("a.rb", common) < len(ids(common))
    rust = datastore.pin((tmp_path / "project" / "main.rs").as_uri())
    assert rust.corpus is None
    assert rust.frozen(TableShape(1, 2)) is None
    script = datastore.pin((tmp_path / "project" / "b.ts").as_uri())
    assert script.corpus is not None  # the workspace's own packages
    assert script.frozen(TableShape(1, 2)) is None
    assert datastore.pin((tmp_path / "project" / "a.rb").as_uri()).frozen(TableShape(1, 2)) is not None


def test_an_index_of_common_code_takes_eight_bytes_a_token(tmp_path: Path) -> None:
    large = [(f"{number}.py", f"value_{number} = {number}\n" * 2000) for number in range(8)]
    info = Corpora(tmp_path).build("large", ["code"], iter(large), ToyEncoder())
    assert info is not None
    assert info.bytes <= 8 * info.tokens + 200 * info.files


def test_common_code_is_built_once(datastore: Datastore, tmp_path: Path) -> None:
    datastore.start(ToyEncoder())
    assert datastore.wait_idle(60)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "corpora").rglob("*.seg")}
    assert len(stored) == 2
    datastore.stop()
    again = Datastore({tmp_path / "project": SETTINGS}, SharedStores(tmp_path / "cache"))
    again.start(ToyEncoder())
    assert again.wait_idle(60)
    again.stop()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "corpora").rglob("*.seg")} == stored


def test_corpus_of_folders_and_archives(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    write(tmp_path / "src" / "one.py", CODE)
    write(tmp_path / "src" / "tests" / "test_one.py", "unwanted = 1\n")
    write(tmp_path / "src" / "notes.txt", "unwanted = 2\n")
    write(tmp_path / "src" / "page.min.js", "unwanted = 3\n")
    (tmp_path / "src" / "link.py").symlink_to(tmp_path / "src" / "one.py")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("two/two.py", "two = 2\r\n")
        archive.writestr("two/bad.py", b"\xff\xfe\x00")
        archive.writestr("two/.env", "unwanted = 4\n")
    with tarfile.open(tmp_path / "three.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("./three/three.ts")
        member.size = 10
        tar.addfile(member, io.BytesIO(b"let x = 3\n"))
    paths = [tmp_path / name for name in ("src", "two.zip", "three.tar.gz")]
    corpora = Corpora(cache)
    told: list[tuple[int, int]] = []
    info = corpora.build("mine", ["src"], corpus_files.texts_of(paths), ToyEncoder(), lambda *sizes: told.append(sizes))
    assert info is not None
    assert corpora.infos() == [info]
    assert (
        told[-1] == (info.files, info.tokens) == (3, len(ids(CODE)) + len(ids("two = 2\n")) + len(ids("let x = 3\n")))
    )
    searcher = Searcher([corpora.open("mine", "toy").pin()])
    hits = searcher.search(ids("two ="), 16, 4, 4)
    assert searcher.position(hits, 0).key == f"{tmp_path / 'two.zip'}!two/two.py"
    rebuilt = corpora.build("mine", ["less"], corpus_files.texts_of(paths[1:]), ToyEncoder())
    assert rebuilt is not None
    assert (rebuilt.files, corpora.infos()) == (2, [rebuilt])
    corpora.remove("mine")
    assert corpora.infos() == []
    with pytest.raises(UsageError):
        corpora.open("mine", "toy")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 81])
def test_names_of_corpora_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Corpora(tmp_path).build(name, [], iter(()), ToyEncoder())


def test_a_stopped_build_is_no_corpus(tmp_path: Path) -> None:
    corpora = Corpora(tmp_path)
    assert corpora.build("half", [], iter([("a", CODE)]), ToyEncoder(), should_stop=lambda: True) is None
    assert corpora.infos() == []
    assert not corpora.has(STANDARD_LIBRARY, "toy")


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes by name")
def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "nowhere.py").symlink_to(tmp_path / "gone.py")
    write(tmp_path / "real.py", CODE)
    assert [text for _, text in corpus_files.texts_of([tmp_path])] == [CODE]


def test_a_corpus_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    corpora = Corpora(tmp_path)

    def texts() -> Iterator[tuple[str, str]]:
        yield "a", CODE * 90_000
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        corpora.build("half", [], texts(), ToyEncoder())
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {"writer.lock"}
    assert corpora.build("half", [], iter([("a", CODE)]), ToyEncoder()) is not None
    assert naive.faults(corpora.open("half", "toy").folder) == []


def test_dependencies_stay_below_their_cap(tmp_path: Path) -> None:
    installed = tmp_path / "node_modules"
    for size in (100, 200, 400):
        write(installed / f"pack{size}" / "index.js", "x" * (size - 1) + "\n")
    assert sum(len(text) for _, text in corpus_files.dependencies([tmp_path], cap=350)) == 300


def test_what_the_disk_refuses_is_tried_again_but_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "corpora").write_text("no folder", encoding="utf-8")
    common, told = CommonCode(tmp_path, ToyEncoder(), builds_installed=False), list[str]()
    user = Installed({}, told.append)
    common.join(user)
    waiting = threading.Thread(target=common.wait, args=(600.0,), daemon=True)
    waiting.start()
    waiting.join(60)
    builder = common.builder
    assert not waiting.is_alive()
    assert builder is not None
    assert builder.is_alive()
    assert common.stores(user, "") == ()
    assert common.leave(user)
    builder.join(60)
    assert not builder.is_alive()
