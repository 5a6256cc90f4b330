"""Changes of files: what the watcher notices, and what the index forgets."""

import ctypes
import errno
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.index.chunks import ChunkedEncoder
from fastcoder_lsp.index.part import FileRecord, IndexedFile
from fastcoder_lsp.index.store import Store
from fastcoder_lsp.workspace import inbox
from fastcoder_lsp.workspace.common_code import CommonCode
from fastcoder_lsp.workspace.datastore import Datastore
from fastcoder_lsp.workspace.inbox import Inbox, IndexUser
from fastcoder_lsp.workspace.intake import Intake
from fastcoder_lsp.workspace.rules import ExclusionReason, ReadingRules
from fastcoder_lsp.workspace.shared_stores import SharedStores
from tests.index.live import SETTINGS, Begin, OpenWorkspace, edit, expected, held, holds, until, write
from tests.index.toy_encoder import ToyEncoder

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@linux
def test_missing_watches_are_told_and_made_up_for(root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers import inotify_c

    real, given, most = inotify_c.inotify_add_watch, set[int](), 20

    def add_watch(fd: int, path: bytes, mask: int, /) -> int:
        watch = real(fd, path, inotify_c.Mask(mask))
        if watch in given or len(given) < most:
            given.add(watch)
            return watch
        inotify_c.inotify_rm_watch(fd, watch)
        ctypes.set_errno(errno.ENOSPC)
        return -1

    monkeypatch.setattr(inotify_c, "inotify_add_watch", add_watch)
    monkeypatch.setattr(inbox, "_RESCAN_S", 0.2)
    names = [f"d{number}/a.py" for number in range(40)]
    write(root, dict.fromkeys(names, "a = 1\n"))
    said = list[str]()
    live = begin(said, watching=True)
    until(holds(live, root, dict.fromkeys(names, "a = 1\n")))
    write(root, dict.fromkeys(names, "b = 22\n"))
    until(holds(live, root, dict.fromkeys(names, "b = 22\n")))
    shutil.rmtree(root / "d39")
    until(holds(live, root, dict.fromkeys(names[:-1], "b = 22\n")))
    assert len(said) == 1
    assert "sysctl fs.inotify.max_user_watches=" in said[0]
    assert live._watcher is not None
    most = 10_000
    until(lambda: live._watcher is not None and not live._watcher.incomplete())


@linux
def test_no_watcher_at_all(root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchdog.observers import inotify_c

    def no_more() -> int:
        ctypes.set_errno(errno.EMFILE)
        return -1

    monkeypatch.setattr(inotify_c, "inotify_init", no_more)
    monkeypatch.setattr(inbox, "_RESCAN_S", 0.2)
    before, said = set(threading.enumerate()), list[str]()
    write(root, {"a.py": "a = 1\n"})
    live = begin(said, watching=True)
    until(holds(live, root, {"a.py": "a = 1\n"}))
    write(root, {"b.py": "b = 1\n"})
    until(holds(live, root, {"a.py": "a = 1\n", "b.py": "b = 1\n"}))
    assert len(said) == 1
    assert "sysctl fs.inotify.max_user_instances=" in said[0]
    live.stop()
    until(lambda: set(threading.enumerate()) <= before)


@linux
def test_watching_survives_folders_of_one_name(root: Path, begin: Begin, tmp_path: Path) -> None:
    (root / "a").mkdir()
    live = begin(watching=True)
    until(lambda: live.wait_idle(1))
    for _ in range(3):
        (root / "a").rename(tmp_path / "away")
        time.sleep(0.7)  # watchdog waits half a second for where it went
        (root / "a").mkdir()
        time.sleep(0.2)
        (root / "a").rmdir()
        (tmp_path / "away").rmdir()
        (root / "a").mkdir()
    write(root, {"b.py": "b = 1\n"})
    until(lambda: str(root / "b.py") in held(live))


@linux
def test_a_lost_event_has_everything_looked_at(root: Path, begin: Begin) -> None:
    from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, WatchDescriptor

    live = begin(watching=True)
    until(lambda: live.wait_idle(1))
    watcher = live._watcher
    assert watcher is not None
    (watch,) = watcher._watches.values()
    watch.problems.lost = False
    descriptor = getattr(watch.observer, "descriptor", None)
    assert descriptor is not None
    looked = live.inbox.scanned_at
    descriptor.handle_event(InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b""))
    until(lambda: live.inbox.scanned_at > looked)


@pytest.mark.ci
def test_a_workspace_folder_that_goes_and_comes_back(root: Path, begin: Begin, tmp_path: Path) -> None:
    write(root, {"a.py": "a = 1\n"})
    live = begin(watching=True)
    until(holds(live, root, {"a.py": "a = 1\n"}))
    shutil.rmtree(root)
    until(lambda: held(live) == {})
    write(root, {"b.py": "b = 1\n"})
    until(holds(live, root, {"b.py": "b = 1\n"}))
    root.rename(tmp_path / "moved")
    write(root, {"c.py": "c = 1\n"})
    until(holds(live, root, {"c.py": "c = 1\n"}))
    write(root, {"c.py": "c = 22\n"})
    until(holds(live, root, {"c.py": "c = 22\n"}))


def test_a_workspace_below_a_tool_s_folder_is_watched(
    open_workspace: OpenWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet are the folders of tools in the workspace, not those that it lies in."""
    monkeypatch.setattr(inbox, "_RESCAN_S", 3600.0)  # what is found is found by its watch
    inner = tmp_path / "node_modules" / "mine"
    write(inner, {"a.py": "a = 1\n", "node_modules/b.js": "b = 1\n"})
    workspace = open_workspace(inner)
    until(holds(workspace, inner, {"a.py": "a = 1\n"}))
    assert workspace.datastore.wait_idle(60)
    write(inner, {"a.py": "a = 22\n"})
    until(holds(workspace, inner, {"a.py": "a = 22\n"}))


@pytest.mark.parametrize("told", ["by name", "by looking"])
@pytest.mark.parametrize("stamp", ["older", "the same"])
def test_a_file_that_is_restored_is_read_again(stamp: str, told: str, root: Path, begin: Begin) -> None:
    write(root, {"a.py": "version = 2\n"})
    os.utime(root / "a.py", ns=(10**18, 10**18))
    time.sleep(0.15)  # beyond the clock's tick, within which no stamp is believed
    live = begin()
    until(holds(live, root, {"a.py": "version = 2\n"}))
    write(root, {"a.py": "version = 1\n"})
    then = 10**18 if stamp == "the same" else 10**17
    os.utime(root / "a.py", ns=(then, then))
    if told == "by name":
        live.files_changed([root / "a.py"])
    else:
        live.rescan()
    until(holds(live, root, {"a.py": "version = 1\n"}))


def test_a_follower_forgets_what_it_does_not_read(root: Path, tmp_path: Path) -> None:
    writer = Store.open(tmp_path / "store", "toy")
    names = [f"f{number}.py" for number in range(40)]
    write(root, dict.fromkeys(names, "old = 1\n"))
    encoder, nothing = ChunkedEncoder(ToyEncoder()), list[Path]()
    paths = [root / name for name in names]
    list(Intake({root: SETTINGS}, {root: writer}).store_all(paths, encoder, lambda *_: None, lambda: False))
    follower = Store.open(tmp_path / "store", "toy", reader=True)
    write(root, dict.fromkeys(names[:-1], "newer = 2\n"))
    taken = Intake({root: SETTINGS}, {root: follower}).store_all(paths, encoder, lambda *_: None, lambda: False)
    assert list(taken) == nothing
    assert set(follower.pin().files()) == {str(paths[-1])}
    writer.close()


def test_rules_hold_for_open_documents_at_once(
    root: Path, open_workspace: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"a.py": "a = 1\n"})
    workspace = open_workspace(root)
    datastore = workspace.datastore
    until(holds(workspace, root, {"a.py": "a = 1\n"}))
    edit(datastore, root / "private/b.py", "unsaved = 1\n")
    both = {"a.py": "a = 1\n", "private/b.py": "unsaved = 1\n"}
    until(holds(workspace, root, both))
    looking, go_on, files = threading.Event(), threading.Event(), ReadingRules.files

    def files_slowly(self: ReadingRules) -> Iterator[Path]:
        if not looking.is_set():
            looking.set()
            assert go_on.wait(60)
        yield from files(self)

    monkeypatch.setattr(ReadingRules, "files", files_slowly)
    (index,) = workspace.indexes()
    index.inbox.rescan()
    assert looking.wait(20)
    datastore.change({root: replace(SETTINGS, read_exclude=("private/",))})
    assert str(root / "private/b.py") not in held(workspace)
    until(holds(workspace, root, {"a.py": "a = 1\n"}))
    go_on.set()
    datastore.change({root: SETTINGS})
    until(holds(workspace, root, both))
    write(root, {".fastcoderignore": "private/\n"})
    datastore.files_changed([root / ".fastcoderignore"])
    until(lambda: str(root / "private/b.py") not in held(workspace))
    (root / ".fastcoderignore").unlink()
    datastore.files_changed([root / ".fastcoderignore"])
    until(holds(workspace, root, both))


def test_a_document_moves_to_the_folder_that_is_added(root: Path, open_workspace: OpenWorkspace) -> None:
    workspace = open_workspace(root)
    edit(workspace.datastore, root / "inner/b.py", "unsaved = 1\n")
    until(holds(workspace, root, {"inner/b.py": "unsaved = 1\n"}))
    workspace.datastore.change({root: SETTINGS, root / "inner": SETTINGS})
    until(lambda: [len(snapshot.files()) for snapshot in workspace.pin()] == [0, 1])
    workspace.datastore.change({root / "inner": SETTINGS})
    until(lambda: [len(snapshot.files()) for snapshot in workspace.pin()] == [1])


def test_new_folders_cost_what_is_in_them(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "store", "toy")
    one = np.array([1, 2], np.int32)
    keys = [str(root / f"d{number % 100}" / f"f{number}.py") for number in range(20_000)]
    store.add_segment([IndexedFile(FileRecord(key, key), one) for key in keys])
    intake = Intake({root: SETTINGS}, {root: store})
    folders = [root / f"new{number}" for number in range(100)]
    for folder in folders:
        folder.mkdir()
    (root / "d7").mkdir()
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        for folder in folders:
            assert intake.below([folder]) == []
    finally:
        sys.setprofile(None)
    assert calls < 100 * 1_000  # looking at each file would take 20,000 a folder
    monkeypatch.setattr(ReadingRules, "may_read", lambda *_: pytest.fail("what is gone needs no rules"))
    assert len(intake.below([root / "d7", root / "d8"])) == 200
    assert len(store.records()) == 20_000 - 200
    store.close()


def test_a_link_in_the_place_of_a_folder(root: Path, begin: Begin, tmp_path: Path) -> None:
    """What was stored under its names is gone, for it leads out of the workspace now."""
    write(root, {"a/f.py": "x = 1\n", "b.py": "b = 1\n"})
    write(tmp_path / "outside", {"f.py": "secret = 1\n"})
    live = begin()
    until(holds(live, root, {"a/f.py": "x = 1\n", "b.py": "b = 1\n"}))
    shutil.rmtree(root / "a")
    (root / "a").symlink_to(tmp_path / "outside")
    live.files_changed([], [root / "a"])
    until(holds(live, root, {"b.py": "b = 1\n"}))


def test_a_document_whose_name_becomes_a_link_to_a_secret(root: Path, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", "toy")
    intake, encoder = Intake({root: SETTINGS}, {root: store}), ChunkedEncoder(ToyEncoder())
    intake.overlay(root / "a.py", "a = 1\n", encoder)
    assert set(store.pin().files()) == {str(root / "a.py")}
    (root / "id_rsa").write_text("key", encoding="utf-8")
    assert ReadingRules((root,), SETTINGS).may_read(root / "id_rsa") is ExclusionReason.SECRET
    (root / "a.py").symlink_to(root / "id_rsa")
    intake.overlay(root / "a.py", "a = 1\n", encoder)
    assert store.pin().files() == {}
    store.close()


def test_documents_may_change_while_the_datastore_begins(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, join, threads = SharedStores(tmp_path / "cache"), Inbox.join, list[threading.Thread]()
    datastore = Datastore({root: SETTINGS}, stores)
    for number in range(3):
        edit(datastore, root / f"{number}.py", "old")

    def join_slowly(self: Inbox, user: IndexUser) -> None:
        join(self, user)
        for name in ("2.py", "another.py"):
            thread = threading.Thread(target=edit, args=(datastore, root / name, "new"))
            threads.append(thread)
            thread.start()
            thread.join(0.2)

    monkeypatch.setattr(Inbox, "join", join_slowly)
    monkeypatch.setattr(CommonCode, "_build", lambda self, user: None)
    datastore.start(ToyEncoder())
    for thread in threads:
        thread.join(20)
    assert datastore.wait_idle(60)
    (index,) = stores.indexes.values()
    assert held(index) == expected(root, {"0.py": "old", "1.py": "old", "2.py": "new", "another.py": "new"})
    datastore.stop()
