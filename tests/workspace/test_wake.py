"""Changes: nothing that was told is lost, and a machine that slept looks at everything."""

import threading
import time
from itertools import count
from pathlib import Path

import pytest

from fastcoder_lsp.workspace import live_index
from fastcoder_lsp.workspace.background import SLEEP_S, SleepDetector
from fastcoder_lsp.workspace.backlog import MAX_CHANGES, MAX_REST_S, ChangeBatch, Inbox
from fastcoder_lsp.workspace.live_index import LiveIndex
from tests.index.live import SETTINGS, held, holds, until, write
from tests.index.toy_encoder import ToyEncoder


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
    live = LiveIndex({root: SETTINGS}, ToyEncoder(), tmp_path / "cache", watching=False)
    live.start()
    try:
        assert live.settle(60)
        before = held(live)
        write(root, {"b.py": "two\n"})
        assert live.settle(60)
        assert held(live) == before
        slept.append(True)
        until(holds(live, root, {"a.py": "one\n", "b.py": "two\n"}))
    finally:
        live.stop()


def test_a_rest_that_ends_while_it_is_looked_at_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr("fastcoder_lsp.workspace.backlog.time.monotonic", lambda: float(next(seconds)))
    held = Inbox()
    held.pause(1.5)
    held.changed([Path("a.py")])
    taken: list[ChangeBatch] = []
    thread = threading.Thread(target=lambda: taken.append(held.take()), daemon=True)
    thread.start()
    thread.join(20)
    assert [told.paths for told in taken] == [(Path("a.py"),)]


def test_the_inbox_stays_small() -> None:
    inbox = Inbox()
    for number in range(3_000):
        inbox.document(Path(f"/w/{number % 3}.py"), str(number))
        inbox.changed([Path(f"/w/{number}/{place}.py") for place in range(3)], [Path(f"/w/{number}")])
    inbox.changed((Path(f"/stream/{number}") for number in range(10**9)), ())  # no more of it is asked for
    inbox.document(Path("/w/0.py"), None)
    told = inbox.take()
    assert told.documents == {Path("/w/0.py"): None, Path("/w/1.py"): "2998", Path("/w/2.py"): "2999"}
    assert told.lost
    assert len(told.paths) <= MAX_CHANGES
    assert len(told.folders) == 3_000
    assert inbox.empty()
    inbox.requeue_documents()
    assert inbox.take().documents == {Path("/w/1.py"): "2998", Path("/w/2.py"): "2999"}
    inbox.changed([Path("/w/\0.py"), Path("/w/\ud800.py")])
    inbox.document(Path("/w/\0.py"), "no system has such a name")
    assert inbox.empty()


def test_files_wait_for_documents_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    inbox, seen = Inbox(), threading.Event()
    inbox.pause(3600)
    inbox.changed([Path("/w/a.py")])
    inbox.wait_for_empty(seen)
    inbox.document(Path("/w/b.py"), "b")
    told = inbox.take()
    assert (dict(told.documents), told.paths, told.waiting) == ({Path("/w/b.py"): "b"}, (), ())
    now += MAX_REST_S
    told = inbox.take()
    assert (told.paths, told.waiting) == ((Path("/w/a.py"),), (seen,))
