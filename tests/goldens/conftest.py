"""`pytest tests/goldens --record` writes the goldens anew."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.small_model import write_model
from tests.goldens.golden import Goldens, command

SAYS = "Ġmax()\n"
"""What the small model says, with Ġ for a blank; every token depends on the one before it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="record the goldens of tests/goldens anew")


@pytest.fixture(scope="session")
def goldens(request: pytest.FixtureRequest) -> Goldens:
    """Compares, or with `--record` records."""
    return Goldens(record=bool(request.config.getoption("--record", default=False)))


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", SAYS)


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """An environment of a test's own: another cache, and no shared process of others."""
    with tempfile.TemporaryDirectory() as folder:  # a short path: it holds a socket
        yield os.environ | {"FASTCODER_CACHE": f"{folder}/cache", "XDG_RUNTIME_DIR": folder}


@pytest.fixture
def ended(environment: dict[str, str]) -> Iterator[None]:
    """Ends the shared process after the test."""
    yield
    subprocess.run([command(), "host", "stop"], env=environment, check=False, capture_output=True)
