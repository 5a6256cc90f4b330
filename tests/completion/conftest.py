"""What these tests leave out of the way that a model comes and goes."""

from types import SimpleNamespace

import pytest


def no_full_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that comes or goes has all memory collected; here that is of all that other tests have imported.

    That took a third of a second, some hundred times.
    """
    nothing = SimpleNamespace(collect=lambda: 0, freeze=lambda: None, unfreeze=lambda: None)
    monkeypatch.setattr("fastcoder_lsp.scheduling.model.gc", nothing)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    no_full_collections(monkeypatch)
