"""Tiny GGUFs made ready, and engines over them; everything here is skipped without the library."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.core import Engine
from fastcoder_lsp.model.files import ModelFiles
from tests.llama_engine.tiny_ggufs import write_kind

LACKING = "llama-cpp-python is not installed: pip install fastcoder-lsp[llama]"
OpenTiny = Callable[..., Engine]


class SkippedModule(pytest.Module):
    """A file of tests that would import the library: it is skipped, and nothing else of the run."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(LACKING, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return None if find_spec("llama_cpp") else SkippedModule.from_parent(parent, path=module_path)


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
