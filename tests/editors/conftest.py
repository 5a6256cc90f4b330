"""What the tests in real editors share: the editor or a reason to skip, the server's command on PATH, a workspace.

The editors start `fastcoder-lsp` from PATH, as their configurations in editors/ say; there it is the real server with a
real model, the smallest one that is supported.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from fastcoder_lsp.cli.play.playground import copy_sample
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.model import ModelFiles

ROOT = Path(__file__).parents[2]
ANSWER_S = 150.0
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
        return self.log.read_text() if self.log.exists() else ""


def put_on_path(model: ModelFiles, folder: Path, patch: pytest.MonkeyPatch) -> Server:
    """The real server on PATH as `fastcoder-lsp`, with a real model; editors get a HOME of their own."""
    found = Server(folder / "bin", folder / "server.log")
    found.folder.mkdir()
    ours = ["--model", str(model.folder), "--debug", "--log-file", str(found.log), "--log-level", "debug"]
    run = shlex.join([sys.executable, "-m", "fastcoder_lsp.cli.main"])
    serve = f'[ "$1" = serve ] && exec {run} "$@" {shlex.join(ours)}'
    return _as_program(found, f'{serve}\nexec {run} "$@"', folder, patch)


def put_scripted_on_path(folder: Path, patch: pytest.MonkeyPatch, *arguments: str) -> Server:
    """The same around a model that says one text everywhere (tests/lsp/scripted_server.py)."""
    found = Server(folder / "bin", folder / "server.log")
    found.folder.mkdir()
    mark = ["-X", str(found.log)]  # Python takes any; the process is known by it
    run = shlex.join([sys.executable, *mark, str(ROOT / "tests/lsp/scripted_server.py"), *arguments])
    return _as_program(found, f"exec {run}", folder, patch)


def _as_program(found: Server, script: str, folder: Path, patch: pytest.MonkeyPatch) -> Server:
    found.program.write_text(f"#!/bin/sh\n{script}\n")
    found.program.chmod(0o755)
    patch.setenv("PATH", f"{found.folder}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    patch.setenv("FASTCODER_CACHE", str(cache_folder()))
    patch.setenv("HOME", str(folder))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        patch.setenv(variable, str(folder / variable.lower()))
    patch.setenv("OMP_NUM_THREADS", "1")
    return found


@pytest.fixture
def server(llama_model: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server of one test alone, with the smallest model that is supported."""
    return put_on_path(llama_model, tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def lasting_server(llama_model: ModelFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for all tests of a file that share one editor: loading the model takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        yield put_on_path(llama_model, tmp_path_factory.mktemp("editor"), patch)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the sample workspace, with a repository's root mark."""
    return make_workspace(tmp_path)


def make_workspace(folder: Path) -> Path:
    """A copy of the sample workspace below `folder`, with a repository's root mark.

    The suggestions have all the time that they need: on a busy machine a person would wait for the next one. They
    appear however sure the model is.
    """
    root = copy_sample(folder / "workspace")
    (root / ".git").mkdir()
    settings = '[budget]\nautomatic_ms = 30000\ninvoked_ms = 30000\n[quiet]\nshow = "eager"\n'
    (root / "fastcoder.toml").write_text(settings)
    return root


def wait_for(holds: Callable[[], object], what: str, wait_s: float = ANSWER_S) -> None:
    """Look again and again until something holds; fails with `what` was expected."""
    end = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < end, f"not within {wait_s:.0f} s: {what}"
        time.sleep(0.02)


def assert_leaves(server: Server, wait_s: float = 60.0) -> None:
    wait_for(lambda: not server.processes(), "the server ends with its editor", wait_s)
