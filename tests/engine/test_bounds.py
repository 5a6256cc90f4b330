"""What a pass writes stays inside the memory that it was given: compiled code looks at no bounds."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fastcoder_lsp import engine as engines
from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.engine.int8 import backend
from fastcoder_lsp.engine.tree_engine import MAX_NODES
from tests.faults.small_model import WIDTH, write_model

GUARD = 8192
"""Bytes on both sides of an array, more than a row of anything here."""
MARK = 0xA5


class Guarded:
    """Memory with marks around it."""

    def __init__(self) -> None:
        self._arrays: list[tuple[npt.NDArray[np.uint8], int, int]] = []

    def aligned(self, shape: tuple[int, ...], dtype: type[np.generic]) -> npt.NDArray[np.generic]:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.full(size + 2 * GUARD + 4096, MARK, np.uint8)
        start = GUARD + -(raw.ctypes.data + GUARD) % 4096
        raw[start : start + size] = 0
        self._arrays.append((raw, start, start + size))
        array: npt.NDArray[np.generic] = raw[start : start + size].view(dtype).reshape(shape)
        return array

    def untouched(self) -> bool:
        return bool(self._arrays) and all(
            (raw[:start] == MARK).all() and (raw[end:] == MARK).all() for raw, start, end in self._arrays
        )


def test_a_model_wider_than_its_layers_are(
    tmp_path: Path, weights_cache: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few heads and a small inner layer: the norm of a row is the widest thing there is. Trees of many sizes."""
    guarded = Guarded()
    monkeypatch.setattr(backend, "aligned", guarded.aligned)
    engine = engines.load(
        write_model(tmp_path / "model"),
        name="small",
        source="made here",
        digest="small",
        options=engines.EngineOptions(kind="cpu-int8", context=512, threads=2),
        cache=weights_cache,
        progress=lambda _share, _what: None,
        kernels=kernels,
    )
    chance = np.random.default_rng(0)
    for rows in (1, 2, 3, 8, 15, 16, 17, 64, 127, MAX_NODES):
        engine.prefill(chance.integers(0, WIDTH, rows).tolist(), lambda: False)
        tokens = [int(token) for token in chance.permutation(WIDTH)[:rows]]
        parents = [int(chance.integers(0, row)) if row else -1 for row in range(rows)]
        engine.step(DraftTree(tuple(tokens), tuple(parents)), top_k=4)
        assert guarded.untouched(), f"{rows} rows"
    engine.close()
