"""The server in a real Emacs through Eglot, with editors/emacs/fastcoder.el, headless."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import (
    ROOT,
    Server,
    assert_leaves,
    find_editor,
    make_workspace,
    put_scripted_on_path,
    wait_for,
)

HERE = Path(__file__).parent
FASTCODER = ROOT / "editors/emacs/fastcoder.el"
SCENARIOS = (
    "loading",
    "accept",
    "astral",
    "line-and-undo",
    "alternative",
    "dismiss",
    "settings",
    "stats",
    "toggle",
    "killed-server",
)
TYPED = "    return sorted("
Seen = dict[str, Any]


@pytest.fixture(scope="module")
def emacs() -> str:
    """The program; skips where it has no Eglot."""
    program = find_editor("emacs", "emacs")
    probe = [program, "--batch", "-q", "--eval", "(require 'eglot)"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("eglot absent: this Emacs is older than 29 and has no package of that name")
    return program


def command(emacs: str, workspace: Path, *scenarios: str) -> list[str]:
    driver = str(HERE / "emacs_driver.el")
    return [emacs, "--batch", "-q", "-l", driver, str(FASTCODER), str(workspace / "expenses/reports.py"), *scenarios]


def play(emacs: str, server: Server, workspace: Path, *scenarios: str) -> Seen:
    arguments = command(emacs, workspace, *scenarios)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + server.log_text()[-2000:]
    assert_leaves(server)
    seen: Seen = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.fixture(scope="module")
def seen(emacs: str, lasting_server: Server) -> Seen:
    """All scenarios, in one Emacs with one server: starting both takes longer than most of them."""
    return play(emacs, lasting_server, make_workspace(lasting_server.folder.parent), *SCENARIOS)


@pytest.mark.ci
@pytest.mark.parametrize("scenario", ["accept", "astral"])
def test_ghost_text_is_typed_through_and_accepted(seen: Seen, scenario: str) -> None:
    found = seen[scenario]
    typed = found["typed"]
    assert found["rest"] == found["ghost"][2:]
    assert found["word"].startswith(typed + found["ghost"][:2])
    assert found["accepted"] == found["word"] + found["last"]
    assert found["accepted"].startswith(typed + found["ghost"]), "a beginning may have grown meanwhile"
    assert not found["visible"]
    assert found["server"] == found["buffer"]


@pytest.mark.ci
def test_a_line_is_accepted_and_undone_at_once(seen: Seen) -> None:
    found = seen["line-and-undo"]
    assert found["accepted"] == TYPED + found["ghost"].split("\n")[0]
    assert found["undone"] == TYPED


@pytest.mark.ci
def test_the_next_alternative_shows_and_is_accepted(seen: Seen) -> None:
    found = seen["alternative"]
    assert found["second"] != found["first"]
    assert found["accepted"] == TYPED + found["second"]
    assert found["server"] == found["buffer"]


@pytest.mark.ci
def test_dismissing(seen: Seen) -> None:
    assert not seen["dismiss"]["visible"]


@pytest.mark.ci
def test_the_mode_line_tells_the_truth_while_the_model_loads(seen: Seen) -> None:
    said, at_last = seen["loading"]["seen"], seen["loading"]["at-last"]
    loading = [i for i, text in enumerate(said) if text == "fast:loading" or "%%" in text]
    assert loading
    assert loading[0] < said.index("fast·")
    assert at_last == "fast"


@pytest.mark.ci
def test_changed_settings_arrive(seen: Seen) -> None:
    assert seen["settings"]["excluded"] == ""


@pytest.mark.ci
def test_switching_off_and_on(seen: Seen) -> None:
    assert seen["toggle"] == {"off": "fast:off", "shown": ""}


@pytest.mark.ci
def test_statistics(seen: Seen) -> None:
    assert "median" in seen["stats"]["text"]
    assert "accepted" in seen["stats"]["text"]
    assert seen["stats"]["text"].startswith("Too early to tell")


@pytest.mark.ci
def test_a_killed_server_comes_back(seen: Seen) -> None:
    found = seen["killed-server"]
    assert found["visible"]
    assert found["server"] == found["buffer"]


@pytest.mark.ci
def test_what_was_late_is_shown_when_it_is_made(
    emacs: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "fastcoder.toml").unlink()
    slow = ("--says", "sorted(expenses)", "--step-ms", "100", "--budget-ms", "100")
    late = play(emacs, put_scripted_on_path(tmp_path, monkeypatch, *slow), workspace, "late")["late"]
    assert late["told"]
    assert late["ghost"] == "sorted(expenses)"
    assert "reports.py" in late["why"]
    assert "not ready within 100 ms" in late["why"]


def test_the_next_edit_is_gone_to_made_and_undone(
    emacs: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "expenses/reports.py").write_text('price = 1\n\n\ndef f():\n    """The largest first."""\n')
    edits = ("--says", "", "--replaces", "price", "amount")
    seen = play(emacs, put_scripted_on_path(tmp_path, monkeypatch, *edits), workspace, "edit")["edit"]
    assert seen["drawn"] == "price = 1\n"
    assert seen["made"].startswith("amount = 1\n")
    assert seen["undone"] == seen["made"].replace("amount", "price")
    assert seen["undone"] == seen["before"]


@pytest.mark.ci
def test_completion_at_point_without_our_mode(emacs: str, server: Server, workspace: Path) -> None:
    """Plain Eglot, which knows no inline completions, gets the suggestion as a completion."""
    found = play(emacs, server, workspace, "popup")["popup"]
    assert found["accepted"].startswith("    return sorted")
    assert found["server"] == found["buffer"]


@pytest.mark.ci
def test_a_killed_emacs_leaves_no_server(emacs: str, server: Server, workspace: Path) -> None:
    """SIGKILL gives the editor no chance to say goodbye; the server ends all the same."""
    arguments = command(emacs, workspace, "wait-to-be-killed")
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as editor:
        try:
            wait_for(lambda: "textDocument/inlineCompletion" in server.log_text(), "the server is asked")
            assert server.processes()
        finally:
            editor.kill()
        editor.wait()
        assert_leaves(server)


def test_what_the_mode_itself_decides(emacs: str) -> None:
    tests = str(HERE / "emacs_client_tests.el")
    run = [emacs, "--batch", "-q", "-l", str(FASTCODER), "-l", tests, "-f", "ert-run-tests-batch-and-exit"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "0 unexpected" in done.stderr
