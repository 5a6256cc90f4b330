"""The kernels' parts against plain arithmetic, for every kind of byte product that this CPU has."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.engine.architecture import fast_shape, read_config
from fastcoder_lsp.engine.int8.backend import Int8Backend, load_arrays
from fastcoder_lsp.engine.int8.dot import DotKind, kinds_here
from fastcoder_lsp.engine.int8.packing import quantise
from fastcoder_lsp.engine.int8.selftest import exact_kind, is_exact
from tests.engine.rows import prefill, run, same_bits
from tests.engine.tiny_models import VOCABULARY, make_model


@pytest.mark.parametrize("kind", kinds_here(), ids=lambda kind: kind.name)
def test_products_are_exact(kind: DotKind) -> None:
    """The start-up test passes for all kinds."""
    assert is_exact(kind)


def test_the_first_kind_that_fits_is_chosen(tmp_path: Path) -> None:
    """Tiles want rows of 64 bytes; a model that has others runs by the next kind."""
    shape = fast_shape(read_config(make_model(tmp_path, "qwen2")))
    assert shape is not None
    assert exact_kind(shape) is kinds_here()[0]
    odd = exact_kind(replace(shape, inner=96))
    assert odd is next(kind for kind in kinds_here() if not kind.tiled)


def test_a_saturating_product_is_found_out() -> None:
    """A kind that clips its sums, as AVX2's byte products do, fails the start-up test."""
    honest = kinds_here()[-1]

    def clipped(builder: object, sums: object, w: object, x: object) -> object:
        from llvmlite import ir

        total = honest.emit(builder, sums, w, x)
        limit = ir.Constant(total.type, [32767] * total.type.count)
        return builder.select(builder.icmp_signed("<", total, limit), total, limit)  # type: ignore[attr-defined]

    assert not is_exact(DotKind("clipped", honest.lanes, honest.vectors, honest.rows, clipped))


def test_every_kind_gives_the_same_bits(tmp_path: Path, kernel_cache: Path) -> None:
    """A model's logits don't depend on the instructions that this CPU happens to have."""
    folder = make_model(tmp_path, "qwen2")
    shape = fast_shape(read_config(folder))
    assert shape is not None
    chance = np.random.default_rng(2)
    tokens = chance.integers(0, VOCABULARY, 50).tolist()
    tree = [int(chance.integers(-1, row)) if row else -1 for row in range(45)]
    found = []
    for kind in kinds_here():
        arrays = load_arrays(folder, shape, kind, str(tmp_path), kernel_cache, lambda _share, _what: None)
        backend = Int8Backend(shape, arrays, kind, capacity=256, threads=2, kernels=kernel_cache)
        prefill(backend, tokens, [20])
        parts = [run(backend, tokens[:count], tree[:count], len(tokens)) for count in (1, 2, 5, 16, 17, 32, 45)]
        found.append(np.concatenate(parts))
        backend.close()
    assert all(same_bits(found[0], other).all() for other in found)


def test_rounding_keeps_half_a_step() -> None:
    """Rows come back within half of their scale; a row of zeros stays zero."""
    weights = np.random.default_rng(0).normal(size=(9, 32)).astype(np.float32)
    weights[4] = 0
    rounded, scales = quantise(weights)
    assert np.abs(rounded * scales[:, None] - weights).max() <= scales.max() * 0.501
    assert np.abs(rounded).max(axis=1).tolist() == [127] * 4 + [0] + [127] * 4
