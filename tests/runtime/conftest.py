"""The workspace that tests of other files' code look through."""

from pathlib import Path

import pytest

from tests.runtime.context_folder import make_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path)
