"""The live index where watches are few, lost or not to be had: changes are found all the same."""

import ctypes
import errno
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from fastcoder_lsp.workspace import backlog
from tests.index.live import SETTINGS, Begin, held, holds, until, write

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@linux
def test_missing_watches_are_told_and_made_up_for(root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives watches for half of the folders: all changes are found, and the user is told what to do."""
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
    monkeypatch.setattr(backlog, "_RESCAN_S", 0.2)
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
    until(lambda: live._watcher is not None and not live._watcher.blind())


@linux
def test_no_watcher_at_all(root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has no more of them: the index is there, changes are looked for, and no thread is left of the try."""
    from watchdog.observers import inotify_c

    def no_more() -> int:
        ctypes.set_errno(errno.EMFILE)
        return -1

    monkeypatch.setattr(inotify_c, "inotify_init", no_more)
    monkeypatch.setattr(backlog, "_RESCAN_S", 0.2)
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
    """A folder is moved out, made anew, and both are deleted: what happens then is noticed all the same."""
    (root / "a").mkdir()
    live = begin(watching=True)
    until(lambda: live.settle(1))
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
    """The system's queue was full: a change that nobody is told of is found."""
    from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, WatchDescriptor

    live = begin(watching=True)
    until(lambda: live.settle(1))
    watcher = live._watcher
    assert watcher is not None
    (watch,) = watcher._watches.values()
    watch.gaps.lost = False
    descriptor = getattr(watch.observer, "descriptor", None)
    assert descriptor is not None
    looked = live._backlog.scanned_at
    descriptor.handle_event(InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b""))
    until(lambda: live._backlog.scanned_at > looked)


@pytest.mark.ci
def test_a_workspace_folder_that_goes_and_comes_back(root: Path, begin: Begin, tmp_path: Path) -> None:
    """Deleted, or renamed with another one in its place: what it holds now is held, and watched."""
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
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet are the folders of tools in the workspace, not those that it lies in."""
    monkeypatch.setattr(backlog, "_RESCAN_S", 3600.0)  # what is found is found by its watch
    inner = tmp_path / "node_modules" / "mine"
    write(inner, {"a.py": "a = 1\n", "node_modules/b.js": "b = 1\n"})
    live = begin(watching=True)
    live.change({inner: SETTINGS})
    until(holds(live, inner, {"a.py": "a = 1\n"}))
    assert live.settle(60)
    write(inner, {"a.py": "a = 22\n"})
    until(holds(live, inner, {"a.py": "a = 22\n"}))
