"""Two operations in Triton: attention that splits the KV cache over the GPU, and a step's end in one go.

No GPU has yet shown a gain over torch's kernels. Launches the kernels of `triton_kernels`. Needs Triton and a GPU.

Legend: T rows, H query heads, K key/value heads (or best ids), G query heads of a group, D head dimension, S splits of
the KV cache, V vocabulary, C chunks of it.
"""

import torch

from benchmarks.fused import triton_kernels
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.device import Device
from fastcoder_lsp.engine.static.step_io import Inputs, Outputs
from fastcoder_lsp.engine.static.transformer import TorchKernels, TreeView
from fastcoder_lsp.engine.static.verifier import CHUNK

MOST_ROWS = 128  # above so many rows (prefill chunks), torch's attention runs
MOST_BEST = 16  # above so many best ids torch selects them: each is one more pass of a kernel's loop
MOST_SPLITS = 128  # most splits of the KV cache: more would not fit the registers of the kernel that joins them
TILE = 64  # slots of one attention tile
PANELS, LANES = 16, 64
"""Panels of the KV cache whose slots one program moves, and numbers of each that it moves at a time."""


def fits(shape: Shape) -> bool:
    """Whether the kernels can run a model: their tiles need a head dimension that is a power of two."""
    return shape.head_dim >= 16 and shape.head_dim & (shape.head_dim - 1) == 0


def units_of(device: Device) -> int:
    """Multiprocessors of a device."""
    if device.place.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device.place).multi_processor_count


class FusedKernels(TorchKernels):
    """`TorchKernels` with attention and the step's end in Triton.

    `plain` has the model's sizes and tables; attention is split into about two pieces for each of the GPU's `units`.
    """

    def __init__(self, plain: TorchKernels, units: int) -> None:
        self.shape, self.attention = plain.shape, plain.attention
        self.cos_CD, self.sin_CD = plain.cos_CD, plain.sin_CD
        self._units = units
        self._arrived = torch.zeros(1, dtype=torch.int32, device=plain.cos_CD.device)

    def mix(self, layer: int, q_THD: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Attention in two kernels: every split of the slots by itself, then all splits together."""
        if len(q_THD) > MOST_ROWS:
            return super().mix(layer, q_THD, cache, view)
        keys_KCD, values_KCD = cache.layer(layer, view.bucket)
        q_THD = q_THD.contiguous()
        shape, width = self.shape, len(q_THD)
        rows = shape.group * width
        block = min(max(16, 1 << (rows - 1).bit_length()), 64)
        blocks = -(-rows // block)
        tiles = view.bucket // TILE
        splits = max(1, min(tiles, MOST_SPLITS, 2 * self._units // (shape.kv_heads * blocks)))
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
            num_warps=4 if block == 16 else 8,  # four would spill registers: tests/gpu checks the code
            num_stages=2,
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
        )
        return mixed

    def conclude(
        self, logits_TV: torch.Tensor, outputs: Outputs, inputs: Inputs, cache: StaticCache, *, best: bool
    ) -> None:
        """The same in three kernels; the device follows the tree and moves its slots."""
        ids_TK = outputs.ids_TK if best else outputs.said_T[:, None]
        width, vocabulary, count = *logits_TV.shape, ids_TK.shape[1]
        if count > MOST_BEST:
            super().conclude(logits_TV, outputs, inputs, cache, best=best)
            return
        chunks, group = -(-vocabulary // CHUNK), 32
        highest_TC = torch.empty(width, chunks, dtype=torch.int32, device=logits_TV.device)
        triton_kernels.chunk_best[(width, -(-chunks // group))](
            logits_TV, highest_TC, vocabulary, chunks, GROUP=group, CHUNK=CHUNK
        )
        triton_kernels.conclude_rows[(width,)](
            logits_TV,
            highest_TC,
            ids_TK,
            outputs.logits_TK if best else ids_TK,
            self._arrived,
            outputs.said_T,
            inputs.ids_T,
            inputs.parents_T,
            inputs.pending,
            inputs.room,
            outputs.kept_P,
            width,
            vocabulary,
            chunks,
            COUNT=count,
            VALUED=best,
            CHUNKS=1 << (chunks - 1).bit_length(),
            CHUNK=CHUNK,
        )
        for panels in cache.panels():
            if len(panels):
                triton_kernels.move_accepted[(-(-len(panels) // PANELS),)](
                    panels,
                    inputs.cached,
                    inputs.pending,
                    outputs.kept_P,
                    cache.capacity,
                    len(panels),
                    panels.shape[2],
                    PANELS=PANELS,
                    LANES=LANES,
                )
