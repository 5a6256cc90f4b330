"""Our engines' promise: a row's logits are the same bits in any tree, on any cache; no write leaves its memory."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fastcoder_lsp.core import DraftTree
from fastcoder_lsp.engine.int8 import backend
from fastcoder_lsp.engine.tree_engine import MAX_NODES, TreeEngine
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.rows import check_place, run
from tests.engine.tiny_models import OURS, VOCABULARY, load, make_model
from tests.faults.small_model import WIDTH, write_model


@pytest.mark.parametrize("name", ["cpu-int8", "cpu-int4"])
def test_tiny_models_give_the_same_bits(name: Any, tmp_path: Path, weights_cache: Path) -> None:
    rng = np.random.default_rng(0)
    for kind in OURS:
        engine = load(make_model(tmp_path / kind, kind), weights_cache, name, threads=2)
        assert engine.info.name == name
        for length in (1, 40, 150):
            tokens = rng.integers(0, VOCABULARY, length + 16).tolist()
            assert check_place(engine.backend, tokens, 16, rng) == 16, (kind, length)
        engine.close()


def test_threads_change_no_bit(tmp_path: Path, weights_cache: Path) -> None:
    folder = make_model(tmp_path / "model", "qwen2")
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, 60).tolist()
    found = []
    for threads in (1, 2, 5):
        engine = load(folder, weights_cache, "cpu-int8", threads=threads)
        engine.prefill(tokens, lambda: False)
        found.append(run(engine.backend, [7, 8, 9], [-1, 0, 1], len(tokens)).tobytes())
        engine.close()
    assert found[0] == found[1] == found[2]


@pytest.mark.ci
@pytest.mark.model
def test_a_slice_of_real_rows(real_engine: TreeEngine, real_tokenizer: Tokenizer) -> None:
    assert _bit_equal(real_engine, real_tokenizer, places=3) == 3 * 16


@pytest.mark.model
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand_real_rows(real_engine: TreeEngine, real_tokenizer: Tokenizer) -> None:
    assert _bit_equal(real_engine, real_tokenizer, places=63) == 63 * 16


def _bit_equal(engine: TreeEngine, tokenizer: Tokenizer, places: int) -> int:
    import argparse
    import asyncio.base_events
    import json.decoder

    rng = np.random.default_rng(places)
    equal = 0
    for place in range(places):
        module = (argparse, asyncio.base_events, json.decoder)[place % 3]
        ids = tokenizer.encode(Path(str(module.__file__)).read_text(encoding="utf-8"))
        length = int(rng.integers(20, 700))
        start = int(rng.integers(0, len(ids) - length - 16))
        equal += check_place(engine.backend, ids[start : start + length + 16], 16, rng)
    return equal


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
    tmp_path: Path, weights_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = Guarded()
    monkeypatch.setattr(backend, "aligned", guarded.aligned)
    engine = load(write_model(tmp_path / "model"), weights_cache, "cpu-int8", context=512, threads=2)
    chance = np.random.default_rng(0)
    for rows in (1, 2, 3, 8, 15, 16, 17, 64, 127, MAX_NODES):
        engine.prefill(chance.integers(0, WIDTH, rows).tolist(), lambda: False)
        tokens = [int(token) for token in chance.permutation(WIDTH)[:rows]]
        parents = [int(chance.integers(0, row)) if row else -1 for row in range(rows)]
        engine.step(DraftTree(tuple(tokens), tuple(parents)), top_k=4)
        assert guarded.untouched(), f"{rows} rows"
    engine.close()
