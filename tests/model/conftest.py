"""Fixtures of the models' tests."""

import pytest

from fastcoder_lsp.model import gguf_folder


@pytest.fixture
def without_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without llama.cpp, which would take the files that are transformers' otherwise."""
    monkeypatch.setattr(gguf_folder, "missing_packages", lambda *names: list(names))
