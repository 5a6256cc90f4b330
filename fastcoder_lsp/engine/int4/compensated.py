"""Rounding to four bits by the error of outputs: later numbers compensate the rounding error of earlier ones.

Implements GPTQ (Frantar et al. 2023, algorithm 1) for weights `scale · g · q`: groups come in the order of their
inputs' weight, the heaviest first, and a group takes the factor with the least error after all its numbers are rounded.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.engine.int4.packing import Rounded, round_matrix
from fastcoder_lsp.engine.int4.rounding import MOST, NEIGHBOURS
from fastcoder_lsp.engine.int8.dot import GROUP
from fastcoder_lsp.engine.int8.simd import (
    LANES,
    v_div,
    v_fma,
    v_load,
    v_max,
    v_min,
    v_mul,
    v_round,
    v_splat,
    v_store,
    v_sub,
)
from fastcoder_lsp.kernels import inner, kernel

Floats = npt.NDArray[np.float32]
DAMPING = 0.2
"""Damping: this part of the mean diagonal is added to each diagonal element. The paper's 0.01 is for forty times as
many tokens as ours; with so few, correlations are partly chance, and were overfitted (docs/rejected.md)."""
ROWS = 4096
"""Rows that are rounded together, to bound their memory."""
_TRIED = 2 * NEIGHBOURS
_SMALL = 64
"""Up to so many rows a triangle is inverted at once."""


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """The inputs of a matrix, as `Σ x·xᵀ` over a text.

    Attributes:
        gram_KK: the mean over tokens.
        order_K: the columns in the order of rounding, whole groups.
        upper_KK: U of that order, where `UᵀU` is the inverse of the damped sum.
    """

    gram_KK: Floats
    order_K: npt.NDArray[np.int64]
    upper_KK: Floats

    @classmethod
    def of(cls, gram_KK: Floats) -> "InputStatistics":
        """From a mean over tokens; inputs that are always zero are allowed."""
        weigh_K = np.diagonal(gram_KK)
        heaviest_first = np.argsort(-weigh_K.reshape(-1, GROUP).sum(axis=1), kind="stable")
        order_K = (heaviest_first[:, None] * GROUP + np.arange(GROUP)).reshape(-1)
        damped_KK = gram_KK[np.ix_(order_K, order_K)]
        damped_KK[np.diag_indices(len(damped_KK))] += max(DAMPING * float(weigh_K.mean()), 1e-8)
        # In reversed order, H = J(LLᵀ)J = MMᵀ where M = JLJ is an upper triangle: U is its inverse.
        lower_KK = np.linalg.cholesky(damped_KK[::-1, ::-1])
        return cls(gram_KK, order_K, _inverse_of_upper(np.ascontiguousarray(lower_KK[::-1, ::-1])))


def round_compensated(weight_NK: Floats, inputs: InputStatistics) -> Rounded:
    """Rows as `packing.round_matrix` gives them, rounded for the least error of products with such inputs."""
    parts = [_round_some(weight_NK[start : start + ROWS], inputs) for start in range(0, len(weight_NK), ROWS)]
    return Rounded(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _round_some(weight_NK: Floats, inputs: InputStatistics) -> Rounded:
    count, size = weight_NK.shape
    importance_K = np.ascontiguousarray(np.diagonal(inputs.gram_KK)) + np.float32(1e-8)
    scales_N = np.zeros(-(-count // LANES) * LANES, np.float32)
    scales_N[:count], scales_N[count:] = round_matrix(weight_NK, importance_K).scales_N, 1
    left_KN = np.zeros((size, len(scales_N)), np.float32)
    left_KN[:, :count] = weight_NK.T[inputs.order_K]
    steps_KN = np.empty(left_KN.shape, np.int8)
    factors_GN = np.empty((size // GROUP, len(scales_N)), np.int8)
    errors_BN, room = np.empty((GROUP, len(scales_N)), np.float32), np.empty((GROUP + 2 * _TRIED, LANES), np.float32)
    for group, start in enumerate(range(0, size, GROUP)):
        stop = start + GROUP
        upper_BB = np.ascontiguousarray(inputs.upper_KK[start:stop, start:stop])
        _round_group(left_KN[start:stop], upper_BB, scales_N, steps_KN[start:stop], factors_GN[group], errors_BN, room)
        if stop < size:
            left_KN[stop:] -= inputs.upper_KK[start:stop, stop:].T @ errors_BN
    steps_NK, factors_NG = np.empty((count, size), np.int8), np.empty((count, size // GROUP), np.int8)
    steps_NK[:, inputs.order_K] = steps_KN.T[:count]
    factors_NG[:, inputs.order_K[::GROUP] // GROUP] = factors_GN.T[:count]
    whole_NK = (factors_NG.repeat(GROUP, axis=1) * steps_NK).astype(np.float32)
    return Rounded(
        steps_NK, factors_NG, whole_NK.sum(axis=1).astype(np.int32), _best_scales(weight_NK, whole_NK, inputs.gram_KK)
    )


def _best_scales(weight_NK: Floats, whole_NK: Floats, gram_KK: Floats) -> Floats:
    """The scales with the least error of products, for the weights by `whole_NK`."""
    seen_NK = whole_NK @ gram_KK
    across_N, square_N = (seen_NK * weight_NK).sum(axis=1), (seen_NK * whole_NK).sum(axis=1)
    found: Floats = np.where(square_N > 0, across_N / np.where(square_N > 0, square_N, 1), 1e-9).astype(np.float32)
    return found


def _inverse_of_upper(upper_KK: Floats) -> Floats:
    """Invert by halves: numpy has no solver for triangles."""
    size = len(upper_KK)
    if size <= _SMALL:
        small: Floats = np.triu(np.linalg.inv(upper_KK)).astype(np.float32)
        return small
    half = size // 2
    found = np.zeros_like(upper_KK)
    found[:half, :half], found[half:, half:] = (
        _inverse_of_upper(upper_KK[:half, :half]),
        _inverse_of_upper(upper_KK[half:, half:]),
    )
    found[:half, half:] = -(found[:half, :half] @ upper_KK[:half, half:]) @ found[half:, half:]
    return found


@kernel
def _round_group(
    weights_BN: Floats,
    upper_BB: Floats,
    scales_N: Floats,
    steps_BN: npt.NDArray[np.int8],
    factors_N: npt.NDArray[np.int8],
    errors_BN: Floats,
    room: Floats,
) -> None:
    """Round a group of all rows, 16 rows side by side; `errors_BN`: each number's error, over U's diagonal."""
    for first in range(0, weights_BN.shape[1], LANES):
        at = first * 4
        zero = v_splat(np.float32(0))
        highest, lowest = zero, zero
        for number in range(GROUP):
            values = v_load(weights_BN[number].ctypes.data + at)
            highest, lowest = v_max(highest, values), v_max(lowest, v_sub(zero, values))
        v_store(room[0].ctypes.data, highest)
        v_store(room[1].ctypes.data, lowest)
        _factors(room, scales_N[first : first + LANES])
        for tried in range(_TRIED):
            factors = room[GROUP + tried].ctypes.data
            loss = _walk(weights_BN, upper_BB, scales_N.ctypes.data + at, factors, at, room, errors_BN, steps_BN, False)
            v_store(room[GROUP + _TRIED + tried].ctypes.data, loss)
        for lane in range(LANES):
            best = 0
            for tried in range(1, _TRIED):
                if room[GROUP + _TRIED + tried, lane] < room[GROUP + _TRIED + best, lane]:
                    best = tried
            room[GROUP, lane] = room[GROUP + best, lane]
            factors_N[first + lane] = np.int8(room[GROUP, lane])
        chosen = room[GROUP].ctypes.data
        _walk(weights_BN, upper_BB, scales_N.ctypes.data + at, chosen, at, room, errors_BN, steps_BN, True)


@inner
def _factors(room: Floats, scales: Floats) -> None:
    """The candidate factors of 16 rows whose largest numbers are in `room`: those of `rounding`."""
    for lane in range(LANES):
        highest, lowest = room[0, lane], room[1, lane]
        for sign in range(2):
            long, short = (lowest, highest) if sign == 0 else (highest, lowest)
            holding = np.ceil(max(long * np.float32(1 / 8), short * np.float32(1 / 7)) / scales[lane])
            for below in range(NEIGHBOURS):
                size = min(max(holding - np.float32(below), np.float32(1)), np.float32(MOST))
                room[GROUP + sign * NEIGHBOURS + below, lane] = size if sign == 0 else -size


@inner
def _walk(
    weights_BN: Floats,
    upper_BB: Floats,
    scales: int,
    factors: int,
    at: int,
    room: Floats,
    errors_BN: Floats,
    steps_BN: npt.NDArray[np.int8],
    keep: bool,
) -> Any:
    """Round a group's numbers one after the other, spreading each error over later ones; returns the sum of squares."""
    step = v_mul(v_load(scales), v_load(factors))
    low, high, loss = v_splat(np.float32(-8)), v_splat(np.float32(7)), v_splat(np.float32(0))
    for number in range(GROUP):
        v_store(room[number].ctypes.data, v_load(weights_BN[number].ctypes.data + at))
    for number in range(GROUP):
        value = v_load(room[number].ctypes.data)
        q = v_min(v_max(v_round(v_div(value, step)), low), high)
        error = v_mul(v_sub(value, v_mul(q, step)), v_splat(np.float32(1) / upper_BB[number, number]))
        loss = v_fma(error, error, loss)
        if keep:
            v_store(errors_BN[number].ctypes.data + at, error)
            v_store(room[number].ctypes.data, q)
            for lane in range(LANES):
                steps_BN[number, at // 4 + lane] = np.int8(room[number, lane])
        away = v_sub(v_splat(np.float32(0)), error)
        for behind in range(number + 1, GROUP):
            place = room[behind].ctypes.data
            v_store(place, v_fma(away, v_splat(upper_BB[number, behind]), v_load(place)))
    return loss
