"""A Neovim with the scripted server, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.neovim_client.scripted import Scripted


@pytest.fixture
def neovim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    scripted = Scripted(tmp_path, monkeypatch)
    yield scripted
    scripted.close()
