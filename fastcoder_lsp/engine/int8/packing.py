"""Weights as whole numbers with a scale for each row, in the order in which the kernels read them.

`int4.rounding` rounds to four bits; `packed_file` reads and writes the files. Weights pass through in a stream, so that
only a few unpacked rows of a model are ever in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from fastcoder_lsp.core.arrays import Floats, Int8s, Int32s
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.int4 import rounding as int4
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.weights import EMBEDDING, NORM, Weights

Array = npt.NDArray[np.generic]

IN_HEAD = "head"  # instead of a type of numbers: the head's rows serve as embeddings, and are stored only there
ALIKE = 0.01
"""Relative squared difference of two roundings of a row, up to which they count as equal: the error of four bits."""
AT_ONCE = 1 << 18
"""Numbers that are rounded together: they stay in a core's own cache, and packing takes hardly any memory."""


IN_BYTES = ("qkv", "out")
"""Matrices that stay in eight bits where others have four: attention's are a tenth of the bytes, and account for nearly
half of the loss of four bits (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A product of every layer: `parts` (name in the file → rows) are stacked, with `columns` each."""

    name: str
    layers: int
    parts: tuple[tuple[str, int], ...]
    columns: int

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(rows for _, rows in self.parts)


def matrices(shape: Shape) -> tuple[Matrix, ...]:
    """The products of a model, in storage order; the head is the last, with one layer."""
    q, kv, inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.inner
    qkv = (("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv))
    gates, down = (("c_fc",), "c_proj") if shape.starcoder else (("gate_proj", "up_proj"), "down_proj")
    gate_up = tuple((f"mlp.{gate}", inner) for gate in gates)
    return (
        Matrix("qkv", shape.layers, qkv, shape.width),
        Matrix("out", shape.layers, (("self_attn.o_proj", shape.width),), q),
        Matrix("gate_up", shape.layers, gate_up, shape.width),
        Matrix("down", shape.layers, ((f"mlp.{down}", shape.width),), inner),
        Matrix("head", 1, (("", shape.vocabulary),), shape.width),
    )


def kind_of(kind: DotKind, name: str) -> DotKind:
    """The kind of a matrix's products, in a model of this kind."""
    return kind.in_bytes if kind.in_bytes is not None and name in IN_BYTES else kind


def fits(shape: Shape, bits: int = 8) -> bool:
    """Whether all sizes are multiples of a vector, as the kernels require; for four bits, of a group."""
    sizes = (shape.width, shape.inner, shape.head_dim)
    groups = bits == 8 or not any(matrix.columns % GROUP for matrix in matrices(shape))
    return groups and all(size % LANES == 0 for size in sizes)


def layout(shape: Shape, kind: DotKind, embedding: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """name → (type as safetensors writes it, shape) of every array of the packed form, in their order."""
    arrays: dict[str, tuple[str, tuple[int, ...]]] = {}
    for matrix in matrices(shape):
        its = kind_of(kind, matrix.name)
        block = its.vectors * LANES
        blocks = -(-matrix.rows // block)
        arrays[f"{matrix.name}.weights"] = ("I8", (matrix.layers, blocks, matrix.columns // its.line, its.line_bytes))
        for part, kept in (("sums", "I32"), ("scales", "F32"), ("biases", "F32")):
            arrays[f"{matrix.name}.{part}"] = (kept, (matrix.layers, blocks * block))
    arrays["norm1"] = arrays["norm2"] = ("F32", (shape.layers, shape.norm_size))
    arrays["norm"] = ("F32", (shape.norm_size,))
    if shape.norms_heads:
        arrays["head_norms"] = ("F32", (shape.layers, 2, shape.head_dim))
    if embedding != IN_HEAD:
        arrays["embedding"] = (embedding, (shape.vocabulary, shape.width))
    return arrays


def memory_bytes(shape: Shape, kind: DotKind) -> int:
    """Memory of the packed form; embeddings stay on the disk."""
    arrays = layout(shape, kind, "F16")
    del arrays["embedding"]
    return sum((1 if what == "I8" else 4) * prod(sizes) for what, sizes in arrays.values())


Piece = tuple[Array, Array, Array]  # packed rows of a matrix in whole blocks, Σ w·128 of each, and their scales
Products = Callable[[Matrix, int], Iterable[Piece]]
"""A matrix of a layer in such pieces, from its first row to the last."""


def pack(
    weights: Weights, shape: Shape, kind: DotKind, products: Products | None = None, *, in_head: bool = False
) -> Iterator[tuple[str, Array]]:
    """Every array of `layout`, a few rows at a time, in that order; (name, its next piece).

    `kind` determines the order of the bytes. `products`: the matrices, if they were rounded already. `in_head`: leave
    out embeddings, since they are the head's rows. Raises ModelInvalidError for a wrong tensor.
    """

    def rounded_here(matrix: Matrix, layer: int) -> Iterator[Piece]:
        its = kind_of(kind, matrix.name)
        for weight_NK in _by_blocks(weights, matrix, layer, its):
            yield (pack_rows if its.bits == 8 else int4.pack_rows)(weight_NK, its)

    for matrix in matrices(shape):
        rest: dict[str, list[Array]] = {"sums": [], "scales": [], "biases": []}  # they follow the weights in the file
        for layer in range(matrix.layers):
            for packed, sums_N, scales_N in (products or rounded_here)(matrix, layer):
                rest["sums"].append(sums_N)
                rest["scales"].append(scales_N)
                yield f"{matrix.name}.weights", packed
            rest["biases"].append(biases(weights, matrix, layer, kind_of(kind, matrix.name)))
        yield from ((f"{matrix.name}.{part}", np.concatenate(arrays)) for part, arrays in rest.items())
    for name, tensor in (("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")):
        for layer in range(shape.layers):
            yield name, norm(weights, f"model.layers.{layer}.{tensor}", shape)
    yield "norm", norm(weights, NORM.removesuffix(".weight"), shape)
    for layer in range(shape.layers) if shape.norms_heads else ():
        yield "head_norms", head_norms(weights, layer, shape)
    for rows in () if in_head else _embedding_rows(weights, shape):
        yield "embedding", rows


def norm(weights: Weights, name: str, shape: Shape) -> Floats:
    """The scales of a norm, followed by the offsets of a LayerNorm, [`norm_size`]."""
    scales_E = weights.array(f"{name}.weight", shape.width)
    return np.concatenate([scales_E, weights.array(f"{name}.bias", shape.width)]) if shape.starcoder else scales_E


def head_norms(weights: Weights, layer: int, shape: Shape) -> Floats:
    """The scales of a layer's queries and keys, [2, head_dim]."""
    stem = f"model.layers.{layer}.self_attn"
    return np.stack([weights.array(f"{stem}.{side}_norm.weight", shape.head_dim) for side in "qk"])


def embedding_kind(weights: Weights, shape: Shape, kind: DotKind) -> str:
    """The type of stored embeddings: the model's if that is bfloat16, else halves (error below 2^-11).

    Four-bit models whose head's rows are the embeddings read those: that loses nothing measurable (docs/benchmarks.md).
    """
    if kind.bits == 4 and _is_in_head(weights, shape):
        return IN_HEAD
    return _precision(weights, shape)


def _is_in_head(weights: Weights, shape: Shape) -> bool:
    """Whether the head's rows are the embeddings: the same tensor, or, in a GGUF, the same rounded in two ways.

    Checks every row: a model tuned for adaptive tokens may differ only in theirs.
    """
    head = weights.head_name()
    if head == EMBEDDING:
        return True
    each = max(1, AT_ONCE // shape.width)
    for start in range(0, shape.vocabulary, each):
        ours, theirs = (
            weights.rows(name, start, min(shape.vocabulary, start + each), shape.vocabulary, shape.width)
            for name in (head, EMBEDDING)
        )
        if not (np.square(ours - theirs).sum(axis=1) <= ALIKE * np.square(theirs).sum(axis=1)).all():
            return False
    return True


def _precision(weights: Weights, shape: Shape) -> str:
    return "BF16" if weights.kind(EMBEDDING, shape.vocabulary, shape.width) == "BF16" else "F16"


def quantise(weight_NK: Floats) -> tuple[Int8s, Floats]:
    """Rows as whole numbers in −127…127, and each row's scale."""
    peaks_N = np.maximum(weight_NK.max(axis=1), -weight_NK.min(axis=1))
    scales_N = np.maximum(peaks_N, np.float32(1e-9)) / np.float32(127)
    rounded_NK = weight_NK / scales_N[:, None]
    return np.rint(rounded_NK, out=rounded_NK).astype(np.int8), scales_N


def pack_rows(weight_NK: Floats, kind: DotKind) -> tuple[Int8s, Int32s, Floats]:
    """Rounded weights as [block][K/4][vectors][16][4], Σ w · 128, scales; the last block is padded with zeros.

    [block][K/8][vectors][16][8], if `kind` takes eight bytes of a column.
    """
    return lay_out(*quantise(weight_NK), kind)


def lay_out(rounded_NK: Int8s, scales_N: Floats, kind: DotKind) -> tuple[Int8s, Int32s, Floats]:
    """As `pack_rows`, for rows that are rounded already."""
    count, size = rounded_NK.shape
    block = kind.vectors * LANES
    blocks = -(-count // block)
    extra = (0, blocks * block - count)
    filled = np.pad(rounded_NK, (extra, (0, 0))) if extra[1] else rounded_NK
    some = filled.view(np.int32 if kind.line == 4 else np.int64).reshape(blocks, block, size // kind.line)
    weights = np.ascontiguousarray(some.transpose(0, 2, 1)).view(np.int8).reshape(blocks, size // kind.line, -1)
    return weights, filled.sum(axis=1, dtype=np.int32) * np.int32(128), np.pad(scales_N, extra)


def biases(weights: Weights, matrix: Matrix, layer: int, kind: DotKind) -> Floats:
    """A layer's biases, zero if it has none, padded with zeros to a whole block."""
    block = kind.vectors * LANES
    biases_N = np.zeros(-(-matrix.rows // block) * block, dtype=np.float32)
    first = 0
    for part, rows in matrix.parts if matrix.name != "head" else ():
        found = weights.optional_array(f"model.layers.{layer}.{part}.bias", rows)
        if found is not None:
            biases_N[first : first + rows] = found
        first += rows
    return biases_N


def rows_of(weights: Weights, matrix: Matrix, layer: int, start: int, stop: int) -> Floats:
    """The rows of a layer's matrix in this range."""
    first, found = 0, list[Floats]()
    for part, rows in matrix.parts:
        name = weights.head_name() if matrix.name == "head" else f"model.layers.{layer}.{part}.weight"
        if first < stop and start < first + rows:
            inside = max(0, start - first), min(rows, stop - first)
            found.append(weights.rows(name, *inside, rows, matrix.columns))
        first += rows
    return found[0] if len(found) == 1 else np.concatenate(found)


def _by_blocks(weights: Weights, matrix: Matrix, layer: int, kind: DotKind) -> Iterator[Floats]:
    """A matrix from its first row to the last, in whole blocks of columns of the product, a few rows at a time."""
    block = kind.vectors * LANES
    each = max(1, AT_ONCE // (matrix.columns * block)) * block
    for start in range(0, matrix.rows, each):
        yield rows_of(weights, matrix, layer, start, min(matrix.rows, start + each))


def _embedding_rows(weights: Weights, shape: Shape) -> Iterator[Array]:
    """The embeddings as 16-bit patterns of the type of `_precision`."""
    as_they_are = _precision(weights, shape) == "BF16"
    each = max(1, AT_ONCE // shape.width)
    for start in range(0, shape.vocabulary, each):
        stop = min(shape.vocabulary, start + each)
        rows = weights.rows(EMBEDDING, start, stop, shape.vocabulary, shape.width)
        if as_they_are:
            yield (rows.view(np.uint32) >> 16).astype(np.uint16)
        else:
            yield rows.astype(np.float16).view(np.uint16)
