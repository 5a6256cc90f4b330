"""macOS' and Windows' watchers, by watchdog's own code over systems that are scripted: nothing is lost in silence."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp.workspace.watch import Handler
from fastcoder_lsp.workspace.watch_problems import WatchProblems
from tests.workspace import other_systems as system

PATIENCE_S = 60.0
"""For a thread; what is waited for comes at once."""


class Told:
    def __init__(self) -> None:
        self.files, self.folders = set[Path](), set[Path]()
        self._came = threading.Condition()

    def changed(self, files: Iterable[Path], folders: Iterable[Path]) -> None:
        with self._came:
            self.files.update(files)
            self.folders.update(folders)
            self._came.notify_all()

    def wait(self, there: Callable[[], bool]) -> bool:
        with self._came:
            return self._came.wait_for(there, PATIENCE_S)


@contextmanager
def watched(observer: Any, told: Told, root: Path, *, reports_folders: bool) -> Iterator[None]:
    observer.schedule(Handler(told.changed, root, reports_folders=reports_folders), str(root), recursive=True)
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        observer.join()


@pytest.fixture
def mac(tmp_path: Path) -> Iterator[tuple[Path, Told, WatchProblems]]:
    told, problems = Told(), WatchProblems()
    with system.fsevents() as made, watched(made.Observer(problems), told, tmp_path, reports_folders=True):
        yield tmp_path, told, problems


def test_macos_tells_what_happened(mac: tuple[Path, Told, WatchProblems]) -> None:
    """One event for all that happened to a file since, and either half of a move by itself."""
    root, told, problems = mac
    (root / "there.py").touch()
    system.LIVE[0].tell(
        (root / "there.py", system.CREATED | system.MODIFIED),
        (root / "gone.py", system.CREATED | system.MODIFIED | system.REMOVED),
        (root / "away.py", system.RENAMED),
    )
    assert told.wait(lambda: {root / name for name in ("there.py", "gone.py", "away.py")} <= told.files)
    assert not problems.lost


def test_macos_tells_of_a_folder_that_moved(mac: tuple[Path, Told, WatchProblems]) -> None:
    root, told, _ = mac
    (root / "new").mkdir()
    (root / "new" / "a.py").touch()
    system.LIVE[0].tell((root / "old", system.RENAMED | system.FOLDER))
    assert told.wait(lambda: root / "old" in told.folders)
    system.LIVE[0].tell((root / "new", system.RENAMED | system.FOLDER))
    assert told.wait(lambda: root / "new" in told.folders and root / "new" / "a.py" in told.files)


@pytest.mark.parametrize("flags", [system.MUST_SCAN, system.USER_DROPPED, system.KERNEL_DROPPED, 0x40])
def test_macos_says_that_it_forgot(mac: tuple[Path, Told, WatchProblems], flags: int) -> None:
    root, told, problems = mac
    system.LIVE[0].tell((root, flags | system.FOLDER), (root / "a.py", system.REMOVED))
    assert problems.lost
    assert told.wait(lambda: root / "a.py" in told.files)


def test_what_watchdog_stumbles_over_on_macos_is_known(mac: tuple[Path, Told, WatchProblems]) -> None:
    """It writes down an exception, and forgets the rest of a batch."""
    root, _, problems = mac
    system.LIVE[0].tell((root / "a\0.py", system.MODIFIED), (root / "b.py", system.MODIFIED))
    assert problems.lost


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[tuple[Path, Told, WatchProblems, system.Kernel32]]:
    told, problems, library = Told(), WatchProblems(), system.Kernel32()
    library.root = str(tmp_path)
    with (
        system.directory_changes(library) as made,
        watched(made.Observer(problems), told, tmp_path, reports_folders=False),
    ):
        yield tmp_path, told, problems, library


def test_windows_tells_what_happened(windows: tuple[Path, Told, WatchProblems, system.Kernel32]) -> None:
    """Of what is gone it does not say whether it was a folder: what was below it is gone then, too."""
    root, told, problems, library = windows
    (root / "new.py").touch()
    library.buffers.put(system.record((system.ADDED, "new.py"), (system.CHANGED, "same.py"), (system.DELETED, "old")))
    assert told.wait(lambda: {root / "new.py", root / "same.py", root / "old"} <= told.files)
    assert told.folders == {root / "old"}
    library.buffers.put(system.record((system.OLD_NAME, "Foo.py"), (system.NEW_NAME, "foo.py")))
    assert told.wait(lambda: {root / "Foo.py", root / "foo.py"} <= told.files)
    assert not problems.lost
    assert not problems.broken


def test_a_buffer_that_ran_over_is_known(windows: tuple[Path, Told, WatchProblems, system.Kernel32]) -> None:
    root, told, problems, library = windows
    library.buffers.put(b"")
    library.buffers.put(system.record((system.CHANGED, "a.py")))
    assert told.wait(lambda: root / "a.py" in told.files)
    assert problems.lost


def test_a_reader_that_ends_is_known(windows: tuple[Path, Told, WatchProblems, system.Kernel32]) -> None:
    """Watchdog's thread ends at a failure, and its others wait for it for ever."""
    _, _, problems, library = windows
    library.buffers.put(system.ENUM_DIR)
    until = time.monotonic() + PATIENCE_S
    while not problems.broken and time.monotonic() < until:
        time.sleep(0.01)
    assert problems.broken


def test_a_folder_that_cannot_be_watched_is_known(tmp_path: Path) -> None:
    library, before = system.Kernel32(), set(threading.enumerate())
    library.closed = True
    with system.directory_changes(library) as made:
        observer = made.Observer(WatchProblems())
        observer.schedule(Handler(Told().changed, tmp_path), str(tmp_path), recursive=True)
        with pytest.raises(FileNotFoundError):
            observer.start()
        observer.stop()
    assert set(threading.enumerate()) <= before


def test_changes_without_end_are_told(windows: tuple[Path, Told, WatchProblems, system.Kernel32]) -> None:
    """Watchdog tells what it has when nothing comes for a second; who writes all the time would never be heard of."""
    root, told, _, library = windows
    heard = threading.Event()

    def write() -> None:
        while not heard.is_set():
            library.buffers.put(system.record((system.CHANGED, "log.py")))
            heard.wait(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert told.wait(lambda: root / "log.py" in told.files)
    finally:
        heard.set()
        writer.join()
