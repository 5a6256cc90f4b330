"""Attention of a draft tree over the static cache: which row sees which slot, and what it mixes from there.

Owns masks and the mixing. A row sees every slot of the cached text, its ancestors in the tree, and itself; padding rows
see themselves only. Query heads of a group read one key/value head through a view, so that the cache is never repeated.

Legend: T rows, C slots of the bucket, E = T + 2, H query heads, K key/value heads, G query heads of a group, D head
dimension.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.layout import EDGES
from fastcoder_lsp.engine.static.step_io import Inputs


@dataclass(frozen=True)  # without slots: they leave no room for a cached property
class TreeView:
    """Where the rows of a program stand and what they see; made once for all layers. See `layout` for the stretches."""

    inputs: Inputs
    slots_C: torch.Tensor
    bias_2: torch.Tensor

    @property
    def bucket(self) -> int:
        """Slots that are looked at."""
        return len(self.slots_C)

    @cached_property
    def bias_TC(self) -> torch.Tensor:  # noqa: N802 tensor names carry their shapes
        """What is added to the scores, 0 or minus infinity; kernels that know the rules don't ask for it."""
        rows = self.inputs.stretches_2E.shape[1] - EDGES
        column_C = (self.slots_C - self.inputs.cached).clamp(-1, rows)
        enter_C, leave_C = self.inputs.stretches_2E.index_select(1, column_C + 1).unbind()
        place_T1 = self.inputs.stretches_2E[0, 1 : rows + 1, None]
        seen, hidden = self.bias_2.unbind()
        return torch.where((place_T1 >= enter_C) & (place_T1 < leave_C), seen, hidden)


class TreeAttention:
    """Attention in torch.

    Args:
        shape: the model's sizes.
        capacity: slots of the cache.
        strict: scores and sums in float64, so that the slots in which a row's ancestors lie change no bit of a result.
    """

    def __init__(
        self, shape: Shape, capacity: int, dtype: torch.dtype, place: torch.device, *, strict: bool = False
    ) -> None:
        self._shape, self._strict = shape, strict
        self._slots_C = torch.arange(capacity, device=place)
        self._bias_2 = torch.tensor([0.0, -torch.inf], dtype=dtype, device=place)

    def view(self, inputs: Inputs, bucket: int) -> TreeView:
        """What the rows in `inputs` see of the first `bucket` slots."""
        return TreeView(inputs, self._slots_C[:bucket], self._bias_2)

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
