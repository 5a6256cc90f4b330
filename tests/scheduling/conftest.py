"""What these tests leave out of the way that a model comes and goes."""

import pytest

from tests.completion.conftest import no_full_collections


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    no_full_collections(monkeypatch)
