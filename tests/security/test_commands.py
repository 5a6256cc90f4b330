"""The commands, started in a hostile repository and about it, with a real model: each does what it should, and ends."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fastcoder_lsp.cli.main import main
from fastcoder_lsp.config import cache_folder
from tests.own_cache import own_cache
from tests.security import hostile

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-P", "-m", "fastcoder_lsp.cli.main")
WAIT_S = 250.0


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with a repository that has everything, and a cache with the machine's models and compiled code."""
    folder = Path(tempfile.mkdtemp(prefix="fastcoder-hostile-"))
    (folder / "repository").mkdir()
    (folder / "models_only").mkdir()
    hostile.repository(folder / "repository", folder / "canary", *hostile.ALL, hostile.installed)
    own_cache(folder / "cache")
    (folder / "models_only/models").symlink_to(cache_folder() / "models")
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def run(place: Path, *arguments: str, cache: str = "cache") -> subprocess.CompletedProcess[str]:
    # PATH names the folder itself, too, and an environment of the user's may name it for Python.
    environment = {
        **os.environ,
        "FASTCODER_CACHE": str(place / cache),
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join((".", "", "bin", os.environ["PATH"])),
    }
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=place / "repository",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=WAIT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert not (place / "canary").exists(), (place / "canary").read_text()
    return done


def test_complete(place: Path) -> None:
    done = run(place, "complete", "main.py:5:9", "--max-tokens", "4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.ci
def test_play(place: Path) -> None:
    done = run(place, "play", "main.py")
    assert done.returncode == 0, done.stderr
    assert "Suggestions in " in done.stdout


@pytest.mark.ci
def test_index_build(place: Path) -> None:
    done = run(place, "index", "build")
    assert done.returncode == 0, done.stderr
    found = run(place, "index", "search", "def add(first, second)", "--limit", "1000")
    assert str(place / "repository/main.py") in found.stdout
    assert "red.py" in found.stdout
    assert all(line.isprintable() for line in found.stdout.split("\n"))


@pytest.mark.ci
def test_corpus_build(place: Path) -> None:
    done = run(place, "corpus", "build", ".", "--name", "hostile", cache="models_only")
    assert done.returncode == 0, done.stderr
    assert "hostile: " in done.stdout


@pytest.mark.parametrize("command", ["complete {}:1:1", "play {}", "index build {}"])
def test_not_a_file(
    place: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real command with a pipe; with the rest its function, as starting it takes a second."""
    root = place / "repository"
    with suppress(FileExistsError):
        os.mkfifo(root / "pipe.py")
    with suppress(FileExistsError):
        (root / "zero.py").symlink_to("/dev/zero")
    done = run(place, *command.format("pipe.py").split())
    said = {"pipe.py": (done.returncode, done.stderr)}
    monkeypatch.chdir(root)
    monkeypatch.setenv("FASTCODER_CACHE", str(place / "cache"))
    for file in ("zero.py", "loop.py", "nowhere.py", "main.py/x.py"):
        said[file] = main(command.format(file).split()), capsys.readouterr().err
    for file, (code, error) in said.items():
        assert code == 2, (file, error)
        assert 0 < len(error.strip().split("\n")) <= 2, file
