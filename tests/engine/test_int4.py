"""Weights in four bits: rounded well, unfolded exactly by every kind of instruction, by AMX's emulated tiles too."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fastcoder_lsp.engine.int4.rounding import (
    MOST,
    NEIGHBOURS,
    STEP,
    TRIES,
    pack_rows,
    round_matrix,
    unpack_rows,
    unpack_some,
)
from fastcoder_lsp.engine.int8 import packing
from fastcoder_lsp.engine.int8.backend import Int8Backend
from fastcoder_lsp.engine.int8.dot import AMX, GROUP, PLAIN, DotKind, in_four_bits, kinds_here, unfolded_bytes
from fastcoder_lsp.engine.int8.packed_file import aligned, packed_in_memory
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.stored import WeightsRequest, load_arrays
from fastcoder_lsp.engine.weights import open_weights
from tests.engine.emulated_tiles import emulated
from tests.engine.rows import run, same_bits
from tests.engine.test_kernels import product_runner
from tests.engine.tiny_models import VOCABULARY, load, make_model, shape_of

KINDS = tuple(in_four_bits(kind) for kind in kinds_here())


def name(kind: DotKind) -> str:
    return kind.name


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 33])
@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.ci) for kind in KINDS[1:])], ids=name
)
def test_products_are_those_of_whole_numbers(kind: DotKind, rows: int) -> None:
    chance = np.random.default_rng(rows)
    columns, lines = kind.vectors * LANES, 10
    bytes_MK = chance.integers(1, 256, (rows, lines * GROUP)).astype(np.uint8)
    block = aligned((lines, kind.line_bytes), np.int8)
    block[:, :columns] = chance.integers(-MOST, MOST + 1, (lines, columns))
    block.view(np.uint8)[:, columns:] = chance.integers(0, 256, block[:, columns:].shape)
    bytes_MK[0], block[:, 0], block.view(np.uint8)[:, columns : columns + 4] = 255, MOST, 0x88
    weights_NK = unpack_rows(block[None], kind).astype(np.int64)  # type: ignore[arg-type]
    assert weights_NK.min() == weights_NK[0, :8].max() == -8 * MOST
    panel = kind.panel_of(rows)
    padded = -(-rows // panel) + (32 if kind.tiled else 1)
    panels = aligned((padded, lines * GROUP // 4, panel, 4), np.uint8)
    for row in range(rows):
        panels[row // panel, :, row % panel] = bytes_MK[row].reshape(-1, 4)
    zeros, ones = np.zeros(columns, np.float32), np.ones(max(columns, rows + kind.rows), np.float32)
    sums = (weights_NK.sum(axis=1) * 128).astype(np.int32)
    unfolded = aligned((unfolded_bytes(kind, lines * GROUP),), np.int8)
    for add in (False, True):
        room = np.full((rows + kind.rows, columns), 1, np.float32)  # the last tile may be a whole one
        run_block = product_runner(kind, add=add)
        run_block(panels, block, sums, ones, ones, zeros, room[:rows], unfolded)
        expected = ((bytes_MK.astype(np.int64) - 128) @ weights_NK.T + add).astype(np.float32)
        assert np.array_equal(room[:rows], expected)


@pytest.mark.parametrize("kind", KINDS, ids=name)
def test_packed_rows_stand_for_what_was_rounded(kind: DotKind) -> None:
    weights = np.random.default_rng(1).standard_normal((kind.vectors * LANES + 5, 96)).astype(np.float32)
    steps, factors, sums, scales = round_matrix(weights)
    whole = factors.astype(np.int64).repeat(GROUP, axis=1) * steps
    assert steps.min() == -8
    assert steps.max() == 7
    packed, packed_sums, packed_scales = pack_rows(weights, kind)
    found = unpack_rows(packed, kind)
    assert np.array_equal(found[: len(weights)], whole)
    assert not found[len(weights) :].any()
    assert np.array_equal(packed_sums[: len(weights)], whole.sum(axis=1) * 128)
    assert np.array_equal(packed_sums[: len(weights)], sums * 128)
    assert np.array_equal(packed_scales[: len(weights)], scales)
    some = np.array([0, len(weights) - 1, 3, 3, 17])
    assert np.array_equal(unpack_some(packed, some, kind), whole[some])


def test_packing_in_pieces_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, found = make_model(tmp_path, "qwen2"), list[dict[str, npt.NDArray[np.generic]]]()
    shape = shape_of(folder)
    for at_once in (1, 1 << 40):
        monkeypatch.setattr(packing, "AT_ONCE", at_once)
        with open_weights(folder) as weights:
            places, pieces = packing.layout(shape, KINDS[0], "F16"), packing.pack(weights, shape, KINDS[0])
            found.append(packed_in_memory(places, pieces, lambda _share, _what: None))
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])
    for name, most in (("qkv", 1), ("gate_up", 0.75)):
        assert found[0][f"{name}.weights"].nbytes <= found[0][f"{name}.scales"].size * shape.width * most


def error_of(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """What rounding leaves of each row."""
    steps, factors, _, scales = round_matrix(weights)
    found = factors.repeat(GROUP, axis=1) * steps * scales[:, None].astype(np.float64)
    left: npt.NDArray[np.float64] = ((weights - found) ** 2).sum(axis=1)
    return left


def naive_error(row: npt.NDArray[np.float32]) -> float:
    """The same search in numpy: the least error over scales of the row, without their last adjustment."""
    first = np.abs(row).max() / (8 * MOST)
    totals = []
    for turn in range(TRIES):
        scale, total = first * (1 - float(STEP) * turn), 0.0
        for start in range(0, len(row), GROUP):
            group, errors = row[start : start + GROUP].astype(np.float64), []
            for sign in (1, -1):
                high, low = max(group.max(), 0.0), max(-group.min(), 0.0)
                holding = np.ceil(max(*((low / 8, high / 7) if sign > 0 else (high / 8, low / 7))) / scale)
                for size in {min(max(holding - below, 1), MOST) for below in range(NEIGHBOURS)}:
                    step = sign * size * scale
                    errors.append(((group - np.clip(np.rint(group / step), -8, 7) * step) ** 2).sum())
            total += min(errors)
        totals.append(total)
    return float(min(totals))


def test_rounding_is_the_search_it_says() -> None:
    chance = np.random.default_rng(5)
    weights = (chance.standard_normal((12, 256)) * np.exp(chance.standard_normal((12, 1)))).astype(np.float32)
    weights[3, :GROUP] *= 40  # a group that needs far more than the others
    found = error_of(weights)
    naive = np.array([naive_error(row) for row in weights])
    assert (found <= naive * 1.0001).all()
    assert (found >= naive * 0.9).all()
    assert not error_of(np.zeros((1, GROUP), np.float32)).any()


def test_a_model_that_has_no_groups_runs_in_eight_bits(tmp_path: Path, weights_cache: Path) -> None:
    """Rows that are no multiple of 32 cannot be grouped: int8 runs, and the notes say why."""
    engine = load(make_model(tmp_path, "qwen2", intermediate_size=112), weights_cache, "cpu-int4")
    assert engine.info.name == "cpu-int8"
    assert any("multiples of 32" in note for note in engine.info.notes)
    engine.close()


TILED = replace(AMX, name="amx-emulated", emit=PLAIN.emit)
"""A row alone takes no tiles; any CPU can run it so."""
COLUMNS, LINES = AMX.vectors * LANES, 4


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 33, 48])
def test_tiles_give_the_products_of_whole_numbers(rows: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
