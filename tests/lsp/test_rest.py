"""While nobody types the server's threads sleep, and still notice what they have to."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fastcoder_lsp.lsp import server, settings_watch
from fastcoder_lsp.lsp.server import wait_until_gone
from fastcoder_lsp.lsp.settings_watch import SettingsWatch
from fastcoder_lsp.workspace import inbox
from fastcoder_lsp.workspace.inbox import Inbox

WAIT_S = 20.0
LONG_S = 3600.0


@pytest.fixture
def editor() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are asked every second")
async def test_the_end_of_the_editor_is_told_and_not_looked_for(
    editor: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_INTERVAL_S", LONG_S)
    gone = asyncio.create_task(wait_until_gone(psutil.Process(editor.pid)))
    await asyncio.sleep(0.2)
    assert not gone.done()
    editor.kill()
    await asyncio.wait_for(gone, WAIT_S)


@pytest.mark.parametrize("told", [True, False])
async def test_an_editor_that_has_ended_is_noticed_at_once(
    told: bool, editor: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    if not told:
        monkeypatch.setattr(server, "_descriptor_of", lambda _process: None)
    process = psutil.Process(editor.pid)
    editor.kill()
    editor.wait()
    await asyncio.wait_for(wait_until_gone(process), WAIT_S)


def test_settings_files_rest_without_messages_and_are_read_at_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_watch, "EVERY_S", 0.02)
    monkeypatch.setattr(settings_watch, "AWAKE_S", 0.1)
    monkeypatch.setattr(settings_watch, "SELDOM_S", LONG_S)
    file, changed, looks = tmp_path / "fastcoder.toml", threading.Event(), list[float]()

    def paths() -> list[Path]:
        looks.append(time.monotonic())
        return [file]

    watch = SettingsWatch(paths, changed.set)
    watch.start()
    file.write_text("a = 1\n")
    assert changed.wait(WAIT_S), "without messages for a moment, it looks often"
    changed.clear()
    while time.monotonic() - looks[-1] < 0.5:
        time.sleep(0.05)
    file.write_text("a = 22\n")
    assert not changed.wait(0.3)
    watch.active()
    assert changed.wait(WAIT_S)
    watch.stop()


def test_an_index_without_news_sleeps_until_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "_TICK_S", 0.02)
    monkeypatch.setattr(inbox, "_AWAKE_S", 0.1)
    monkeypatch.setattr(inbox, "_RESTING_TICK_S", LONG_S)
    held, rounds = Inbox(), list[float]()
    assert held.take_scan()
    held.end_scan(0.0, done=True)

    def work() -> None:
        while not held.stopping:
            held.next_round(may_try=True)
            rounds.append(time.monotonic())

    worker = threading.Thread(target=work)
    worker.start()
    end_s = time.monotonic() + WAIT_S
    while not rounds or time.monotonic() - rounds[-1] < 0.5:
        assert time.monotonic() < end_s, "it never rests"
        time.sleep(0.05)
    resting = len(rounds)
    held.files_changed([Path("/w/a.py")])
    while len(rounds) == resting:
        assert time.monotonic() < end_s, "news do not wake it"
        time.sleep(0.01)
    held.stop()
    worker.join(WAIT_S)
    assert not worker.is_alive()
