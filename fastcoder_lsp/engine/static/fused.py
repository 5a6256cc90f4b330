"""The layer's small work in Triton: one kernel where torch launches four, and attention that splits the KV cache.

Owns the launches; the kernels are in `triton_kernels`, `triton_best` and `triton_follow`. Needs Triton and a GPU;
`kernels` says the same in torch. At batch one a step is hundreds of launches of a microsecond's work each, so their
number decides (`docs/gpu.md`).

Legend: T rows, E width, H query heads, K key/value heads, G query heads of a group, D head dimension, I inner width,
S splits of the KV cache, R folded rows (G·T), N output columns, V vocabulary, C chunks of it.
"""

import torch

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static import triton_best, triton_follow, triton_kernels
from fastcoder_lsp.engine.static.attention import TreeView
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.kernels import TorchKernels
from fastcoder_lsp.engine.static.step_io import Inputs, Outputs
from fastcoder_lsp.engine.static.top import CHUNK
from fastcoder_lsp.engine.static.triton_order import launch_order
from fastcoder_lsp.engine.static.weights import Norm

MOST_ROWS = 128
"""Rows above which torch's attention is taken: prefill chunks."""
TILE = 64
"""Slots that attention looks at in one go."""


def fits(shape: Shape) -> bool:
    """Whether the kernels can run a model: their tiles want a head dimension that is a power of two."""
    return shape.head_dim >= 16 and shape.head_dim & (shape.head_dim - 1) == 0


class FusedKernels:
    """`Kernels` in Triton.

    Args:
        plain: tables and shape are taken from it, and what is not worth a kernel of its own.
        units: multiprocessors of the GPU; attention is split into about two pieces for each.
        overlapped: by programmatic dependent launch, which Triton and the GPU must have.
    """

    def __init__(self, plain: TorchKernels, units: int, *, overlapped: bool = False) -> None:
        self._plain, self._shape, self._units = plain, plain.shape, units
        self._order = launch_order(overlapped=overlapped)
        self._arrived = torch.zeros(1, dtype=torch.int32, device=plain.cos_CD.device)

    def add_norm(self, x_TE: torch.Tensor, change_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """Add `change_TE` to `x_TE`, in place, and return the norm of the sum."""
        return self._norm(x_TE, change_TE, norm)

    def norm(self, x_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """The norm of the rows."""
        return self._norm(x_TE, None, norm)

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Rotate queries and keys, store keys and values, and mix the values that each row sees: [T, H·D]."""
        shape, plain, width = self._shape, self._plain, len(qkv)
        keys_KCD, values_KCD = cache.layer(layer, view.bucket)
        q_THD = torch.empty(width, shape.heads, shape.head_dim, dtype=qkv.dtype, device=qkv.device)
        triton_kernels.rotate_store[(width, shape.heads + 2 * shape.kv_heads)](
            qkv,
            plain.cos_CD,
            plain.sin_CD,
            view.inputs.positions_T,
            view.inputs.slots_T,
            q_THD,
            keys_KCD,
            values_KCD,
            keys_KCD.stride(0),
            shape.heads,
            shape.kv_heads,
            HALF=shape.head_dim // 2,
            **self._order,
        )
        if width > MOST_ROWS:
            return plain.attention.mix(layer, q_THD, cache, view)
        return self._mix(q_THD, keys_KCD, values_KCD, view)

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        """The inner layer's activation, [T, I]: gated or not, as the model is."""
        width, gated = len(inner), not self._shape.starcoder
        columns = self._shape.inner
        out_TI = torch.empty(width, columns, dtype=inner.dtype, device=inner.device)
        block = 1024
        triton_kernels.activate[(width, -(-columns // block))](
            inner, out_TI, columns, GATED=gated, BLOCK=block, **self._order
        )
        return out_TI

    def say(self, logits_TV: torch.Tensor, said_T: torch.Tensor) -> None:
        """Write the best id of every row, the first of equals."""
        self._best(logits_TV, said_T[:, None], None)

    def best(self, logits_TV: torch.Tensor, ids_TK: torch.Tensor, values_TK: torch.Tensor) -> None:
        """Write the K best ids and logits of every row, best first, equal ones by id."""
        self._best(logits_TV, ids_TK, values_TK)

    def follow(self, outputs: Outputs, inputs: Inputs, cache: StaticCache) -> None:
        """Walk down the tree by what the rows say, move what is accepted behind the cached text, and write the path."""
        triton_follow.follow_rows[(1,)](*_following(outputs, inputs, cache), **self._order)

    def conclude(
        self, logits_TV: torch.Tensor, outputs: Outputs, inputs: Inputs, cache: StaticCache, *, best: bool
    ) -> None:
        """What every row says, greedily, and `follow`; with `best` its best ids and logits too."""
        highest_TC = self._highest(logits_TV)
        ids_TK = outputs.ids_TK if best else outputs.said_T[:, None]
        triton_best.conclude_rows[(len(logits_TV),)](
            logits_TV,
            highest_TC,
            ids_TK,
            outputs.logits_TK if best else ids_TK,
            self._arrived,
            *_following(outputs, inputs, cache),
            logits_TV.shape[1],
            highest_TC.shape[1],
            COUNT=ids_TK.shape[1],
            VALUED=best,
            CHUNKS=1 << (highest_TC.shape[1] - 1).bit_length(),
            CHUNK=CHUNK,
            **self._order,
        )

    def _highest(self, logits_TV: torch.Tensor) -> torch.Tensor:
        """One look at all logits: the highest of every chunk, [T, C], as `triton_best.ascending` has them."""
        width, vocabulary = logits_TV.shape
        chunks, group = -(-vocabulary // CHUNK), 32
        highest_TC = torch.empty(width, chunks, dtype=torch.int32, device=logits_TV.device)
        triton_best.chunk_best[(width, -(-chunks // group))](
            logits_TV, highest_TC, vocabulary, chunks, GROUP=group, CHUNK=CHUNK, **self._order
        )
        return highest_TC

    def _best(self, logits_TV: torch.Tensor, ids_TK: torch.Tensor, values_TK: torch.Tensor | None) -> None:
        """One look at all logits, then one at the few chunks that hold the best."""
        highest_TC = self._highest(logits_TV)
        width, chunks = highest_TC.shape
        triton_best.best_rows[(width,)](
            logits_TV,
            highest_TC,
            ids_TK,
            ids_TK if values_TK is None else values_TK,
            logits_TV.shape[1],
            chunks,
            COUNT=ids_TK.shape[1],
            VALUED=values_TK is not None,
            CHUNKS=1 << (chunks - 1).bit_length(),
            CHUNK=CHUNK,
            **self._order,
        )

    def _norm(self, x_TE: torch.Tensor, change_TE: torch.Tensor | None, norm: Norm) -> torch.Tensor:
        out_TE = torch.empty_like(x_TE)
        width = x_TE.shape[1]
        triton_kernels.add_norm[(len(x_TE),)](
            x_TE,
            x_TE if change_TE is None else change_TE,
            out_TE,
            norm.scale_E,
            norm.scale_E if norm.offset_E is None else norm.offset_E,
            width,
            self._shape.eps,
            ADD=change_TE is not None,
            CENTRED=norm.offset_E is not None,
            BLOCK=1 << (width - 1).bit_length(),
            num_warps=8 if width > 2048 else 4,
            **self._order,
        )
        return out_TE

    def _mix(
        self, q_THD: torch.Tensor, keys_KCD: torch.Tensor, values_KCD: torch.Tensor, view: TreeView
    ) -> torch.Tensor:
        """Attention in two kernels: every split of the slots by itself, then all splits together."""
        shape, width = self._shape, len(q_THD)
        rows = shape.group * width
        block = min(max(16, 1 << (rows - 1).bit_length()), 64)
        blocks = -(-rows // block)
        tiles = view.bucket // TILE
        splits = max(1, min(tiles, 2 * self._units // (shape.kv_heads * blocks)))
        span = -(-tiles // splits) * TILE
        splits = -(-view.bucket // span)
        sums_SHTD = torch.empty(splits, shape.heads, width, shape.head_dim, dtype=torch.float32, device=q_THD.device)
        scales_2SHT = torch.empty(2, splits, shape.heads, width, dtype=torch.float32, device=q_THD.device)
        mixed = torch.empty(width, shape.heads * shape.head_dim, dtype=q_THD.dtype, device=q_THD.device)
        triton_kernels.attend_split[(shape.kv_heads * blocks, splits)](
            q_THD,
            keys_KCD,
            values_KCD,
            view.inputs.stretches_2E,
            view.inputs.cached,
            sums_SHTD,
            scales_2SHT,
            keys_KCD.stride(0),
            shape.head_dim**-0.5,
            width,
            span,
            splits,
            blocks,
            shape.heads,
            shape.group,
            DIM=shape.head_dim,
            ROWS=block,
            TILE=TILE,
            num_warps=4 if block == 16 else 8,  # four would spill registers: tests/gpu reads it off the code
            num_stages=2,
            **self._order,
        )
        triton_kernels.join_splits[(width, shape.heads)](
            sums_SHTD,
            scales_2SHT,
            mixed,
            width,
            splits,
            shape.heads,
            DIM=shape.head_dim,
            SPLITS=1 << (splits - 1).bit_length(),
            **self._order,
        )
        return mixed


def _following(outputs: Outputs, inputs: Inputs, cache: StaticCache) -> tuple[torch.Tensor | int, ...]:
    """What `triton_follow.follow_tree` is given: outcome and tree, and the panels whose slots are moved."""
    slots, states = cache.panels()
    return (
        outputs.said_T,
        inputs.ids_T,
        inputs.parents_T,
        inputs.cached,
        inputs.pending,
        inputs.room,
        outputs.kept_P,
        slots,
        states,
        len(inputs.ids_T),
        cache.capacity,
        len(slots),
        slots.shape[2],
        len(states),
        states.shape[2],
    )
