"""The layers of drafters in torch, as `draft` computes them in numpy when decoding: norm, rotation, EAGLE's layer.

Training-time test is Li et al. 2025, *EAGLE-3*, section 3.1, for both forms of the layer.

Legend: T rows, E width, H heads, K of them with keys, d numbers of a head.
"""

from collections.abc import Mapping

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape

THETA = 10_000.0
"""Of the rotation in layers that are trained here: their texts are short."""


def attention_numbers(shape: Shape) -> dict[str, float]:
    """The sizes of a layer's attention, for the drafter's record."""
    return {
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "theta": THETA,
        "eps": shape.eps,
    }


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


class Steps:
    """The layer over a text's rows, step after step; the keys of later steps are seen by their own row alone."""

    def __init__(self, parts: Mapping[str, torch.Tensor], shape: Shape) -> None:
        self._parts, self._shape = parts, shape
        self._keys: list[tuple[torch.Tensor, torch.Tensor]] = []

    def step(self, embedded_TE: torch.Tensor, hidden_TE: torch.Tensor) -> torch.Tensor:
        """The output of each row, [T, E]; the rows may be fewer than in the step before."""
        parts, shape, step = self._parts, self._shape, len(self._keys)
        rows, heads, kv, dim = len(hidden_TE), shape.heads, shape.kv_heads, shape.head_dim
        if "norm_input" in parts:  # EAGLE-3's
            eps, residual_TE = shape.eps, hidden_TE
            x = torch.cat(
                [normed(embedded_TE, parts["norm_input"], eps), normed(hidden_TE, parts["norm_hidden"], eps)], 1
            )
        else:
            residual_TE = x = F.linear(torch.cat([embedded_TE, hidden_TE], 1), parts["fc"])
        places_T = torch.arange(rows) + step
        q_HTd = turned(F.linear(x, parts["q"]).view(rows, heads, dim), places_T).transpose(0, 1)
        k_KTd = turned(F.linear(x, parts["k"]).view(rows, kv, dim), places_T).transpose(0, 1)
        v_KTd = F.linear(x, parts["v"]).view(rows, kv, dim).transpose(0, 1)
        self._keys.append((k_KTd, v_KTd))
        mixed_HTd = self._attend(q_HTd, rows, heads // kv)
        x_TE = residual_TE + F.linear(mixed_HTd.transpose(0, 1).reshape(rows, heads * dim), parts["o"])
        h_TE = normed(x_TE, parts["norm_post"], shape.eps)
        inner = F.silu(F.linear(h_TE, parts["gate"])) * F.linear(h_TE, parts["up"])
        return x_TE + F.linear(inner, parts["down"])

    def _attend(self, q_HTd: torch.Tensor, rows: int, group: int) -> torch.Tensor:
        scale = q_HTd.shape[-1] ** -0.5
        keys = [
            (key[:, :rows].repeat_interleave(group, 0), value[:, :rows].repeat_interleave(group, 0))
            for key, value in self._keys
        ]
        first = (q_HTd @ keys[0][0].transpose(1, 2)) * scale
        hidden = torch.ones(rows, rows, dtype=torch.bool).triu(1)
        scores = [first.masked_fill(hidden, float("-inf"))]
        scores += [(q_HTd * key).sum(-1, keepdim=True) * scale for key, _ in keys[1:]]
        shares = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
        mixed = shares[..., :rows] @ keys[0][1]
        for place, (_, value) in enumerate(keys[1:]):
            mixed = mixed + shares[..., rows + place, None] * value
        return mixed
