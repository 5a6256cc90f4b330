"""A machine of a test's own: an empty home and cache, real commands run in it, faults made by the system's own means.

Faults that need rights (a small disk, a folder that cannot be written, no watches left) are made in a user namespace,
which nobody outside sees and which needs no root; where the system forbids namespaces the test says so and is skipped.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fastcoder_lsp.config import kernels_folder
from tests.faults.small_model import write_model

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "fastcoder_lsp.cli.main"]
HANG_S = 240.0
"""A hang guard on a busy machine, no measure."""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def explanation(self) -> str:
        return self._said[0]

    @property
    def advice(self) -> str:
        return self._said[1]

    @property
    def _said(self) -> tuple[str, str]:
        """The error's first line, and the others. Before it a command says what it does where that takes a while."""
        lines = self.err.strip().splitlines()
        at = next((at for at, line in enumerate(lines) if line.startswith("fastcoder-lsp: ")), 0)
        return lines[at].removeprefix("fastcoder-lsp: ") if lines else "", "\n".join(lines[at + 1 :])


@dataclass
class Stranger:
    """Somebody's first day: `home` and `cache` are empty, `model` is a small whole one, `file` has a place to complete.

    `explanations`: what was said of each fault, shared by all tests, which must all differ. `environment`: more
    variables. Compiled functions are those that all tests share: compiling takes longer than everything else of a
    command. With FASTCODER_KERNELS empty they are in the cache, of which there is nothing.
    """

    folder: Path
    explanations: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for made in (self.home, self.cache):
            made.mkdir(mode=0o700)
        self.model = write_model(self.folder / "model")
        self.file = self.folder / "empty.py"
        self.file.write_text("\n\nprint(1)\n", encoding="utf-8")

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def completion(self) -> list[str]:
        return ["complete", f"{self.file}:1:1", "--drafter", "none", "--engine", "cpu-fp32"]

    def variables(self) -> Mapping[str, str]:
        others = ("HF_", "PIP_", "FASTCODER_", "XDG_", "NUMBA_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        own = {"HOME": str(self.home), "FASTCODER_CACHE": str(self.cache), "PYTHONPATH": str(ROOT)}
        offline = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "OMP_NUM_THREADS": "1"}
        compiled = {"FASTCODER_KERNELS": str(kernels_folder())}
        return kept | own | offline | compiled | self.environment

    def run(self, *arguments: str, prefix: tuple[str, ...] = (), variables: Mapping[str, str] | None = None) -> Ended:
        done = subprocess.run(
            [*prefix, *COMMAND, *arguments],
            env=self.variables() if variables is None else variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    def run_after(self, setup: str, *arguments: str) -> Ended:
        """Run one command in a namespace of its own, in which the shell has done `setup` before."""
        require_namespaces()
        return self.run(*arguments, prefix=(*NAMESPACE, "sh", "-c", f'{setup} && exec "$@"', "sh"))

    def looked_after(self, setup: str, look: str) -> str:
        """What one look of doctor's finds in a namespace of its own, in which the shell has done `setup` before."""
        require_namespaces()
        program = f"from fastcoder_lsp.cli.doctor import machine; print([*{look}()])"
        done = subprocess.run(
            [*NAMESPACE, "sh", "-c", f'{setup} && exec "$@"', "sh", sys.executable, "-c", program],
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=True,
        )
        return done.stdout

    def explained(self, fault: str, ended: Ended, code: int, says: tuple[str, ...], advises: str) -> None:
        """See that a command failed with this code, said all this, and what to do; and keep what it said."""
        assert ended.code == code, ended
        for text in says:
            assert text in ended.explanation, ended
        assert advises in ended.advice, ended
        self.explanations[fault] = ended.explanation

    def works(self, *more: str) -> None:
        """See that the small model completes here: nothing is left of a fault."""
        ended = self.run(*self.completion, "--model", str(self.model), *more)
        assert (ended.code, ended.out) == (0, "max()\n"), ended


def require_namespaces() -> None:
    """Skip the test where this system lets nobody make a namespace."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    tried = subprocess.run(
        [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        pytest.skip(f"this system allows no user namespaces: {tried.stderr.strip()}")
