"""The distributions that pip builds of this checkout, built once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    backend = folder / "backend"
    pip("install", "--target", str(backend), "hatchling", "hatch-fancy-pypi-readme")
    program = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    environment = os.environ | {"PYTHONPATH": str(backend)}
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT, env=environment, check=True)
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def wheel(sdist: Path) -> Path:
    """The wheel, built of the source distribution, as a distributor does."""
    folder = sdist.parent / "wheel"
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(sdist))
    return next(folder.glob("*.whl"))


def tool(name: str, folder: Path) -> Path:
    """The tool in an environment of its own; skips where it cannot be had."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "install", name]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"{name} cannot be had from the package index here")
    return folder / "bin" / name
