"""What stands between the products of a layer: norms, rotation, activation. In torch, an operation at a time.

Owns the protocol that `fused` implements too.

Legend: T rows, E width, H query heads, K key/value heads, D head dimension, I inner width.
"""

from typing import Protocol

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.engine.static.attention import TreeAttention, TreeView
from fastcoder_lsp.engine.static.cache import StaticCache
from fastcoder_lsp.engine.static.weights import Norm


class Kernels(Protocol):
    """One way of computing a layer but for its products."""

    def add_norm(self, x_TE: torch.Tensor, change_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """Add `change_TE` to `x_TE`, in place, and return the norm of the sum."""
        ...

    def norm(self, x_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """The norm of the rows."""
        ...

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """Rotate queries and keys, store keys and values, and mix the values that each row sees: [T, H·D]."""
        ...

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        """The inner layer's activation, [T, I]: gated or not, as the model is."""
        ...


class TorchKernels:
    """`Kernels` in torch.

    Args:
        shape: the model's sizes.
        capacity: positions that are tabled.
        attention: mixes.
    """

    def __init__(
        self, shape: Shape, capacity: int, attention: TreeAttention, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.shape, self.attention = shape, attention
        angles_CH = torch.arange(capacity, dtype=torch.float64)[:, None] * torch.from_numpy(shape.angles_H)[None]
        self.cos_CD = torch.cat([angles_CH.cos()] * 2, dim=-1).to(device, dtype)
        self.sin_CD = torch.cat([angles_CH.sin()] * 2, dim=-1).to(device, dtype)

    def add_norm(self, x_TE: torch.Tensor, change_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `Kernels`."""
        return self.norm(x_TE.add_(change_TE), norm)

    def norm(self, x_TE: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `Kernels`."""
        width = (self.shape.width,)
        if norm.offset_E is None:
            return F.rms_norm(x_TE, width, norm.scale_E, self.shape.eps)
        return F.layer_norm(x_TE, width, norm.scale_E, norm.offset_E, self.shape.eps)

    def attend(self, layer: int, qkv: torch.Tensor, cache: StaticCache, view: TreeView) -> torch.Tensor:
        """See `Kernels`."""
        shape, width = self.shape, len(qkv)
        ends = (shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim)
        q, k, v = qkv.tensor_split(ends, dim=1)
        cos_TD, sin_TD = self.cos_CD[view.positions_T], self.sin_CD[view.positions_T]
        q_THD = _rotate(q.view(width, shape.heads, shape.head_dim), cos_TD, sin_TD)
        k_TKD = _rotate(k.view(width, shape.kv_heads, shape.head_dim), cos_TD, sin_TD)
        v_TKD = v.view(width, shape.kv_heads, shape.head_dim)
        cache.store(layer, view.slots_T, k_TKD.transpose(0, 1), v_TKD.transpose(0, 1))
        return self.attention.mix(layer, q_THD, cache, view)

    def activate(self, inner: torch.Tensor) -> torch.Tensor:
        """See `Kernels`."""
        if self.shape.starcoder:
            return F.gelu(inner, approximate="tanh")
        gate, up = inner.chunk(2, dim=1)
        return F.silu(gate) * up


def _rotate(x_THD: torch.Tensor, cos_TD: torch.Tensor, sin_TD: torch.Tensor) -> torch.Tensor:
    half = x_THD.shape[-1] // 2
    turned = torch.cat([-x_THD[..., half:], x_THD[..., :half]], dim=-1)
    return x_THD * cos_TD[:, None] + turned * sin_TD[:, None]
