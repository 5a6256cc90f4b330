"""Live indexes of a folder that a test writes to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.workspace.live_index import LiveIndex
from tests.index.live import SETTINGS, Begin
from tests.index.toy_encoder import ToyEncoder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def begin(tmp_path: Path, root: Path) -> Iterator[Begin]:
    """Begins a live index of `root` and stops it at the end; `said` on it holds its notices."""
    begun: list[LiveIndex] = []

    def make(said: list[str] | None = None, cache: Path = tmp_path / "cache", *, watching: bool = False) -> LiveIndex:
        notices = [] if said is None else said
        live = LiveIndex({root: SETTINGS}, ToyEncoder(), cache, notice=notices.append, watching=watching)
        begun.append(live)
        live.start()
        return live

    yield make
    for live in begun:
        live.stop()
