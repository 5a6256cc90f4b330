"""What the tests in real editors share: the editor or a reason to skip, the server's command on PATH, a workspace.

The editors start `fastcoder-lsp` from PATH, as their configurations in editors/ say; there it is the real server with a
real model, the smallest one that is supported.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from fastcoder_lsp.cli.play.sample import copy_sample
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.model import ModelFiles

ROOT = Path(__file__).parents[2]
ANSWER_S = 60.0
"""The first answer loads the model, perhaps beside other work; the later ones take a fraction of a second."""


def find_editor(name: str, program: str) -> str:
    """The path of an editor; skips where it is absent."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{name} absent: there is no {program} on PATH")
    return path


@dataclass(frozen=True, slots=True)
class Server:
    """The command that editors find, and the processes that they started with it."""

    folder: Path
    log: Path

    @property
    def program(self) -> Path:
        """The `fastcoder-lsp` of this test alone."""
        return self.folder / "fastcoder-lsp"

    def processes(self) -> list[psutil.Process]:
        """Those that run now; a killed editor's server is no longer its child, so they are known by their log file."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            gone = process.info["status"] == psutil.STATUS_ZOMBIE
            if not gone and str(self.log) in (process.info["cmdline"] or ()):
                found.append(process)
        return found

    def log_text(self) -> str:
        """What the server logged."""
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture
def server(llama_model: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The real server on PATH as `fastcoder-lsp`, with a small real model."""
    found = Server(tmp_path / "bin", tmp_path / "server.log")
    found.folder.mkdir()
    ours = ["--model", str(llama_model.folder), "--debug", "--log-file", str(found.log), "--log-level", "debug"]
    run = shlex.join([sys.executable, "-m", "fastcoder_lsp.cli.main"])
    found.program.write_text(f'#!/bin/sh\nexec {run} "$@" {shlex.join(ours)}\n')
    found.program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{found.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("FASTCODER_CACHE", str(cache_folder()))  # editors below get a HOME of their own
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the sample workspace, with a repository's root mark."""
    root = copy_sample(tmp_path / "workspace")
    (root / ".git").mkdir()
    return root


def wait_for(holds: Callable[[], object], what: str, wait_s: float = ANSWER_S) -> None:
    """Look again and again until something holds; fails with `what` was expected."""
    end = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < end, f"not within {wait_s:.0f} s: {what}"
        time.sleep(0.02)


def assert_leaves(server: Server, wait_s: float = 5.0) -> None:
    """No server is left soon after its editor has gone."""
    wait_for(lambda: not server.processes(), "the server ends with its editor", wait_s)
