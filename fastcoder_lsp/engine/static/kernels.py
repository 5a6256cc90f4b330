"""What stands between the products: norms, rotation, attention, activation, and each row's token, in torch.

`fused` replaces two of these operations by Triton kernels.

Legend: T rows, E width, H query heads, K key/value heads (or best ids), D head dimension, I inner width, V vocabulary.
"""

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.attention import TreeAttention, TreeView
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.step_io import WALK, Inputs, Outputs
from fastcoder_lsp.engine.static.top import top_rows
from fastcoder_lsp.engine.static.weights import Norm


class TorchKernels:
    """The operations of a layer and of a step's end, each a few launches.

    Args:
        shape: the model's sizes.
        capacity: positions whose rotation is tabled.
        attention: computes the attention of a layer.
    """

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

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Rotate queries and keys, store keys and values, and mix the values that each row sees: [T, H·D]."""
        shape, width = self.shape, len(qkv)
        ends = (shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim)
        q, k, v = qkv.tensor_split(ends, dim=1)
        positions_T = view.inputs.positions_T
        cos_TD, sin_TD = self.cos_CD[positions_T], self.sin_CD[positions_T]
        q_THD = _rotate(q.view(width, shape.heads, shape.head_dim), cos_TD, sin_TD)
        k_TKD = _rotate(k.view(width, shape.kv_heads, shape.head_dim), cos_TD, sin_TD)
        v_TKD = v.view(width, shape.kv_heads, shape.head_dim)
        cache.store(layer, view.inputs.slots_T, k_TKD.transpose(0, 1), v_TKD.transpose(0, 1))
        return self.mix(layer, q_THD, cache, view)

    def mix(self, layer: int, q_THD: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Attention: the values that each row sees, weighed by its query: [T, H·D]."""
        return self.attention.mix(layer, q_THD, cache, view)

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        """The inner layer's activation, [T, I]: gated or not, as the model is."""
        if self.shape.starcoder:
            return F.gelu(inner, approximate="tanh")
        gate, up = inner.chunk(2, dim=1)
        return F.silu(gate) * up

    def best(self, logits_TV: torch.Tensor, outputs: Outputs) -> None:
        """Write the K best ids and logits of every row, best first, equal ones by id."""
        found_TK, values_TK = top_rows(logits_TV, outputs.ids_TK.shape[1])
        outputs.ids_TK.copy_(found_TK)
        outputs.logits_TK.copy_(values_TK)

    def conclude(
        self,
        logits_TV: torch.Tensor,
        outputs: Outputs,
        inputs: Inputs,  # noqa: ARG002 `fused` reads it
        cache: StaticCache,  # noqa: ARG002 as above
        *,
        best: bool,
    ) -> None:
        """Write every row's greedy token, the lowest id of equals, and with `best` its best ids and logits.

        `kept_P` becomes the accepted path, whose slots are then in place, or `WALK`: the host follows the tree and
        moves the slots. In torch that would be some thirty launches.
        """
        if best:
            self.best(logits_TV, outputs)
            outputs.said_T.copy_(outputs.ids_TK[:, 0])
        else:
            torch.argmax(logits_TV, 1, out=outputs.said_T)
        self.leave(outputs)

    def leave(self, outputs: Outputs) -> None:
        """Leave the walk down the tree to the host."""
        outputs.kept_P[:1].fill_(WALK)


def _rotate(x_THD: torch.Tensor, cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> torch.Tensor:
    half = x_THD.shape[-1] // 2
    turned = torch.cat([-x_THD[..., half:], x_THD[..., :half]], dim=-1)
    return x_THD * cos_TD[:, None] + turned * sin_TD[:, None]
