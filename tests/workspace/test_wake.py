"""Changes: nothing that was told is lost, and a machine that slept looks at everything."""

import threading
import time
from itertools import count
from pathlib import Path

import pytest

from fastcoder_lsp.workspace import live_index
from fastcoder_lsp.workspace.background import SLEEP_S, SleepDetector
from fastcoder_lsp.workspace.inbox import MAX_CHANGES, MAX_REST_S, ChangeBatch, Inbox, IndexUser
from tests.index.live import SETTINGS, UsedIndex, held, holds, until, write


class Clocks:
    """The wall's, and one that nobody sets."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1e9, 100.0
        self.wake = SleepDetector(lambda: self.wall_s, lambda: self.steady_s)

    def wait(self, wall_s: float, steady_s: float) -> bool:
        self.wake.begin()
        self.wall_s += wall_s
        self.steady_s += steady_s
        return self.wake.slept()


@pytest.mark.parametrize(
    ("wall_s", "steady_s", "slept"),
    [
        (1.0, 1.0, False),
        (SLEEP_S / 2, SLEEP_S / 2, False),  # a busy machine
        (8 * 3600.0, 1.0, True),  # Linux, macOS
        (8 * 3600.0, 8 * 3600.0, True),  # Windows
        (-3600.0, 1.0, False),  # set back
        (-3600.0, 8 * 3600.0, True),
    ],
)
def test_sleep_is_known_by_either_clock(wall_s: float, steady_s: float, *, slept: bool) -> None:
    clocks = Clocks()
    assert clocks.wait(wall_s, steady_s) is slept
    assert not clocks.wait(1.0, 1.0)


def test_what_changed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[bool] = []

    class Scripted(SleepDetector):
        def slept(self) -> bool:
            return bool(slept) and slept.pop()

    monkeypatch.setattr(live_index, "SleepDetector", Scripted)
    root = tmp_path / "root"
    write(root, {"a.py": "one\n"})
    live = UsedIndex({root: SETTINGS}, tmp_path / "cache", watching=False)
    live.start()
    try:
        assert live.wait_idle(60)
        before = held(live)
        write(root, {"b.py": "two\n"})
        assert live.wait_idle(60)
        assert held(live) == before
        slept.append(True)
        until(holds(live, root, {"a.py": "one\n", "b.py": "two\n"}))
    finally:
        live.stop()


def change(inbox: Inbox, user: IndexUser, path: str, text: str) -> None:
    user.texts.put(Path(path), text)
    inbox.document_changed(user, Path(path))


def take(inbox: Inbox) -> ChangeBatch:
    told = inbox.take()
    assert told is not None
    return told


def test_a_rest_that_ends_while_it_is_looked_at_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr("fastcoder_lsp.workspace.inbox.time.monotonic", lambda: float(next(seconds)))
    held = Inbox()
    held.pause(1.5)
    held.files_changed([Path("a.py")])
    taken: list[ChangeBatch | None] = []
    thread = threading.Thread(target=lambda: taken.append(held.take()), daemon=True)
    thread.start()
    thread.join(20)
    assert [told.paths for told in taken if told is not None] == [(Path("a.py"),)]


def test_the_inbox_stays_small() -> None:
    inbox, user = Inbox(), IndexUser()
    inbox.join(user)
    assert inbox.take_scan()  # the first
    for number in range(3_000):
        change(inbox, user, f"/w/{number % 3}.py", str(number))
        inbox.files_changed([Path(f"/w/{number}/{place}.py") for place in range(3)], [Path(f"/w/{number}")])
    inbox.files_changed((Path(f"/stream/{number}") for number in range(10**9)), ())  # no more of it is asked for
    inbox.document_closed(user, Path("/w/0.py"))
    told = take(inbox)
    assert Path("/w/0.py") in told.paths
    assert told.documents == {Path("/w/0.py"): None, Path("/w/1.py"): "2998", Path("/w/2.py"): "2999"}
    assert inbox.take_scan()
    assert len(told.paths) <= MAX_CHANGES
    assert len(told.folders) == 3_000
    inbox.rescan()
    told = take(inbox)
    assert (told.documents, told.paths) == ({Path("/w/1.py"): "2998", Path("/w/2.py"): "2999"}, ())
    inbox.files_changed([Path("/w/\0.py"), Path("/w/\ud800.py")])
    change(inbox, user, "/w/\0.py", "no system has such a name")
    change(inbox, user, "/w/1.py", "3000")
    told = take(inbox)
    assert (told.documents, told.paths) == ({Path("/w/1.py"): "3000"}, ())


def test_files_wait_for_documents_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    inbox, user = Inbox(), IndexUser()
    inbox.join(user)
    inbox.pause(3600)
    inbox.files_changed([Path("/w/a.py")])
    change(inbox, user, "/w/b.py", "b")
    told = take(inbox)
    assert (told.documents, told.paths) == ({Path("/w/b.py"): "b"}, ())
    now += MAX_REST_S
    assert take(inbox).paths == (Path("/w/a.py"),)


def test_everything_is_found_once_no_change_waits() -> None:
    inbox, user = Inbox(), IndexUser()
    inbox.join(user)
    assert not inbox.wait_idle(0)
    assert inbox.take_scan()
    assert inbox.wait_idle(0)
    inbox.pause(3600)
    inbox.files_changed([Path("/w/a.py")])
    change(inbox, user, "/w/b.py", "b")
    assert not inbox.wait_idle(0)
    assert take(inbox).paths == ()
    assert not inbox.wait_idle(0)
    inbox.pause(0)
    assert take(inbox).paths == (Path("/w/a.py"),)
    assert not inbox.wait_idle(0)  # it is being stored
    inbox.pause(0.2)
    thread, began = threading.Thread(target=inbox.take), time.monotonic()
    thread.start()
    assert inbox.wait_idle(20)
    assert time.monotonic() - began > 0.1  # the next file would wait
    inbox.stop()
    thread.join(20)
