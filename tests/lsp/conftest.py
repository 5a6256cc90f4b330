"""What tests of the protocol share."""

from pathlib import Path

import pytest

from tests.lsp.raw_client import Brake


@pytest.fixture
def brake(tmp_path: Path) -> Brake:
    """Holds a scripted model until the test lets it go."""
    return Brake(tmp_path / "go")
