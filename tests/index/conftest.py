"""Live indexes of a folder that a test writes to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.workspace.common_code import CommonCode
from tests.index.live import SETTINGS, Begin, OpenWorkspace, UsedIndex, Workspace
from tests.opened import opening


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def begin(tmp_path: Path, root: Path) -> Iterator[Begin]:
    """Begins a live index of `root` and stops it at the end; `said` on it holds its notices."""

    def make(said: list[str] | None = None, cache: Path = tmp_path / "cache", *, watching: bool = False) -> UsedIndex:
        notices = [] if said is None else said
        live = UsedIndex({root: SETTINGS}, cache, notices.append, watching=watching)
        live.start()
        return live

    yield from opening(make, UsedIndex.stop)


@pytest.fixture
def open_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    """Opens workspaces with these folders, without common code."""
    monkeypatch.setattr(CommonCode, "join", lambda _self, _user: None)

    def make(*roots: Path) -> Workspace:
        return Workspace(tmp_path / "cache", *roots)

    yield from opening(make, lambda workspace: workspace.datastore.stop())
