"""The model's pass over the rows of a program in torch: tokens in, hidden states or logits out.

A row sees the cached text, its ancestors in the tree, and itself; padding rows see only themselves. Query heads of a
group read one key/value head through a view, so that the cache is never repeated.

Legend: T rows, C slots of the bucket, E = T + 2 or the model's width, H query heads, K key/value heads (or best ids), G
query heads of a group, D head dimension, I inner width, V vocabulary.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.torch_engines.graphs.cache import StaticCache
from fastcoder_lsp.torch_engines.graphs.step_io import EDGES, Inputs, Outputs
from fastcoder_lsp.torch_engines.graphs.verifier import top_rows
from fastcoder_lsp.torch_engines.graphs.weights import ModelWeights, Norm


@dataclass(frozen=True)  # without slots, which leave no room for a cached property
class TreeView:
    """The slots of a program's rows and which they see; made once for all layers. See `step_io` for the stretches."""

    inputs: Inputs
    slots_C: torch.Tensor
    bias_2: torch.Tensor

    @property
    def bucket(self) -> int:
        """Slots that are read."""
        return len(self.slots_C)

    @cached_property
    def bias_TC(self) -> torch.Tensor:  # noqa: N802 tensor names carry their shapes
        """Addends of the scores, 0 or minus infinity."""
        rows = self.inputs.stretches_2E.shape[1] - EDGES
        column_C = (self.slots_C - self.inputs.cached).clamp(-1, rows)
        enter_C, leave_C = self.inputs.stretches_2E.index_select(1, column_C + 1).unbind()
        place_T1 = self.inputs.stretches_2E[0, 1 : rows + 1, None]
        seen, hidden = self.bias_2.unbind()
        return torch.where((place_T1 >= enter_C) & (place_T1 < leave_C), seen, hidden)


class TreeAttention:
    """Attention in torch over a cache of `capacity` slots.

    `strict`: scores and sums in float64, so that the slots in which a row's ancestors lie change no bit of a result.
    """

    def __init__(
        self, shape: Shape, capacity: int, dtype: torch.dtype, place: torch.device, *, strict: bool = False
    ) -> None:
        self._shape, self._strict = shape, strict
        self._slots_C = torch.arange(capacity, device=place)
        self._bias_2 = torch.tensor([0.0, -torch.inf], dtype=dtype, device=place)

    def view(self, inputs: Inputs, bucket: int) -> TreeView:
        """Which of the first `bucket` slots the rows in `inputs` see."""
        return TreeView(inputs, self._slots_C[:bucket], self._bias_2)

    def mix(self, layer: int, q_THD: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Attention: the values that each row sees, weighted by its query: [T, H·D]."""
        keys_KCD, values_KCD = cache.layer(layer, view.bucket)
        shape, width = self._shape, len(q_THD)
        q_KGTD = q_THD.view(width, shape.kv_heads, shape.group, shape.head_dim).permute(1, 2, 0, 3)
        if self._strict:
            mixed_KGTD = _mix_float64(q_KGTD, keys_KCD, values_KCD, view.bias_TC)
        else:
            grouped = (shape.kv_heads, shape.group, view.bucket, shape.head_dim)
            mixed_KGTD = F.scaled_dot_product_attention(
                q_KGTD,
                keys_KCD[:, None].expand(grouped),
                values_KCD[:, None].expand(grouped),
                attn_mask=view.bias_TC[None, None],
            )
        return mixed_KGTD.permute(2, 0, 1, 3).reshape(width, shape.heads * shape.head_dim)


def _mix_float64(
    q_KGTD: torch.Tensor, keys_KCD: torch.Tensor, values_KCD: torch.Tensor, bias_TC: torch.Tensor
) -> torch.Tensor:
    """Attention in float64, equal to 1e-15 in any order of summation; rounding back hides the rest."""
    kv, group, width, dim = q_KGTD.shape
    q = q_KGTD.double().reshape(kv, group * width, dim)
    scores = torch.bmm(q, keys_KCD.double().transpose(1, 2)) * dim**-0.5
    weights = torch.softmax(scores.view(kv, group, width, -1) + bias_TC.double(), dim=-1)
    mixed = torch.bmm(weights.view(kv, group * width, -1), values_KCD.double())
    return mixed.view(kv, group, width, dim).to(q_KGTD.dtype)


class TorchKernels:
    """A layer's and a step end's operations, each a few launches; the rotation of `capacity` positions is tabled."""

    def __init__(
        self, shape: Shape, capacity: int, attention: TreeAttention, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.shape, self.attention = shape, attention
        angles_CH = torch.arange(capacity, dtype=torch.float64)[:, None] * torch.from_numpy(shape.angles_H)[None]
        self.cos_CD = torch.cat([angles_CH.cos()] * 2, dim=-1).to(device, dtype)
        self.sin_CD = torch.cat([angles_CH.sin()] * 2, dim=-1).to(device, dtype)

    def add_norm(self, x_TE: torch.Tensor, change_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """Add `change_TE` to `x_TE`, in place, and return the norm of the sum."""
        return self.norm(x_TE.add_(change_TE), norm)

    def norm(self, x_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """The norm of the rows."""
        width = (self.shape.width,)
        if norm.offset_E is None:
            return F.rms_norm(x_TE, width, norm.scale_E, self.shape.eps)
        return F.layer_norm(x_TE, width, norm.scale_E, norm.offset_E, self.shape.eps)

    def norm_heads(self, qkv: torch.Tensor, scales: tuple[torch.Tensor, torch.Tensor] | None) -> torch.Tensor:
        """The rows with the norm of every query and key head, in place, if the model has one."""
        if scales is not None:
            dim, heads, kv = self.shape.head_dim, self.shape.heads, self.shape.kv_heads
            heads_THD = qkv.view(len(qkv), -1, dim)
            for part, scale_D in zip((slice(heads), slice(heads, heads + kv)), scales, strict=True):
                heads_THD[:, part] = F.rms_norm(heads_THD[:, part], (dim,), scale_D, self.shape.eps)
        return qkv

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Rotate queries and keys, store keys and values, and attend: [T, H·D]."""
        shape, width = self.shape, len(qkv)
        ends = (shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim)
        q, k, v = qkv.tensor_split(ends, dim=1)
        positions_T = view.inputs.positions_T
        cos_TD, sin_TD = self.cos_CD[positions_T], self.sin_CD[positions_T]
        q_THD = _rotate(q.view(width, shape.heads, shape.head_dim), cos_TD, sin_TD)
        k_TKD = _rotate(k.view(width, shape.kv_heads, shape.head_dim), cos_TD, sin_TD)
        v_TKD = v.view(width, shape.kv_heads, shape.head_dim)
        cache.store(layer, view.inputs.slots_T, k_TKD.transpose(0, 1), v_TKD.transpose(0, 1))
        return self.attention.mix(layer, q_THD, cache, view)

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        """The inner layer's activation, [T, I]: gated or not, as in the model."""
        if self.shape.starcoder:
            return F.gelu(inner, approximate="tanh")
        gate, up = inner.chunk(2, dim=1)
        return F.silu(gate) * up

    def best(self, logits_TV: torch.Tensor, outputs: Outputs) -> None:
        """Write the K best ids and logits of every row, best first, equal ones by id."""
        found_TK, values_TK = top_rows(logits_TV, outputs.ids_TK.shape[1])
        outputs.ids_TK.copy_(found_TK)
        outputs.logits_TK.copy_(values_TK)

    def choose(self, logits_TV: torch.Tensor, outputs: Outputs, *, best: bool) -> None:
        """Write every row's greedy token, the lowest id of equals, and with `best` its best ids and logits."""
        if best:
            self.best(logits_TV, outputs)
            outputs.said_T.copy_(outputs.ids_TK[:, 0])
        else:
            torch.argmax(logits_TV, 1, out=outputs.said_T)


def _rotate(x_THD: torch.Tensor, cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> torch.Tensor:
    half = x_THD.shape[-1] // 2
    turned = torch.cat([-x_THD[..., half:], x_THD[..., :half]], dim=-1)
    return x_THD * cos_TD[:, None] + turned * sin_TD[:, None]


@dataclass(frozen=True, slots=True)
class Transformer:
    """A model over a cache."""

    model: ModelWeights
    kernels: TorchKernels
    cache: StaticCache

    def read(self, view: TreeView, skipped: frozenset[int] = frozenset()) -> torch.Tensor:
        """Run the rows into the cache, without the parts `skipped`: hidden states [T, E] before the last norm."""
        kernels = self.kernels
        x_TE = self.model.embedding_VE[view.inputs.ids_T]
        change_TE: torch.Tensor | None = None
        for layer, block in enumerate(self.model.blocks):
            if 2 * layer not in skipped:
                h_TE = _normed(kernels, x_TE, change_TE, block.norm1)
                self.cache.store_states(layer, view.inputs.slots_T, x_TE)  # the output of the layers before it
                qkv = kernels.norm_heads(block.qkv(h_TE), block.head_norms)
                change_TE = block.out(kernels.attend(layer, qkv, self.cache, view))
            if 2 * layer + 1 not in skipped:
                h_TE = _normed(kernels, x_TE, change_TE, block.norm2)
                change_TE = block.down(kernels.activate(block.inner(h_TE)))
        if change_TE is not None:
            x_TE.add_(change_TE)
        self.cache.store_states(len(self.model.blocks), view.inputs.slots_T, x_TE)
        return x_TE

    def logits(self, hidden_TE: torch.Tensor) -> torch.Tensor:
        """Logits [T, V] of hidden states."""
        return self.model.head(self.kernels.norm(hidden_TE, self.model.norm))


def _normed(kernels: TorchKernels, x_TE: torch.Tensor, change_TE: torch.Tensor | None, norm: Norm) -> torch.Tensor:
    return kernels.norm(x_TE, norm) if change_TE is None else kernels.add_norm(x_TE, change_TE, norm)
