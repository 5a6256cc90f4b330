"""Calibrates a model's four-bit weights on texts, layer by layer, each on the output of the layers before it.

Runs the pass over the texts in 32-bit floats and without torch. Each layer runs with its weights as they were rounded,
so that the layers behind make up for its error.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core import Progress
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int4.compensated import InputStatistics, round_compensated
from fastcoder_lsp.engine.int4.packing import Rounded, lay_out
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
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.weights import EMBEDDING, NORM, Weights

Floats = npt.NDArray[np.float32]
Multiply = Callable[[Floats], Floats]
WHAT = "calibrating four-bit weights"
HEAD_ROWS = 8192
"""Rows of the head that are rounded together: it may be larger than all else."""


def calibrate(
    weights: Weights, shape: Shape, kind: DotKind, tokens_SC: npt.NDArray[np.int64], progress: Progress
) -> Products:
    """The matrices of a model, for `packing.pack`.

    Args:
        weights: of the model.
        shape: its sizes; every product's is a multiple of a group.
        kind: of the products.
        tokens_SC: texts of equal length.
        progress: receives the progress, layer by layer.

    Raises:
        ModelInvalidError: a tensor is missing, damaged, or of another shape.
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
        """Return a matrix's rounded rows, and drop them."""
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
    """The numbers that rounded rows represent."""
    found: Floats = rounded.steps_NK * rounded.factors_NG.repeat(GROUP, axis=1) * rounded.scales_N[:, None]
    return found


def _run_layer(
    rounding: _Rounding,
    weights: Weights,
    shape: Shape,
    layer: int,
    x_SCE: Floats,
    turns: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
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
    """The mean over all tokens of the products of every two inputs."""
    total, count = np.zeros((1, 1), np.float32), 0
    for x_CK in inputs:
        total, count = total + x_CK.T @ x_CK, count + len(x_CK)
    mean: Floats = (total / np.float32(count)).astype(np.float32)
    return mean


def _embedded(weights: Weights, shape: Shape, tokens_C: npt.NDArray[np.int64]) -> Floats:
    rows = [weights.rows(EMBEDDING, token, token + 1, shape.vocabulary, shape.width) for token in tokens_C.tolist()]
    return np.concatenate(rows)


def _normed(x_CE: Floats, weight_E: Floats, eps: float) -> Floats:
    """RMSNorm, or LayerNorm if offsets follow the scales."""
    size = x_CE.shape[-1]
    if len(weight_E) > size:
        x_CE = x_CE - x_CE.mean(axis=-1, keepdims=True)
        normed_CE: Floats = _normed(x_CE, weight_E[:size], eps) + weight_E[size:]
        return normed_CE
    squares_C = (x_CE * x_CE).mean(axis=-1, keepdims=True)
    found: Floats = x_CE / np.sqrt(squares_C + np.float32(eps)) * weight_E
    return found


def _attended(
    qkv_CN: Floats,
    shape: Shape,
    turns: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    norms_2D: Floats | None,
) -> Floats:
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


def _turned(heads_HCD: Floats, turns: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]) -> Floats:
    """Rotate heads by their positions, halves against each other."""
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
