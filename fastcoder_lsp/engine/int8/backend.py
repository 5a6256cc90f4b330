"""The CPU backend: int8 weights, KV caches in 16 bits, kernels whose results depend only on the row.

All KV caches share the memory of weights and work. torch is needed only to read a model the first time.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from fastcoder_lsp.core import Progress
from fastcoder_lsp.core.arrays import Floats, Int64s
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.backend import Rows
from fastcoder_lsp.engine.int4.rounding import round_matrix, unpack_some
from fastcoder_lsp.engine.int8.dot import GROUP, DotKind, unfolded_bytes
from fastcoder_lsp.engine.int8.forward import PHASES, KernelShape, make_forward, make_products, move_slots
from fastcoder_lsp.engine.int8.memory import Packed, Product, Scratch, SlotMemory, VisibleSlots
from fastcoder_lsp.engine.int8.packed_file import aligned
from fastcoder_lsp.engine.int8.packing import Array, kind_of, layout, matrices
from fastcoder_lsp.engine.int8.selftest import exact_kind
from fastcoder_lsp.engine.int8.simd import LANES
from fastcoder_lsp.engine.int8.sync import STRIDE, Team
from fastcoder_lsp.engine.int8.tiles import BLOCK
from fastcoder_lsp.kernels import KernelCache, compiling
from fastcoder_lsp.model.tensors import TYPES

CHUNK = 128
_FUNCTIONS = 26  # the parameters of a compiled pass
LOGIT_ROWS = 8  # memory for logits grows in steps of so many rows


@dataclass(slots=True)
class _SharedBuffers:
    work: Scratch
    products: Any = None


class Int8Backend:
    """A backend of the CPU, bit-identical for any batch of rows and any KV cache."""

    def __init__(
        self, shape: Shape, arrays: dict[str, Array], kind: DotKind, *, capacity: int, threads: int, kernels: Path
    ) -> None:
        self.name, self.device = f"cpu-int{kind.bits}", f"cpu ({kind.name}, {counted(threads, 'thread')})"
        self.capacity, self.chunk, self.kind = capacity, CHUNK, kind
        self.threads, self._team = threads, Team(threads)
        self.use(shape, arrays)
        self.is_first = True
        heads = KernelShape.of(shape)
        self._forward = make_forward(kind, heads)
        KernelCache.attach(self._forward, lambda: kernels, f"forward-{kind.name}-{heads.name}")
        KernelCache.attach(move_slots, lambda: kernels, "move")

    def warm_up(self, progress: Progress) -> None:
        """Compile the kernels, or load them from the cache, by running one row; the KV cache is empty after."""
        with compiling(progress, "compiling kernels (first start only)", _FUNCTIONS):
            self.forward(Rows.chain([0], 0))
            self.compact(0, [1])
        self.cache.trim(0)
        progress(1.0, "warming up")

    def keep_states(self, layers: Sequence[int]) -> None:
        """Keep hidden states behind these layers from now on (`states.KeepingBackend`); empties the KV cache."""
        self.cache = SlotMemory(self._shape, self.capacity, layers)

    @property
    def kept_layers(self) -> tuple[int, ...]:
        """The layers behind which hidden states are kept."""
        return self.cache.layers

    def states(self, start: int, stop: int) -> Floats:
        """Hidden states of the slots `start`…`stop`, [slots, kept layers, E]: a view."""
        found: Floats = self.cache.states.array[start:stop]
        return found

    def embed(self, tokens: Int64s) -> Floats:
        """The embeddings of tokens, [tokens, E]."""
        return self._embed(tokens)

    def last_norm(self) -> tuple[Floats, float]:
        """The weights of the norm before the head, [E], or [2 E] for LayerNorm, and its ε."""
        return self._packed.norm_E, float(self._packed.eps)

    @property
    def touched(self) -> int:
        """Slots of the KV cache that take memory."""
        return self.cache.touched

    def another(self) -> Self:
        """Another backend over the same weights, with an empty cache."""
        other = copy(self)
        other.cache, other.is_first = SlotMemory(self._shape, self.capacity, self.cache.layers), False
        return other

    def over(self, shape: Shape, arrays: dict[str, Array]) -> Self:
        """Another backend over other weights, with the same threads and compiled pass: its heads are equally large."""
        other = self.another()
        other.use(shape, arrays)
        return other

    def use(self, shape: Shape, arrays: dict[str, Array]) -> None:
        """Switch to other weights, with caches and work memory for them."""
        self.vocabulary, self.layers, self.sublayers = shape.vocabulary, shape.layers, 2 * shape.layers
        self._shape, self._embedding_VE = shape, arrays.get("embedding")
        self._packed = _packed(shape, arrays, self.capacity)
        columns = -(-self.capacity // BLOCK) * BLOCK
        self.cache = SlotMemory(shape, self.capacity)
        self._shared = _SharedBuffers(_work(shape, self._packed, columns, self._team.threads, self.kind))

    def take(self, other: Self, start: int, stop: int) -> None:
        """Copy the slots `start`…`stop` of another backend's cache, in whole blocks."""
        self.cache.take(other.cache, start, stop)

    def bytes_of(self, slots: int) -> int:
        """Memory of the KV cache with so many slots written."""
        return self.cache.bytes_of(slots)

    def trim(self, slots: int) -> None:
        """Free the memory beyond the first `slots` where possible."""
        self.cache.trim(slots)

    def forward(self, rows: Rows) -> Floats | None:
        """Run the rows; logits of those from `logits_from` on, [R, vocabulary], valid until the next call."""
        count, wanted = len(rows), len(rows) - rows.logits_from
        self._shared.work.x_ME[:count, : self._shape.width] = self._embed(rows.tokens)
        work = self._make_room(wanted)
        self.cache.touched = max(self.cache.touched, rows.cached + count)
        self._team.run(self._forward, self._packed, self.cache.arrays, work, _places(rows, self._shape.layers))
        return work.logits_RV[:wanted, : self.vocabulary] if wanted else None

    def compact(self, cached: int, path: Sequence[int]) -> None:
        """Move the slots `cached + path[i]` to `cached + i`; `path` ascends, so the order of copying is safe."""
        moves = [(node, index) for index, node in enumerate(path) if node != index]
        if moves:
            source, target = (np.array(side, dtype=np.int64) + cached for side in zip(*moves, strict=True))
            move_slots(self.cache.arrays, source, target)

    def close(self) -> None:
        """Free the memory; the weights' too, if this is the first backend over them."""
        if self.is_first:
            self._team.close()
        del self._packed, self.cache, self._shared, self._embedding_VE

    def step_work(self, *, head: bool) -> tuple[int, int]:
        """Bytes of the matrices that a pass reads, with the `head` or without, and their numbers."""
        packed = self._packed
        products = [packed.qkv, packed.out, packed.gate_up, packed.down, *([packed.head] if head else [])]
        numbers = self._shape.weight_count - (0 if head else self._shape.vocabulary * self._shape.width)
        return sum(product.weights_LBKx.nbytes for product in products), numbers

    def run_products(self, rows: int) -> None:
        """Run a pass's products on the work memory's present content: a lower bound on a step's time."""
        if self._shared.products is None:
            self._shared.products = make_products(self.kind, KernelShape.of(self._shape))
        self._team.run(self._shared.products, self._packed, self._make_room(rows), rows)

    def _make_room(self, logits: int) -> Scratch:
        shared = self._shared
        if logits > len(shared.work.logits_RV):
            columns = len(self._packed.head.scales_LN[0])
            shared.work = shared.work._replace(logits_RV=_floats(-(-logits // LOGIT_ROWS) * LOGIT_ROWS, columns))
        shared.work.counters.fill(0)
        return shared.work

    def _embed(self, tokens: Int64s) -> Floats:
        if self._embedding_VE is None:  # the head's rows
            head = self._packed.head
            steps_TE = unpack_some(head.weights_LBKx[0], np.asarray(tokens), self.kind)
            found: Floats = steps_TE * head.scales_LN[0][tokens][:, None]
            return found
        rows = self._embedding_VE[tokens]
        if rows.dtype == np.uint16:  # bfloat16: the upper half of a float
            return (rows.astype(np.uint32) << 16).view(np.float32)
        return rows.astype(np.float32)


def _packed(shape: Shape, arrays: dict[str, Array], capacity: int) -> Packed:
    products = {
        name: Product(*(arrays[f"{name}.{part}"] for part in ("weights", "sums", "scales", "biases")))  # type: ignore[arg-type]
        for name in ("qkv", "out", "gate_up", "down", "head")
    }
    angles_CH = np.arange(capacity, dtype=np.float64)[:, None] * shape.angles_H
    return Packed(
        **products,
        norm1_LE=arrays["norm1"],  # type: ignore[arg-type]
        norm2_LE=arrays["norm2"],  # type: ignore[arg-type]
        norm_E=arrays["norm"],  # type: ignore[arg-type]
        head_norms_L2D=arrays.get("head_norms", _floats(shape.layers, 2, 0)),  # type: ignore[arg-type]
        cos_CH=np.cos(angles_CH).astype(np.float32),
        sin_CH=np.sin(angles_CH).astype(np.float32),
        eps=np.float32(shape.eps),
    )


def _work(shape: Shape, packed: Packed, columns: int, threads: int, kind: DotKind) -> Scratch:
    rows = CHUNK
    inner, heads = shape.inner, shape.heads * shape.head_dim
    narrow = max(packed.out.scales_LN.shape[1], packed.down.scales_LN.shape[1])
    # The norm is computed in the same place: it is the widest in a model of few heads and a small inner layer.
    wide = max(packed.qkv.scales_LN.shape[1], packed.gate_up.scales_LN.shape[1], narrow)
    four = max(kind_of(kind, matrix.name).four_bytes for matrix in matrices(shape))
    return Scratch(
        x_ME=_floats(rows, narrow),
        bytes_PK=aligned((rows * max(inner, shape.width, heads) * four // 4,), np.uint8),  # type: ignore[arg-type]
        scales_M=_floats(rows),
        wide_MN=_floats(rows, wide),
        query_MQ=_floats(rows, heads),
        mixed_MQ=_floats(rows, heads),
        scores_TGC=_floats(threads, shape.group, columns + BLOCK + LANES),
        logits_RV=_floats(LOGIT_ROWS, packed.head.scales_LN.shape[1]),
        unfolded_TB=aligned((threads, unfolded_bytes(kind, max(inner, shape.width, heads))), np.int8),  # type: ignore[arg-type]
        counters=np.zeros((shape.layers + 1) * PHASES * 2 * STRIDE, dtype=np.int64),
        panel=kind.panel,
    )


def _places(rows: Rows, layers: int) -> VisibleSlots:
    """The slots that each row sees: the leading contiguous ones, then the others."""
    skipped_L2 = np.zeros((layers, 2), np.int64)
    skipped_L2.ravel()[list(rows.skipped)] = 1
    cached = rows.cached
    depth = rows.depths
    if np.array_equal(rows.parents, np.arange(len(rows)) - 1):
        plain, rest_from, rest = cached + depth + 1, np.zeros(len(rows) + 1, dtype=np.int64), np.zeros(1, np.int64)
    else:
        seen = rows.ancestors()
        run = [next((i for i, row in enumerate(path) if row != i), len(path)) for path in seen]
        others = [[cached + row for row in path[first:]] for path, first in zip(seen, run, strict=True)]
        plain = cached + np.array(run, dtype=np.int64)
        rest_from = np.cumsum([0, *map(len, others)], dtype=np.int64)
        rest = np.array([slot for some in others for slot in some] or [0], dtype=np.int64)
    return VisibleSlots(cached, len(rows), rows.logits_from, cached + depth, plain, rest_from, rest, skipped_L2)


def _floats(*shape: int) -> Floats:
    return aligned(shape, np.float32)  # type: ignore[return-value]


def compile_ahead(group: int, dim: int, bits: int, kernels: Path, kind: str = "qwen2") -> None:
    """Compile a pass into `kernels` for models of a kind with so many query heads of this size to a key/value one."""
    shape = Shape(
        kind=kind,
        layers=1,
        width=group * dim,
        heads=group,
        kv_heads=1,
        head_dim=dim,
        inner=64,
        vocabulary=64,
        eps=1e-6,
        positions=64,
        angles_H=np.ones(dim // 2),
    )
    product = exact_kind(shape, kernels, bits)
    if product is None:
        return
    if bits == 4:
        round_matrix(np.zeros((1, GROUP), np.float32))  # also compiles the conversion's kernel
    arrays = {name: aligned(sizes, TYPES[what]) for name, (what, sizes) in layout(shape, product, "F16").items()}
    backend = Int8Backend(shape, arrays, product, capacity=64, threads=1, kernels=kernels)
    backend.warm_up(lambda _share, _what: None)
    backend.close()
