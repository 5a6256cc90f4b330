"""A machine that slept is known, and all is looked at then."""

from pathlib import Path

import pytest

from fastcoder_lsp.workspace import live_index
from fastcoder_lsp.workspace.background import LONG_S, SleepDetector
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
        (LONG_S / 2, LONG_S / 2, False),  # a busy machine
        (8 * 3600.0, 1.0, True),  # Linux, macOS
        (8 * 3600.0, 8 * 3600.0, True),  # Windows
        (-3600.0, 1.0, False),  # set back
        (-3600.0, 8 * 3600.0, True),
    ],
)
def test_sleep_is_known_by_either_clock(wall_s: float, steady_s: float, *, slept: bool) -> None:
    """And what was slept before a wait is none of it."""
    clocks = Clocks()
    assert clocks.wait(wall_s, steady_s) is slept
    assert not clocks.wait(1.0, 1.0)


def test_what_changed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By who else writes to the disk, and nobody told of."""
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
