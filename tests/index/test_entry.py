"""Compiled functions whose types are looked at once."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

MODULE = """
from typing import NamedTuple
import numba, numpy as np
from fastcoder_lsp.index.entry import FixedTypes

class {name}(NamedTuple):
    numbers: np.ndarray

@FixedTypes
@numba.njit(cache=True)
def total(given):
    return given.numbers.sum()

def call():
    return total({name}(np.arange(4)))
"""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("upgraded", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "upgraded", module)
        spec.loader.exec_module(module)
        assert module.call() == module.call() == 6
    return module


def test_what_another_version_left_in_the_cache_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba's file beside the source names a type that the next version has no more: it is compiled anew, and kept."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    path = tmp_path / "upgraded.py"
    for name in ("Old", "New", "New"):
        path.write_text(MODULE.format(name=name), encoding="utf-8")
        load(path)
    assert list(tmp_path.rglob("*.nbi"))
