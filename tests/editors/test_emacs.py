"""The server in a real Emacs through Eglot, with editors/emacs/fastcoder.el, headless."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import ROOT, Server, assert_leaves, find_editor, wait_for

DRIVER = Path(__file__).parent / "emacs_driver.el"
FASTCODER = ROOT / "editors/emacs/fastcoder.el"
TYPED = "    return sorted("
Play = Callable[[str, str], dict[str, Any]]


@pytest.fixture
def emacs() -> list[str]:
    """The command up to the scenario; skips where Emacs has no Eglot."""
    program = find_editor("emacs", "emacs")
    probe = [program, "--batch", "-q", "--eval", "(require 'eglot)"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("eglot absent: this Emacs is older than 29 and has no package of that name")
    return [program, "--batch", "-q", "-l", str(DRIVER)]


@pytest.fixture
def play(emacs: list[str], server: Server, workspace: Path) -> Play:
    """Plays a scenario of the driver in expenses/reports.py; the server must be gone afterwards."""

    def run(scenario: str, typed: str) -> dict[str, Any]:
        command = [*emacs, scenario, str(workspace / "expenses/reports.py"), str(FASTCODER), typed]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:] + server.log_text()[-2000:]
        assert_leaves(server)
        seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return seen

    return run


def test_ghost_text_is_typed_through_and_accepted(play: Play) -> None:
    """Typed letters leave the rest, M-f takes a word, TAB the rest; the server sees what Emacs sees."""
    seen = play("ghost-text", TYPED)
    assert seen["rest"] == seen["ghost"][2:]
    assert seen["word"].startswith(TYPED + seen["ghost"][:2])
    assert seen["accepted"] == TYPED + seen["ghost"]
    assert not seen["visible"]
    assert seen["server"] == seen["buffer"]


def test_astral_characters_do_not_shift_positions(play: Play) -> None:
    """This Eglot counts UTF-16 units, two for each of these characters."""
    typed = "    crabs = ['🦀', '𝔘'] + list(expenses)[:"
    seen = play("ghost-text", typed)
    assert seen["accepted"] == typed + seen["ghost"]
    assert seen["server"] == seen["buffer"]


def test_dismissing(play: Play) -> None:
    """C-g takes the ghost text away."""
    assert not play("dismiss", TYPED)["visible"]


def test_completion_at_point_without_our_mode(play: Play) -> None:
    """Plain Eglot, which knows no inline completions, gets the suggestion as a completion."""
    seen = play("popup", "    return sort")
    assert seen["accepted"].startswith("    return sorted")
    assert seen["server"] == seen["buffer"]


def test_a_killed_emacs_leaves_no_server(emacs: list[str], server: Server, workspace: Path) -> None:
    """SIGKILL gives the editor no chance to say goodbye; the server ends all the same."""
    command = [*emacs, "dismiss", str(workspace / "expenses/reports.py"), str(FASTCODER), TYPED, "stay"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as editor:
        try:
            wait_for(lambda: "textDocument/inlineCompletion" in server.log_text(), "the server is asked")
            assert server.processes()
        finally:
            editor.kill()
        editor.wait()
        assert_leaves(server)
