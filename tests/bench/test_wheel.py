"""What the built package has of the benchmarks: `bench engine`, and for the others the line to type in a checkout."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_HAD = ("No matching distribution", "Could not find a version", "Connection", "Temporary failure")
"""How pip says that it cannot fetch what builds a package."""

pytestmark = pytest.mark.ci


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published; hatchling builds it, from this environment or fetched by pip."""
    folder = tmp_path_factory.mktemp("wheel")
    backend = ("hatchling", "hatch_fancy_pypi_readme")
    here = ["--no-build-isolation"] if all(map(find_spec, backend)) else []
    built = pip("wheel", "--no-deps", *here, "--wheel-dir", str(folder), str(ROOT))
    if built.returncode and any(words in built.stderr for words in NOT_HAD):
        pytest.skip("hatchling or its plugin is not here, and cannot be fetched")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    done = pip("install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    assert done.returncode == 0, done.stderr
    return target


def typed(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line, typed to the installed program; the folder's modules come before this checkout's."""
    environment = os.environ | {"PYTHONPATH": str(installed), "COLUMNS": "200"}
    program = installed / "bin" / "fastcoder-lsp"
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_bench_engine_is_there(installed: Path) -> None:
    shown = typed(installed, "bench", "engine", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "--rounds" in shown.stdout
    asked = typed(installed, "bench", "engine", "--model", str(installed / "nothing"))
    assert str(installed / "nothing") in asked.stderr
    assert "module" not in asked.stderr.lower(), "a model is missing, no module"


@pytest.mark.parametrize("words", [["--limit", "3"], ["--help"], []])
def test_the_others_are_said_to_be_in_a_checkout(installed: Path, words: list[str]) -> None:
    refused = typed(installed, "bench", "decode", *words)
    assert refused.returncode == 2
    assert "`bench decode` is not in the installed package" in refused.stderr
    assert " ".join(["&& fastcoder-lsp bench decode", *words]) in refused.stderr
    assert not refused.stdout
    listed = typed(installed, "bench", "--help").stdout
    assert "(in a checkout)" in listed
