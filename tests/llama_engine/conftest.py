"""Tiny GGUFs made ready, and engines over them; everything here is skipped without the library."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.core import Engine
from fastcoder_lsp.model.files import ModelFiles
from tests.llama_engine.tiny_ggufs import write_kind

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: pip install fastcoder-lsp[llama]")
OpenTiny = Callable[..., Engine]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ggufs")


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Callable[..., ModelFiles]:
    def ready(kind: str, **options: Any) -> ModelFiles:
        path = tiny_folder / f"{kind}{'-'.join(map(str, options.values()))}.gguf"
        if not path.is_file():
            write_kind(path, kind, **options)
        return models.prepare(str(path), tiny_folder / "cache", lambda _share, _what: None)

    return ready


@pytest.fixture
def open_tiny(tiny: Callable[..., ModelFiles], tiny_folder: Path) -> Iterator[OpenTiny]:
    opened: list[Engine] = []

    def load(model: str, **options: Any) -> Engine:
        given: dict[str, Any] = {"kind": "llama", "context": 256, "threads": 1} | options
        wanted = engines.EngineOptions(**given)
        engine = engines.load(tiny(model), wanted, cache=tiny_folder / "cache", progress=lambda _share, _what: None)
        opened.append(engine)
        return engine

    yield load
    for engine in opened:
        engine.close()
