"""The int8 engine's promise: a row's logits are the same bits whatever else is verified, wherever, from any cache."""

from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.engine.tree_engine import TreeEngine
from fastcoder_lsp.tokenizer import Tokenizer
from tests.engine.rows import check_place, run
from tests.engine.tiny_models import VOCABULARY, load, make_model


def test_tiny_models_give_the_same_bits(tmp_path: Path, weights_cache: Path) -> None:
    """Qwen2 and Llama shapes, with groups of 2 and of 1: chains, trees, chunks and warm caches agree bit for bit."""
    rng = np.random.default_rng(0)
    for kind in ("qwen2", "llama"):
        engine = load(make_model(tmp_path / kind, kind), weights_cache, "cpu-int8", threads=2)
        for length in (1, 40, 150):
            tokens = rng.integers(0, VOCABULARY, length + 16).tolist()
            assert check_place(engine.backend, tokens, 16, rng) == 16, (kind, length)
        engine.close()


def test_threads_change_no_bit(tmp_path: Path, weights_cache: Path) -> None:
    """One thread, two, and more than there are cores give the same logits."""
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
    """Rows of three real files on the real model."""
    assert _bit_equal(real_engine, real_tokenizer, places=3) == 3 * 16


@pytest.mark.model
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand_real_rows(real_engine: TreeEngine, real_tokenizer: Tokenizer) -> None:
    """1,008 rows of real files on the real model."""
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
