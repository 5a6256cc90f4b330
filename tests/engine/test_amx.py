"""AMX's path on CPUs without it: the code that is generated, run on tiles in numpy, gives the integers of all kinds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.engine.int4.packing import unpack_rows
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import AMX, GROUP, PLAIN, in_four_bits, unfolded_bytes
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from tests.engine.emulated_tiles import emulated
from tests.engine.rows import run, same_bits
from tests.engine.test_kernels import product_runner
from tests.engine.tiny_models import VOCABULARY, make_model, shape_of

TILED = replace(AMX, name="amx-emulated", emit=PLAIN.emit)
"""A row alone takes no tiles; any CPU can run it so."""
COLUMNS, LINES = AMX.vectors * LANES, 4


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 33, 48])
def test_products_are_those_of_whole_numbers(rows: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, chance = TILED if bits == 8 else in_four_bits(TILED), np.random.default_rng(rows)
    size = LINES * GROUP
    room = -(-rows // 32) * 32
    bytes_MK = aligned((room, size // 4, 1, 4), np.uint8)
    bytes_MK[:] = chance.integers(1, 256, bytes_MK.shape)
    bytes_MK[0] = 255
    if bits == 8:
        weights_NK = chance.integers(-127, 128, (COLUMNS, size)).astype(np.int8)
        weights_NK[0] = 127
        block = aligned((size // 4, COLUMNS, 4), np.int8)
        block[:] = weights_NK.reshape(COLUMNS, size // 4, 4).transpose(1, 0, 2)
    else:
        block = aligned((LINES, kind.line_bytes), np.int8)
        block[:, :COLUMNS] = chance.integers(-15, 16, (LINES, COLUMNS))
        block.view(np.uint8)[:, COLUMNS:] = chance.integers(0, 256, block[:, COLUMNS:].shape)
        weights_NK = unpack_rows(block[None], kind)  # type: ignore[arg-type]
    zeros, ones = np.zeros(COLUMNS, np.int32), np.ones(max(COLUMNS, room), np.float32)
    unfolded = aligned((unfolded_bytes(kind, size),), np.int8)
    expected = bytes_MK.reshape(room, size)[:rows].astype(np.int64) @ weights_NK.T.astype(np.int64)
    with emulated(monkeypatch) as done:
        for add in (False, True):
            out = np.full((room, COLUMNS), 1, np.float32)
            product_runner(kind, add=add)(
                bytes_MK, block, zeros, ones, ones, zeros.view(np.float32), out[:rows], unfolded
            )
            assert np.array_equal(out[:rows], (expected + add).astype(np.float32))
            assert (out[rows:] == 1).all()
    assert done.get("tdpbusd", 0) == (0 if rows == 1 else 2 * AMX.vectors * -(-rows // 16) * (size // 64))
    assert done["ldtilecfg"] == done["tilerelease"] == 2


@pytest.mark.ci
def test_a_model_says_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_model(tmp_path, "qwen2")
    shape = shape_of(folder)
    chance = np.random.default_rng(6)
    tokens = chance.integers(0, VOCABULARY, 60).tolist()
    tree = [int(chance.integers(-1, row)) if row else -1 for row in range(40)]
    found = []
    with emulated(monkeypatch) as done:
        for kind in (PLAIN, TILED):
            used = in_four_bits(kind)
            arrays = load_arrays(WeightsRequest(folder, shape, used, kind.name, tmp_path), lambda _share, _what: None)
            kernels = tmp_path / f"kernels-{kind.name}"  # code that names places in this process is for no other one
            backend = Int8Backend(shape, arrays, used, capacity=128, threads=2, kernels=kernels)
            chain = run(backend, tokens[:19], list(range(-1, 18)), 0)
            parts = [chain, run(backend, tokens[19:20], [-1], 19), run(backend, tokens[20:], tree, 20)]
            found.append(np.concatenate(parts))
            backend.close()
    assert done["tdpbusd"] > 0
    assert same_bits(*found).all()
