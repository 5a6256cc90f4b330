"""Calibrates a model's four-bit weights on texts, layer by layer, each on the output of the layers before it.

The pass over the texts takes 32-bit floats and no torch. Each layer runs with its weights as they were rounded, so that
later layers compensate for its error.

A matrix is rounded by GPTQ (Frantar et al. 2023, algorithm 1), which minimises the error of outputs: later numbers
compensate the rounding error of earlier ones. Weights are `scale · g · q`. Groups come in the order of their inputs'
weight, the heaviest first, and a group takes the factor with the least error after all its numbers are rounded.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.arrays import Float64s, Floats, Int8s, Int64s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int4.rounding import MOST, NEIGHBOURS, Rounded, lay_out, round_matrix
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.packing import (
    Matrix,
    Piece,
    Products,
    biases,
    head_norms,
    kind_of,
    matrices,
    norm,
    quantise,
    rows_of,
)
from fastcoder_lsp.engine.int8.packing import lay_out as lay_out_bytes
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
from fastcoder_lsp.engine.weights import EMBEDDING, NORM, Weights
from fastcoder_lsp.kernels import inner, kernel

DAMPING = 0.2
"""Damping: this part of the mean diagonal is added to each diagonal element. The paper's 0.01 is for forty times as
many tokens as ours; with so few, correlations are partly chance, and were overfitted (docs/rejected.md)."""
ROWS = 4096  # rows that are rounded together, to bound their memory
_TRIED = 2 * NEIGHBOURS
_SMALL = 64  # up to so many rows a triangle is inverted at once


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """The inputs of a matrix, as `Σ x·xᵀ` over a text."""

    gram_KK: Floats  # the mean over tokens
    order_K: Int64s  # the columns in the order of rounding, whole groups
    upper_KK: Floats  # U of that order, where `UᵀU` is the inverse of the damped sum

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
    """Rows as `rounding.round_matrix` gives them, rounded for the least error of products with such inputs."""
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
    steps_BN: Int8s,
    factors_N: Int8s,
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
    steps_BN: Int8s,
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


Multiply = Callable[[Floats], Floats]
WHAT = "calibrating four-bit weights"
HEAD_ROWS = 8192  # rows of the head that are rounded together: it may be larger than all else


def calibrate(weights: Weights, shape: Shape, kind: DotKind, tokens_SC: Int64s, progress: Progress) -> Products:
    """The matrices of a model, for `packing.pack`; every product's size is a multiple of a group.

    `tokens_SC`: texts of equal length. `progress` is told layer by layer. Raises ModelInvalidError for a wrong tensor.
    """
    rounding = _Rounding(weights, kind, {matrix.name: matrix for matrix in matrices(shape)})
    turns_CH = np.arange(tokens_SC.shape[1])[:, None] * shape.angles_H
    x_SCE = np.stack([_embedded(weights, shape, tokens) for tokens in tokens_SC])
    steps = shape.layers + max(1, shape.layers // 4)  # the head takes about as long as some layers
    for layer in range(shape.layers):
        progress(layer / steps, WHAT)
        _run_layer(rounding, weights, shape, layer, x_SCE, (np.cos(turns_CH), np.sin(turns_CH)))
    progress(shape.layers / steps, WHAT)
    norm_E = norm(weights, NORM.removesuffix(".weight"), shape)
    rounding.round_head(_gram(_normed(x_CE, norm_E, shape.eps) for x_CE in x_SCE))
    return rounding.pieces


class _Rounding:
    """The matrices rounded so far, packed."""

    def __init__(self, weights: Weights, kind: DotKind, matrices: dict[str, Matrix]) -> None:
        self._weights, self._kind, self._matrices = weights, kind, matrices
        self._found = dict[tuple[str, int], list[Piece]]()

    def pieces(self, matrix: Matrix, layer: int) -> Iterator[Piece]:
        yield from self._found.pop((matrix.name, layer))

    def round(self, name: str, layer: int, gram_KK: Callable[[], Floats]) -> Multiply:
        """Round a layer's matrix; returns the product with the rounded one. `gram_KK`: of its inputs."""
        matrix = self._matrices[name]
        weight_NK = rows_of(self._weights, matrix, layer, 0, matrix.rows)
        its = kind_of(self._kind, name)
        if its.bits == 8:
            steps_NK, scales_N = quantise(weight_NK)
            self._found[name, layer] = [lay_out_bytes(steps_NK, scales_N, its)]
            whole_NK = steps_NK * scales_N[:, None]
        else:
            rounded = round_compensated(weight_NK, InputStatistics.of(gram_KK()))
            self._found[name, layer] = [lay_out(rounded, its)]
            whole_NK = _values(rounded)
        biases_N = biases(self._weights, matrix, layer, its)[: matrix.rows]
        return lambda x_MK: x_MK @ whole_NK.T + biases_N

    def round_head(self, gram_KK: Floats) -> None:
        """Round the head, which no layer follows."""
        matrix, inputs = self._matrices["head"], InputStatistics.of(gram_KK)
        block = self._kind.vectors * LANES
        each = HEAD_ROWS // block * block
        self._found["head", 0] = [
            lay_out(round_compensated(rows_of(self._weights, matrix, 0, start, start + each), inputs), self._kind)
            for start in range(0, matrix.rows, each)
        ]


def _values(rounded: Rounded) -> Floats:
    found: Floats = rounded.steps_NK * rounded.factors_NG.repeat(GROUP, axis=1) * rounded.scales_N[:, None]
    return found


def _run_layer(
    rounding: _Rounding, weights: Weights, shape: Shape, layer: int, x_SCE: Floats, turns: tuple[Float64s, Float64s]
) -> None:
    """Run one layer over all texts, adding to their states; rounds each matrix once its inputs are known."""
    stem = f"model.layers.{layer}"
    first_E, second_E = (norm(weights, f"{stem}.{name}_layernorm", shape) for name in ("input", "post_attention"))
    norms_2D = head_norms(weights, layer, shape) if shape.norms_heads else None

    def normed(weight_E: Floats) -> Iterator[Floats]:
        return (_normed(x_CE, weight_E, shape.eps) for x_CE in x_SCE)

    multiply = rounding.round("qkv", layer, lambda: _gram(normed(first_E)))
    mixed = [_attended(multiply(row_CE), shape, turns, norms_2D) for row_CE in normed(first_E)]
    multiply = rounding.round("out", layer, partial(_gram, mixed))
    for text, mixed_CQ in enumerate(mixed):
        x_SCE[text] += multiply(mixed_CQ)
    del mixed
    multiply = rounding.round("gate_up", layer, lambda: _gram(normed(second_E)))
    gated = [_gated(multiply(row_CE), shape) for row_CE in normed(second_E)]
    multiply = rounding.round("down", layer, partial(_gram, gated))
    for text, gated_CI in enumerate(gated):
        x_SCE[text] += multiply(gated_CI)


def _gram(inputs: Iterable[Floats]) -> Floats:
    total, count = np.zeros((1, 1), np.float32), 0
    for x_CK in inputs:
        total, count = total + x_CK.T @ x_CK, count + len(x_CK)
    mean: Floats = (total / np.float32(count)).astype(np.float32)
    return mean


def _embedded(weights: Weights, shape: Shape, tokens_C: Int64s) -> Floats:
    rows = [weights.rows(EMBEDDING, token, token + 1, shape.vocabulary, shape.width) for token in tokens_C.tolist()]
    return np.concatenate(rows)


def _normed(x_CE: Floats, weight_E: Floats, eps: float) -> Floats:
    size = x_CE.shape[-1]
    if len(weight_E) > size:
        x_CE = x_CE - x_CE.mean(axis=-1, keepdims=True)
        normed_CE: Floats = _normed(x_CE, weight_E[:size], eps) + weight_E[size:]
        return normed_CE
    squares_C = (x_CE * x_CE).mean(axis=-1, keepdims=True)
    found: Floats = x_CE / np.sqrt(squares_C + np.float32(eps)) * weight_E
    return found


def _attended(qkv_CN: Floats, shape: Shape, turns: tuple[Float64s, Float64s], norms_2D: Floats | None) -> Floats:
    """Causal attention: for each head of each token, the mix of the values up to it."""
    count, dim = len(qkv_CN), shape.head_dim
    heads_HCD = qkv_CN.reshape(count, -1, dim).transpose(1, 0, 2)
    parts = (shape.heads, shape.heads + shape.kv_heads)
    queries_HCD, keys_KCD, values_KCD = heads_HCD[: parts[0]], heads_HCD[parts[0] : parts[1]], heads_HCD[parts[1] :]
    if norms_2D is not None:
        queries_HCD, keys_KCD = (
            _normed(side, scales_D, shape.eps) for side, scales_D in zip((queries_HCD, keys_KCD), norms_2D, strict=True)
        )
    queries_HCD, keys_KCD = _turned(queries_HCD, turns), _turned(keys_KCD, turns)
    later_CC = np.triu(np.full((count, count), -np.inf, np.float32), 1)
    mixed = []
    for head in range(shape.heads):
        scores_CC = queries_HCD[head] @ keys_KCD[head // shape.group].T * np.float32(dim**-0.5) + later_CC
        scores_CC = np.exp(scores_CC - scores_CC.max(axis=1, keepdims=True))
        mixed.append(scores_CC @ values_KCD[head // shape.group] / scores_CC.sum(axis=1, keepdims=True))
    return np.concatenate(mixed, axis=1)


def _turned(heads_HCD: Floats, turns: tuple[Float64s, Float64s]) -> Floats:
    cos_CH, sin_CH = (side.astype(np.float32) for side in turns)
    low, high = np.split(heads_HCD, 2, axis=2)
    return np.concatenate([low * cos_CH - high * sin_CH, high * cos_CH + low * sin_CH], axis=2)


def _gated(wide_CN: Floats, shape: Shape) -> Floats:
    """The inner layer's activation: gated, or GELU by tanh."""
    if shape.starcoder:
        inner = np.float32(math.sqrt(2 / math.pi)) * (wide_CN + np.float32(0.044715) * wide_CN**3)
        plain: Floats = np.float32(0.5) * wide_CN * (1 + np.tanh(inner))
        return plain
    gate, up = wide_CN[:, : shape.inner], wide_CN[:, shape.inner :]
    found: Floats = gate / (1 + np.exp(-gate)) * up
    return found
