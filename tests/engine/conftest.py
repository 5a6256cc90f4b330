"""Fixtures of the engine's tests: a folder of packed weights, and the default model where it is on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.tiny_models import load


@pytest.fixture(scope="session")
def weights_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine-cache")


@pytest.fixture(scope="session")
def real_tokenizer(model_folder: Path) -> Tokenizer:
    return Tokenizer.load(model_folder)


@pytest.fixture(scope="session")
def real_engine(model_folder: Path) -> Iterator[TreeEngine]:
    engine = load(model_folder, cache_folder(), "cpu-int8", context=1024, threads=None)
    yield engine
    engine.close()
