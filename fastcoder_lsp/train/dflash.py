"""DFlash's small model: from the target's features of a text it learns to predict the block behind any of its tokens.

DFlash, 2026, section 4: anchors are drawn in the text; the block behind each, all masks but for the anchor, sees the
features before it and all of itself; loss = Σ_k e^(−(k − 1)/γ) · cross-entropy of place k, since a wrong place spoils
those behind it. The target's embeddings and head are frozen. One choice differs: the mask is a learnt vector, since a
vocabulary need not have a token to spare.

Legend: T rows of a text, A anchors, B places of a block, E width, D tokens that can be predicted, H heads, K of them
with keys, d numbers of a head.
"""

import math
import random
from dataclasses import dataclass

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere
from typing_extensions import override

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.train.eagle import attention_numbers, normed, turned
from fastcoder_lsp.train.samples import DrafterLesson, Sample, states_of


@dataclass(frozen=True, slots=True)
class DflashSettings:
    """`layers` of the model (published 5), places of a `block` (published 16), `anchors` of a text in one step."""

    layers: int = 2
    block: int = 8
    anchors: int = 12

    @property
    def gamma(self) -> float:
        """γ, in places: published 7 for a block of 16."""
        return 7 * self.block / 16


def layers_of(layers: int, count: int) -> tuple[int, ...]:
    """The `count` layers of a target whose states are read, evenly from the second to the third last."""
    if count == 1:
        return (layers // 2 + 1,)
    span = layers - 4
    found = (round(1 + place * span / (count - 1)) + 1 for place in range(count))
    return tuple(min(max(layer, 1), layers) for layer in found)


class DflashLesson(DrafterLesson[DflashSettings]):
    """The small model over samples; a layer is as large as the target's."""

    method = "dflash"

    @override
    @staticmethod
    def layers(shape: Shape, settings: DflashSettings) -> tuple[int, ...]:
        return layers_of(shape.layers, settings.layers)

    @override
    @staticmethod
    def numbers(shape: Shape, settings: DflashSettings) -> dict[str, float]:
        return {"layers": settings.layers, "block": settings.block, **attention_numbers(shape)}

    def beginning(self) -> dict[str, torch.Tensor]:
        """Random matrices. Held-out samples without room for a block are left out of the evaluation."""
        self._held = [sample for sample in self._held if self._places(sample)]
        shape, layers = self._teacher.shape, self._settings.layers
        width, q, kv = shape.width, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        sizes = {"q": (q, width), "k": (kv, width), "v": (kv, width), "o": (width, q)}
        sizes |= {"gate": (shape.inner, width), "up": (shape.inner, width), "down": (width, shape.inner)}
        draw = torch.Generator().manual_seed(self._seed)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            drawn = torch.randn((rows, columns), generator=draw)
            return torch.mul(drawn, columns**-0.5)

        found = {"fc": matrix(width, layers * width), "mask": matrix(1, width)[0]}
        found |= {"norm_features": torch.ones(width), "norm_last": torch.ones(width)}
        for layer in range(layers):
            found |= {f"{layer}.{name}": matrix(*size) for name, size in sizes.items()}
            found |= {f"{layer}.{name}": torch.ones(width) for name in ("norm_in", "norm_post")}
        return found

    def tensors(self) -> dict[str, torch.Tensor]:
        """With the target's head."""
        return super().tensors() | {"head": self._teacher.head_DE}

    def terms(self, sample: Sample, draw: str) -> dict[str, torch.Tensor]:
        """The mean loss over the places of blocks behind drawn anchors; none where no block fits."""
        block, places = self._settings.block, self._places(sample)
        if not places:
            return {}
        drawn = random.Random(draw).sample(places, min(len(places), self._settings.anchors))  # noqa: S311 reproducible
        anchors_A = torch.tensor(sorted(drawn))
        tokens_T = torch.from_numpy(sample.tokens)
        logits_ABD = self.logits(states_of(sample), self._teacher.embed(tokens_T[anchors_A]), anchors_A)
        wanted_AB = anchors_A[:, None] + torch.arange(1, block)
        labels_AB = self._teacher.places_V[tokens_T[wanted_AB]]
        fade_B = torch.tensor([math.exp(-place / self._settings.gamma) for place in range(block - 1)])
        weights_AB = fade_B * (labels_AB >= 0)
        loss_AB = F.cross_entropy(logits_ABD.flatten(0, 1), labels_AB.clamp(min=0).flatten(), reduction="none")
        return {"block": (loss_AB.view_as(weights_AB) * weights_AB).sum() / weights_AB.sum().clamp(min=1e-6)}

    def _places(self, sample: Sample) -> range:
        return range(max(sample.first - 1, 1), len(sample) - self._settings.block + 1)

    def logits(self, states_TLE: torch.Tensor, embedded_AE: torch.Tensor, anchors_A: torch.Tensor) -> torch.Tensor:
        """The logits behind anchors, [A, B − 1, D]; each anchor sees the states before it and its own block."""
        parts, shape, block = self._parts, self._teacher.shape, self._settings.block
        rows, count = len(states_TLE), len(anchors_A)
        text_TE = normed(F.linear(states_TLE.flatten(1), parts["fc"]), parts["norm_features"], shape.eps)
        masks = parts["mask"].expand(count, block - 1, -1)
        x_RE = torch.cat([embedded_AE[:, None], masks], dim=1).flatten(0, 1)
        places_R = (anchors_A[:, None] + torch.arange(block)).flatten()
        block_R = torch.arange(count).repeat_interleave(block)
        before = torch.arange(rows)[None] < anchors_A[block_R][:, None]
        seen = torch.cat([before, block_R[:, None] == block_R[None]], dim=1)
        for layer in range(self._settings.layers):
            h_RE = normed(x_RE, parts[f"{layer}.norm_in"], shape.eps)
            both = torch.cat([text_TE, h_RE])
            keys = self._heads(f"{layer}.k", both, shape.kv_heads)
            keys_KNd = turned(keys, torch.cat([torch.arange(rows), places_R])).transpose(0, 1)
            values_KNd = self._heads(f"{layer}.v", both, shape.kv_heads).transpose(0, 1)
            q_HRd = turned(self._heads(f"{layer}.q", h_RE, shape.heads), places_R).transpose(0, 1)
            mixed_HRd = F.scaled_dot_product_attention(
                q_HRd,
                keys_KNd.repeat_interleave(shape.group, 0),
                values_KNd.repeat_interleave(shape.group, 0),
                attn_mask=seen,
            )
            x_RE = x_RE + F.linear(mixed_HRd.transpose(0, 1).flatten(1), parts[f"{layer}.o"])
            h_RE = normed(x_RE, parts[f"{layer}.norm_post"], shape.eps)
            inner = F.silu(F.linear(h_RE, parts[f"{layer}.gate"])) * F.linear(h_RE, parts[f"{layer}.up"])
            x_RE = x_RE + F.linear(inner, parts[f"{layer}.down"])
        said_AE = normed(x_RE, parts["norm_last"], shape.eps).view(count, block, -1)[:, 1:]
        return F.linear(said_AE, self._teacher.head_DE)

    def _heads(self, name: str, x_NE: torch.Tensor, heads: int) -> torch.Tensor:
        return F.linear(x_NE, self._parts[name]).view(len(x_NE), heads, self._teacher.shape.head_dim)
