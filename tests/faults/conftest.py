"""A stranger's machine for each test, and one memory of what was said of all faults."""

from pathlib import Path

import pytest

from tests.faults.stranger import Stranger


@pytest.fixture(scope="session")
def explanations() -> dict[str, str]:
    """Fault → what was said of it."""
    return {}


@pytest.fixture
def stranger(tmp_path: Path, explanations: dict[str, str]) -> Stranger:
    return Stranger(tmp_path, explanations)
