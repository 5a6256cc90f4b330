"""Products with a drafter's own weights: the kernels give the integers that rounding says, for any number of rows."""

from pathlib import Path

import numpy as np
import pytest

from fastcoder_lsp.draft.base import Floats
from fastcoder_lsp.engine.int8.linear import packed_linear


def rounded(x: Floats) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], Floats]:
    """Rows as whole numbers, and their scales."""
    scales = np.abs(x).max(axis=1) / 127
    return np.rint(x / scales[:, None]).astype(np.int64), scales


@pytest.mark.parametrize(("outputs", "inputs"), [(48, 64), (211, 64), (7, 896)])
def test_a_product_is_what_rounding_says(outputs: int, inputs: int, tmp_path: Path) -> None:
    """Bytes times bytes in whole numbers, then both scales: for any rows, and where outputs fill no block."""
    draw = np.random.default_rng(outputs)
    weights = draw.normal(size=(outputs, inputs)).astype(np.float32)
    product = packed_linear(weights, tmp_path)
    whole_NK, scales_N = rounded(weights)
    for rows in (1, 3, 8, 21):
        x_TK = (draw.normal(size=(rows, inputs)) * 10.0 ** draw.integers(-3, 3, size=(rows, 1))).astype(np.float32)
        whole_TK, scales_T = rounded(x_TK)
        expected = (whole_TK @ whole_NK.T) * scales_T[:, None] * scales_N
        assert np.allclose(product(x_TK), expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max(axis=1).min()))
        exact = x_TK @ weights.T
        off = np.linalg.norm(product(x_TK) - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert off.max() < 0.05


def test_no_rows_and_rows_that_fit_no_vector(tmp_path: Path) -> None:
    """None are none; what the kernels cannot take is computed as it is."""
    weights = np.random.default_rng(1).normal(size=(9, 30)).astype(np.float32)
    x_TK = np.random.default_rng(2).normal(size=(4, 30)).astype(np.float32)
    assert np.allclose(packed_linear(weights, tmp_path)(x_TK), x_TK @ weights.T, atol=1e-5)
    assert packed_linear(np.ones((9, 32), np.float32), tmp_path)(np.zeros((0, 32), np.float32)).shape == (0, 9)
