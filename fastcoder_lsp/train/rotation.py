"""Norm and rotation of drafters' layers in torch, as `draft.numbers` computes them when decoding."""

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

THETA = 10_000.0
"""Of the rotation in layers that are trained here: their texts are short."""


def normed(x_TE: torch.Tensor, weight_E: torch.Tensor, eps: float) -> torch.Tensor:
    """Each row over the root of its mean square, times the weights."""
    return F.rms_norm(x_TE, (x_TE.shape[-1],), weight_E, eps)


def turned(x_THd: torch.Tensor, places_T: torch.Tensor) -> torch.Tensor:
    """Each head's halves rotated by the row's place."""
    half = x_THd.shape[-1] // 2
    angles = places_T[:, None].double() * THETA ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = angles.cos().float()[:, None], angles.sin().float()[:, None]
    low, high = x_THd[..., :half], x_THd[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)
