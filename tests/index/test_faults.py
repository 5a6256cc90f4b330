"""The store on a disk that is full, closed, or taken away: nothing half made is left, and what is there is searched."""

import errno
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcoder_lsp.core.files import check_room, replace_file, temporary_for
from fastcoder_lsp.draft.frozen_table import TableShape, build
from fastcoder_lsp.index.held_files import SortedKeys
from fastcoder_lsp.index.part import FileRecord, IndexedFile
from fastcoder_lsp.index.store import LOCK_NAME, Store
from fastcoder_lsp.index.stored import FILE_NAME
from tests.index import naive

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def document(key: str, tokens: Sequence[int], digest: str = "", modified_ns: int = 1) -> IndexedFile:
    return IndexedFile(FileRecord(key, digest or str(tokens), modified_ns, 1, 1), np.array(tokens, np.int32))


def held(store: Store) -> dict[str, list[int]]:
    return {key: tokens.tolist() for key, tokens in store.pin().files().items()}


def names(folder: Path) -> set[str]:
    return {path.suffix for path in folder.iterdir() if path.name not in (FILE_NAME, LOCK_NAME)}


def refuse(patch: pytest.MonkeyPatch, what: str) -> None:
    """Have the disk refuse something, by the signature of the real call."""
    if what == "says so beforehand":
        total = shutil.disk_usage("/").total
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(total, total, 0))
    elif what == "blocks":

        def posix_fallocate(fd: int, offset: int, length: int, /) -> None:
            os.ftruncate(fd, length // 2)  # it takes what there is, and then says no
            raise FULL

        patch.setattr(os, "posix_fallocate", posix_fallocate)
    elif what == "sync":

        def fsync(fd: int) -> None:
            raise FULL

        patch.setattr(os, "fsync", fsync)
    else:
        assert what == "name"

        def replace(self: Path, target: Path) -> Path:
            raise FULL

        patch.setattr(Path, "replace", replace)


@pytest.mark.skipif(sys.platform != "linux", reason="blocks are reserved on Linux")
@pytest.mark.parametrize("what", ["says so beforehand", "blocks", "sync", "name"])
@pytest.mark.parametrize("work", ["seal", "merge", "add"])
def test_a_full_disk_leaves_nothing_behind(what: str, work: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path, "toy")
    for number in range(3):
        store.add_segment([document(f"old{number}", [1, 2, number])])
    store.save([document("new", [1, 2, 9])])
    before = held(store)
    there = sorted(tmp_path.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, what)
        for _ in range(3):
            with pytest.raises(OSError, match=FULL.strerror):
                _work(store, work)
            assert [path for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
            assert held(store).items() >= before.items()
    if what != "name":  # a segment that has its name but is in no manifest is deleted with the next
        assert {path for path in there if path.suffix == ".seg"} <= set(tmp_path.iterdir())
    _work(store, work)
    after = held(store)
    store.close()
    again = Store.open(tmp_path, "toy")
    assert (held(again), naive.faults(again.folder)) == (after, [])
    assert names(tmp_path) == {".seg"}
    assert len(list(tmp_path.glob("*.seg"))) == len(again.status().segments)
    again.close()


def _work(store: Store, work: str) -> None:
    if work == "seal":
        store.seal()
    elif work == "merge":
        assert store.merge()
    else:
        store.add_segment([document("more", [3, 4, 5])])


def test_a_manifest_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    store = Store.open(tmp_path, "toy")
    store.save([document("a", [1, 2, 3])])

    def write(path: Path, content: bytes) -> None:
        raise FULL

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastcoder_lsp.index.stored.replace_file", write)
        with pytest.raises(OSError, match=FULL.strerror):
            store.seal()
        with pytest.raises(OSError, match=FULL.strerror):
            store.mark_complete()
        assert not store.complete
    store.seal()
    assert set(held(Store.open(tmp_path, "toy", reader=True))) == {"a"}
    store.close()


def test_a_store_deleted_under_its_writer_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = Store.open(folder, "toy")
    store.add_segment([document("a", [1, 2, 3]), document("b", [1, 2, 4])])
    store.remove(["b"])
    store.seal()
    shutil.rmtree(folder)
    store.save([document("c", [1, 2, 5])])
    with pytest.raises(OSError, match=str(folder)):
        store.seal()
    assert store.reclaim()
    assert not store.reclaim()
    store.seal()
    other = Store.open(folder, "toy", reader=True)
    assert set(held(other)) == set(held(store)) == {"a", "c"}
    assert naive.faults(other.folder) == []
    store.close()


def test_a_store_that_another_process_began_again_is_its_own(tmp_path: Path) -> None:
    """Two processes never write one store: the one whose lock is gone finds it out before it writes, and follows."""
    folder = tmp_path / "store"
    first = Store.open(folder, "toy")
    first.add_segment([document("a", [1, 2, 3])])
    shutil.rmtree(folder)
    second = Store.open(folder, "toy")
    assert second.writable
    second.add_segment([document("b", [1, 2, 4])])
    with pytest.raises(OSError, match="deleted"):
        first.add_segment([document("a", [1, 2, 5])])
    assert first.reclaim()
    assert not first.writable
    assert set(held(Store.open(folder, "toy", reader=True))) == {"b"}
    assert naive.faults(second.folder) == []
    second.close()


def test_a_failed_reader_releases_the_store(tmp_path: Path) -> None:
    """Whoever takes the lock and then fails must not be the writer of a store that it has not read."""
    store = Store.open(tmp_path, "toy")
    store.add_segment([document("a", [1, 2, 3])])
    store.close()
    kept = (tmp_path / FILE_NAME).rename(tmp_path / "kept")
    (tmp_path / FILE_NAME).mkdir()
    reader = Store.open(tmp_path, "toy", reader=True)
    with pytest.raises(OSError, match=FILE_NAME):
        reader.take_over()
    assert not reader.writable
    (tmp_path / FILE_NAME).rmdir()
    kept.rename(tmp_path / FILE_NAME)
    assert reader.take_over()
    assert set(held(reader)) == {"a"}
    reader.close()


@pytest.mark.parametrize("modified_ns", [0, 1, 2])
def test_what_was_saved_while_others_were_read_stays(modified_ns: int, tmp_path: Path) -> None:
    """Whatever the file system's clocks say: a text that was read before is no newer than one saved since."""
    store = Store.open(tmp_path, "toy")
    store.begin_reading()
    store.save([document("saved", [1, 2, 3], modified_ns=1)])
    store.remove(["removed"])
    olds = [document(key, [7, 8, 9], modified_ns=modified_ns) for key in ("saved", "removed", "only read")]
    store.add_segment(olds)
    assert held(store) == {"saved": [1, 2, 3], "only read": [7, 8, 9]}
    store.begin_reading()
    store.add_segment([document("saved", [4, 5, 6], modified_ns=modified_ns)])
    assert held(store)["saved"] == [4, 5, 6]
    assert store.below("") == []
    store.close()


def test_files_are_replaced_by_several_writers_at_once(tmp_path: Path) -> None:
    path, errors = tmp_path / "file", list[BaseException]()

    def write(letter: bytes) -> None:
        try:
            for _ in range(40):
                replace_file(path, letter * 50_000)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        content = path.read_bytes() if path.exists() else b""
        assert content in (b"", *(letter * 50_000 for letter in (b"a", b"b", b"c")))
    assert errors == []
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


def test_what_dead_writers_left_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    dead, alive, other = (tmp_path / f"{name}-0123abcd.tmp" for name in ("file.4194999", f"file.{os.getpid()}", "o.1"))
    young = temporary_for(path)
    for left in (dead, alive, other, young):
        left.write_bytes(b"half")
        if left is not young:
            os.utime(left, (1, 1) if left is alive else (left.stat().st_mtime - 600,) * 2)
    replace_file(path, b"whole")
    assert {child.name for child in tmp_path.iterdir()} == {"file", other.name, young.name}


def test_a_table_that_cannot_be_saved_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    path.write_bytes(b"old")
    table = build(np.array([1, 2, 3, 1, 2, 3], np.int32), TableShape(1, 2))
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, "sync")
        with pytest.raises(OSError, match=FULL.strerror):
            table.save(path, "toy")
    assert [(child.name, child.read_bytes()) for child in tmp_path.iterdir()] == [("table.npz", b"old")]


def test_the_user_keeps_some_of_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hundredth of the disk, at most 100 MB; where nobody knows how large it is, nothing is kept."""
    for total, free, size, fits in (
        (10**9, 11_000_000, 10**6, True),
        (10**9, 10_500_000, 10**6, False),
        (0, 0, 1, True),
    ):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, t=total, f=free: shutil._ntuple_diskusage(t, t - f, f))
        if fits:
            check_room(tmp_path, size)
        else:
            with pytest.raises(OSError, match=FULL.strerror):
                check_room(tmp_path, size)


PATHS = st.lists(st.text("ab/", min_size=1, max_size=6).map(lambda name: os.sep + name), unique=True, max_size=150)


@given(PATHS, st.randoms(use_true_random=False), st.text("ab/", max_size=3))
def test_keys_below_a_folder(keys: list[str], chance: object, folder: str) -> None:
    in_order, gone = SortedKeys(), keys[::3]
    in_order.add(keys[:5])
    in_order.add(keys[5:])
    in_order.discard(gone)
    prefix = (os.sep + folder).rstrip(os.sep) + os.sep
    assert in_order.below(os.sep + folder) == sorted(k for k in keys if k.startswith(prefix) and k not in gone)
