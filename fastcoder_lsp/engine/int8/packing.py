"""Weights as int8 rows with a scale each, in the order in which the kernels read them.

Owns rounding and layout, and which matrices stand together; the files are `packed_file`'s.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int8.dot import DotKind
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.weights import EMBEDDING, NORM, Weights

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A product of every layer: `parts` (name in the file → rows) stand below each other, with `columns` each."""

    name: str
    layers: int
    parts: tuple[tuple[str, int], ...]
    columns: int

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(rows for _, rows in self.parts)


def matrices(shape: Shape) -> tuple[Matrix, ...]:
    """The products of a model, in the order in which they are stored; the head is the last, with one layer."""
    q, kv, inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.inner
    qkv = (("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv))
    gate_up = (("mlp.gate_proj", inner), ("mlp.up_proj", inner))
    return (
        Matrix("qkv", shape.layers, qkv, shape.width),
        Matrix("out", shape.layers, (("self_attn.o_proj", shape.width),), q),
        Matrix("gate_up", shape.layers, gate_up, shape.width),
        Matrix("down", shape.layers, (("mlp.down_proj", shape.width),), inner),
        Matrix("head", 1, (("", shape.vocabulary),), shape.width),
    )


def fits(shape: Shape) -> bool:
    """Whether all sizes are multiples of a vector, as the kernels want them."""
    sizes = (shape.width, shape.inner, shape.head_dim)
    return all(size % LANES == 0 for size in sizes)


def layout(shape: Shape, kind: DotKind, embedding: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """name → (type as safetensors writes it, shape) of every array of the packed form, in their order."""
    arrays: dict[str, tuple[str, tuple[int, ...]]] = {}
    for matrix in matrices(shape):
        block = kind.vectors * LANES
        blocks = -(-matrix.rows // block)
        arrays[f"{matrix.name}.weights"] = ("I8", (matrix.layers, blocks, matrix.columns // 4, block * 4))
        for part, kept in (("sums", "I32"), ("scales", "F32"), ("biases", "F32")):
            arrays[f"{matrix.name}.{part}"] = (kept, (matrix.layers, blocks * block))
    arrays["norm1"] = arrays["norm2"] = ("F32", (shape.layers, shape.width))
    arrays["norm"] = ("F32", (shape.width,))
    arrays["embedding"] = (embedding, (shape.vocabulary, shape.width))
    return arrays


def pack(weights: Weights, shape: Shape, kind: DotKind) -> Iterator[tuple[str, Array]]:
    """Every array of `layout`, or a layer's share of it, in that order; (name, what follows in it).

    Raises:
        ModelInvalidError: a tensor is missing, damaged, or of another shape.
    """
    for matrix in matrices(shape):
        packed = [_pack_layer(*_read(weights, shape, matrix, layer), kind) for layer in range(matrix.layers)]
        for index, part in enumerate(("weights", "sums", "scales", "biases")):
            for arrays in packed:
                yield f"{matrix.name}.{part}", arrays[index]
    for name, tensor in (("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")):
        for layer in range(shape.layers):
            yield name, weights.get(f"model.layers.{layer}.{tensor}.weight", shape.width).numpy()
    yield "norm", weights.get(NORM, shape.width).numpy()
    yield "embedding", embedding_rows(weights, shape)


def embedding_kind(weights: Weights, shape: Shape) -> str:
    """How embeddings are kept: as in the model where that is 16 bits wide, else as halves (error below 2^-11)."""
    kept = str(weights.raw(EMBEDDING, shape.vocabulary, shape.width).dtype)
    return "BF16" if kept == "torch.bfloat16" else "F16"


def embedding_rows(weights: Weights, shape: Shape) -> Array:
    """The embeddings as 16-bit patterns, of the kind that `embedding_kind` says."""
    rows = weights.get(EMBEDDING, shape.vocabulary, shape.width).numpy()
    if embedding_kind(weights, shape) == "BF16":
        return (rows.view(np.uint32) >> 16).astype(np.uint16)
    return rows.astype(np.float16).view(np.uint16)


def quantise(weight_NK: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Rows as whole numbers in −127…127, and each row's scale."""
    scales_N = np.maximum(np.abs(weight_NK).max(axis=1), np.float32(1e-9)) / np.float32(127)
    return np.rint(weight_NK / scales_N[:, None]).astype(np.int8), scales_N


def _read(
    weights: Weights, shape: Shape, matrix: Matrix, layer: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """A layer's matrix [N, K] and its biases [N], zero where it has none."""
    if matrix.name == "head":
        return weights.head(shape).numpy(), np.zeros(shape.vocabulary, dtype=np.float32)
    rows, biases = [], []
    for part, size in matrix.parts:
        name = f"model.layers.{layer}.{part}"
        rows.append(weights.get(f"{name}.weight", size, matrix.columns).numpy())
        bias = weights.optional(f"{name}.bias", size)
        biases.append(np.zeros(size, dtype=np.float32) if bias is None else bias.numpy())
    return np.concatenate(rows), np.concatenate(biases)


def _pack_layer(
    weight_NK: npt.NDArray[np.float32], bias_N: npt.NDArray[np.float32], kind: DotKind
) -> tuple[Array, Array, Array, Array]:
    """Rounded weights as [block][K/4][vectors][16][4], Σ w · 128, scales, biases; columns filled up with zeros."""
    rounded_NK, scales_N = quantise(weight_NK)
    count, size = rounded_NK.shape
    block = kind.vectors * LANES
    blocks = -(-count // block)
    filled = np.zeros((blocks * block, size), dtype=np.int8)
    filled[:count] = rounded_NK
    turned = filled.view(np.int32).reshape(blocks, block, size // 4).transpose(0, 2, 1)
    weights = np.ascontiguousarray(turned).view(np.int8).reshape(blocks, size // 4, block * 4)
    extra = (0, blocks * block - count)
    return weights, filled.sum(axis=1, dtype=np.int32) * np.int32(128), np.pad(scales_N, extra), np.pad(bias_N, extra)
