"""lsp-mode in a real Emacs on a terminal, with company's menu; with ghost text where its version has that."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.editors.conftest import put_scripted_on_path

pytestmark = pytest.mark.ci

BEFORE = "class A:\n    def f(self):\n        x = "
SAYS = "uggested = [\n            1,\n        ]"
PROBE = "(progn (package-activate-all) (require 'lsp-mode) (require 'company))"
ON_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"


def play(emacs: str, file: Path) -> dict[str, Any]:
    """The record that Emacs wrote."""
    driver, seen = Path(__file__).parent / "lsp_mode.el", file.with_name("seen.json")
    command = [sys.executable, "-c", ON_A_TERMINAL, emacs, "-nw", "-q", "-l", str(driver), str(file), str(seen)]
    environment = os.environ | {"TERM": "xterm"}
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=280, check=False)
    found: dict[str, Any] = json.loads(seen.read_text(encoding="utf-8"))
    return found


def test_lsp_mode_inserts_the_suggestion_and_warns_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emacs = shutil.which("emacs")
    if emacs is None or subprocess.run([emacs, "--batch", "-q", "--eval", PROBE], check=False).returncode:
        pytest.skip("lsp-mode absent: this Emacs has no lsp-mode with company")
    put_scripted_on_path(tmp_path, monkeypatch, "--says", SAYS)
    file = tmp_path / "a.py"
    file.write_text(BEFORE)
    (tmp_path / ".git").mkdir()
    seen = play(emacs, file)
    assert seen["problem"] == "", seen["messages"]
    assert seen["text"] == f"{BEFORE}s{SAYS}"
    assert "lsp-mode" not in seen["warnings"]
    assert "Unknown notification" not in seen["messages"] + seen["warnings"]
