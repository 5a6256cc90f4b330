"""`fastcoder-lsp play` as a whole, over a pipe and on a screen, with the real server and a small real model."""

import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.cli.play.playground import sample_playground, user_playground
from fastcoder_lsp.model import ModelFiles
from tests.own_cache import own_cache

ROOT = Path(__file__).parents[3]
PLAY = [sys.executable, "-m", "fastcoder_lsp.cli.main", "play"]
ANSWER_S = 120.0


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A cache folder with the machine's models and engines in it, and with a sample workspace of the test's own."""
    cache = own_cache(tmp_path / "cache")
    return os.environ | {"FASTCODER_CACHE": str(cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def play(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*PLAY, *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=250, check=False
    )


def test_scripted_session(environment: dict[str, str], llama_model: ModelFiles) -> None:
    done = play(environment, "--model", str(llama_model.folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "expenses/reports.py:31" in done.stdout
    assert "web/src/chart.ts" in done.stdout
    assert "«" in done.stdout
    assert "the rest stays" in done.stdout
    assert "accepted: " in done.stdout
    assert " ms · " in done.stdout
    assert " tokens in " in done.stdout


def test_next_edits_are_played_without_a_model(environment: dict[str, str], tmp_path: Path) -> None:
    done = play(environment | {"FASTCODER_CACHE": str(tmp_path / "empty"), "HOME": str(tmp_path)}, "--script")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+    return [expense for expense in ledger if" in done.stdout
    assert "+from expenses.reports import by_category, format_table" in done.stdout
    assert "There is no ghost text yet" in done.stdout
    assert "fastcoder-lsp model pull" in done.stdout


def test_the_users_file_is_not_changed(environment: dict[str, str], llama_model: ModelFiles, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = "def area(width: float, height: float) -> float:\n    return width * height\n\n\nprint(area(2.0, 3.0))\n"
    file.write_text(text)
    done = play(environment, str(file), "--model", str(llama_model.folder))
    assert "mine.py:" in done.stdout, done.stderr
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "./no/such/folder"], "no/such/folder"),
        pytest.param(["no-such-file.py"], "no-such-file.py", marks=pytest.mark.model),
        (["--model", "wheels:nothing"], "wheels:nothing"),
    ],
)
def test_a_failing_start_says_why(environment: dict[str, str], arguments: list[str], said: str) -> None:
    done = play(environment, *arguments)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_sample_is_restored(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTCODER_CACHE", environment["FASTCODER_CACHE"])
    place = sample_playground()
    damaged = place.files[0].path
    original = damaged.read_text()
    damaged.write_text("")
    again = sample_playground().files[0]
    above, below = again.text[: again.cursor], again.text[again.cursor :]
    assert above.endswith('"""\n    ')  # where the editor's own Enter puts it
    assert above.removesuffix("    ") + below == damaged.read_text() == original


@pytest.mark.parametrize("text", ["", "\n", "x = 1\r\nfoo(x, y, z)\r\n", "short\nlines\nonly\n"])
def test_any_file_can_be_played(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.py"
    file.write_bytes(text.encode())
    place = user_playground(file)
    assert all(step.after in place.files[0].text for step in place.steps)
    assert place.steps
    assert "\r" not in place.files[0].text


class Terminal:
    """`play` in a real terminal of 80 by 24, by tmux."""

    def __init__(self, tmux: str, command: list[str], environment: dict[str, str]) -> None:
        self._tmux = [tmux, "-L", f"fastcoder-{uuid.uuid4().hex}", "-f", "/dev/null"]
        line = f"exec {shlex.join(command)}"
        size = ["-x", "80", "-y", "24"]
        subprocess.run([*self._tmux, "new-session", "-d", *size, line], env=environment, check=True)

    def type(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def screen(self) -> str:
        done = subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False)
        return done.stdout

    def wait(self, holds: Callable[[str], bool], what: str) -> str:
        end = time.monotonic() + ANSWER_S
        while not holds(screen := self.screen()):
            assert time.monotonic() < end, f"not in time: {what}\n{screen}"
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(environment: dict[str, str], llama_model: ModelFiles) -> Iterator[Terminal]:
    tmux = shutil.which("tmux")
    if tmux is None:
        pytest.skip("tmux absent: there is no terminal to play in")
    command = [*PLAY, "--model", str(llama_model.folder)]
    opened = Terminal(tmux, command, environment | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    yield opened
    opened.close()


def test_on_a_screen(terminal: Terminal) -> None:
    def typed(screen: str) -> str:
        begun = "[date, Decimal] = de"
        return next((line.partition(begun)[2].strip() for line in screen.split("\n") if begun in line), "")

    terminal.wait(lambda screen: "ready" in screen and " ms" in screen, "the first answer")
    terminal.type("-l", "    totals: dict[date, Decimal] = de")
    terminal.wait(lambda screen: "reports.py•" in screen and bool(typed(screen)), "ghost text")
    terminal.type("Tab")
    terminal.type("-l", " # mine")
    screen = terminal.wait(lambda screen: "# mine" in screen, "typing goes on")
    assert not typed(screen).startswith("#"), screen  # Tab accepted, and did not indent
    terminal.type("Enter")
    terminal.type("-l", "for day in ")
    terminal.wait(lambda screen: "for day in" in screen, "the next line")
    terminal.type("Escape")
    terminal.type("C-n")
    terminal.wait(lambda screen: "totalByCategory" in screen, "the next file")
    terminal.type("C-q")
    terminal.wait(lambda screen: not screen.strip(), "it ends")
