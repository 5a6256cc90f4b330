"""Fixtures of the engine's tests: real models where they are on this machine, machine code that all tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastcoder_lsp import model
from fastcoder_lsp.config import cache_folder, kernels_folder
from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.tiny_models import load


@pytest.fixture(scope="session")
def weights_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine-cache")


@pytest.fixture(scope="session")
def kernels() -> Path:
    return kernels_folder()


@pytest.fixture(scope="session")
def real_model() -> ModelFiles:
    try:
        return model.find("auto", cache_folder())
    except FastcoderError as error:
        pytest.skip(f"the default model is not here: {error.message}")


@pytest.fixture(scope="session")
def real_tokenizer(real_model: ModelFiles) -> Tokenizer:
    return Tokenizer.load(real_model.folder)


@pytest.fixture(scope="session")
def real_engine(real_model: ModelFiles) -> Iterator[TreeEngine]:
    engine = load(real_model.folder, cache_folder(), "cpu-int8", context=1024, threads=None)
    yield engine
    engine.close()
