"""Attention of a draft tree over the static cache: which row sees which slot, and what it mixes from there.

Owns masks and the mixing. A row sees every slot of the cached text, its ancestors in the tree, and itself; padding rows
see themselves only. Query heads of a group read one key/value head through a view, so that the cache is never repeated.

Legend: T rows, C slots of the bucket, H query heads, K key/value heads, G query heads of a group, D head dimension.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.step_io import Inputs


@dataclass(frozen=True)  # without slots: they leave no room for a cached property
class TreeView:
    """Where the rows of a program stand and what they see; made once for all layers.

    `ancestors_TT`: row i has row j above it, or is it. Rows from `count` on are padding.
    """

    cached: torch.Tensor
    count: torch.Tensor
    depths_T: torch.Tensor
    slots_T: torch.Tensor
    positions_T: torch.Tensor
    ancestors_TT: torch.Tensor
    bucket: int
    dtype: torch.dtype

    @cached_property
    def bias_TC(self) -> torch.Tensor:  # noqa: N802 tensor names carry their shapes
        """What is added to the scores, 0 or minus infinity; kernels that know the rules don't ask for it."""
        width, device = len(self.depths_T), self.depths_T.device
        beyond_C = torch.arange(self.bucket, device=device) - self.cached
        in_tree_C = (beyond_C >= 0) & (beyond_C < width)
        tree_TC = self.ancestors_TT[:, beyond_C.clamp(0, width - 1)] & in_tree_C
        real_T = torch.arange(width, device=device) < self.count
        sees_TC = tree_TC | (real_T[:, None] & (beyond_C < 0))
        zero = torch.zeros((), dtype=self.dtype, device=device)
        return torch.where(sees_TC, zero, zero - torch.inf)


def ancestors(parents_T: torch.Tensor) -> torch.Tensor:
    """Row i sees row j of its own tree, bool [T, T], from the parents alone (-1: none).

    Every round doubles the generations that a row has seen: its own, and those that the last ancestor it knows of has.
    """
    width = len(parents_T)
    seen_TT = torch.eye(width, dtype=torch.bool, device=parents_T.device)
    # A row above all, which sees nothing and stays where it is, stands for "no parent".
    seen_TT = torch.cat([seen_TT, seen_TT.new_zeros(1, width)])
    above_T = torch.cat([torch.where(parents_T < 0, width, parents_T), parents_T.new_full((1,), width)])
    for _ in range((width - 1).bit_length()):
        seen_TT = seen_TT | seen_TT[above_T]
        above_T = above_T[above_T]
    return seen_TT[:width]


class TreeAttention:
    """Attention in torch.

    Args:
        shape: the model's sizes.
        strict: scores and sums in float64, so that the slots in which a row's ancestors lie change no bit of a result.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype, *, strict: bool = False) -> None:
        self._shape, self._dtype, self._strict = shape, dtype, strict

    def view(self, inputs: Inputs, bucket: int) -> TreeView:
        """Places and masks of the rows in `inputs`, from their parents."""
        width, device = len(inputs.tokens_T), inputs.tokens_T.device
        rows_T = torch.arange(width, device=device)
        ancestors_TT = ancestors(torch.where(rows_T < inputs.count, inputs.parents_T, -1))
        depths_T = ancestors_TT.sum(1) - 1
        return TreeView(
            cached=inputs.cached,
            count=inputs.count,
            depths_T=depths_T,
            slots_T=inputs.cached + rows_T,
            positions_T=inputs.cached + depths_T,
            ancestors_TT=ancestors_TT,
            bucket=bucket,
            dtype=self._dtype,
        )

    def mix(self, layer: int, q_THD: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """The values that each row sees, weighed by its query: [T, H·D]."""
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
    """The same to 1e-15, whatever the order of summation; rounding back hides the rest."""
    kv, group, width, dim = q_KGTD.shape
    q = q_KGTD.double().reshape(kv, group * width, dim)
    scores = torch.bmm(q, keys_KCD.double().transpose(1, 2)) * dim**-0.5
    weights = torch.softmax(scores.view(kv, group, width, -1) + bias_TC.double(), dim=-1)
    mixed = torch.bmm(weights.view(kv, group * width, -1), values_KCD.double())
    return mixed.view(kv, group, width, dim).to(q_KGTD.dtype)
