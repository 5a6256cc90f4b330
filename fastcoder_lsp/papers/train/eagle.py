"""EAGLE's layers: from the target's features they learn to go on with their own.

EAGLE-3 (Li et al. 2025, section 3) predicts no features, only tokens; its features are those behind a low, a middle and
a high layer. *Training-time test* shows the layer its own output for as many steps as it will take by itself when
decoding. Loss = Σ_j 0.8^j · cross-entropy to the target's probabilities at step j, over the tokens that can be
predicted. The row of token i at step j has token i + 1 + j beside it and sees the target's features up to i, and of its
own steps those of row i.

EAGLE (Li et al. 2024, sections 3.1 and 3.2; EAGLE-2's layer is the same): the features of a token, and the token after
it, give the features of that one. The target's own head reads them; the loss is their distance (smooth L1) and 0.1 ·
cross-entropy to the target's predictions. Three choices differ. The layer begins as the best linear guess (least
squares over the samples), with attention and inner layer adding nothing yet. Features are scaled to 1 in each number,
since a few of a model's are a hundred times as large as the others. And where EAGLE adds noise, so that the layer gets
used to slightly wrong features, it is shown its own (training-time test).

Norm, rotation and layer are those that `draft` computes in numpy when decoding. Legend: T
rows, E width, D tokens that can be predicted, H heads, K of them with keys, d numbers of a head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere
from typing_extensions import override

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.papers.train.samples import DrafterLesson, Sample, states_of

THETA = 10_000.0  # of the rotation in layers that are trained here: their texts are short


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


SAYING = 0.1  # EAGLE's weight of the cross-entropy beside the distance of the features (published)
FITTED = 60_000  # most tokens that the linear guess is fitted to
RIDGE = 1e-2  # the ridge of that fit, relative to each number's own square mean


@dataclass(frozen=True, slots=True)
class EagleSettings:
    """`steps` of training-time test (published: 7; EAGLE: 1); `inner`: width of the inner layer, 0: the target's."""

    steps: int = 4
    version: int = 3  # 3 for EAGLE-3's layer, 1 for that of EAGLE and EAGLE-2
    inner: int = 0


def layers_of(layers: int) -> tuple[int, ...]:
    """A low, a middle and a high layer of a target with so many, as in the published checkpoints."""
    return (min(2, layers), max(1, layers // 2), max(1, layers - 3))


def sized(shape: Shape, settings: EagleSettings) -> Shape:
    """The layer's sizes: the target's, but for `settings`, and with values for every head in EAGLE's layer.

    There a row learns of the next token through the values alone; a small model's shared heads are too narrow for that.
    """
    inner = settings.inner or shape.inner
    return replace(shape, inner=inner, kv_heads=shape.heads if settings.version == 1 else shape.kv_heads)


class EagleLesson(DrafterLesson[EagleSettings]):
    """EAGLE-3's layer over samples."""

    method = "eagle"

    @override
    @staticmethod
    def layers(shape: Shape, settings: EagleSettings) -> tuple[int, ...]:
        return layers_of(shape.layers)

    @override
    @classmethod
    def collected(cls, shape: Shape, settings: EagleSettings) -> tuple[int, ...]:
        read = cls.layers(shape, settings)
        return read if NORMED in read else (*read, NORMED)  # for the target's probabilities

    @override
    @staticmethod
    def numbers(shape: Shape, settings: EagleSettings) -> dict[str, float]:
        return {"version": settings.version, **attention_numbers(sized(shape, settings))}

    @property
    def _shape(self) -> Shape:
        return sized(self._teacher.shape, self._settings)

    def beginning(self) -> dict[str, torch.Tensor]:
        """Random matrices, and the target's head."""
        shape = self._shape
        width, q, kv = shape.width, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        sizes = {
            "fc": (width, 3 * width),
            "q": (q, 2 * width),
            "k": (kv, 2 * width),
            "v": (kv, 2 * width),
            "o": (width, q),
            "gate": (shape.inner, width),
            "up": (shape.inner, width),
            "down": (width, shape.inner),
        }
        draw = torch.Generator().manual_seed(self._seed)
        found = {name: torch.randn(size, generator=draw) * size[1] ** -0.5 for name, size in sizes.items()}
        found |= {name: torch.ones(width) for name in ("norm_input", "norm_hidden", "norm_post", "norm_last")}
        found["head"] = self._teacher.head_DE.clone()
        return found

    def terms(self, sample: Sample, _draw: str) -> dict[str, torch.Tensor]:
        """The mean loss of each step of training-time test over one sample."""
        features_TE, embedded_TE = self._inputs(sample)
        with torch.no_grad():
            target_TD = self._target(sample, features_TE)
        layer, hidden_TE = Steps(self._parts, self._shape), features_TE
        found: dict[str, torch.Tensor] = {}
        for step in range(self._settings.steps):
            if not (learnt := _learnt(sample, step)):
                break
            ahead = slice(1 + step, 1 + step + learnt.stop)
            hidden_TE = layer.step(embedded_TE[ahead], hidden_TE[: learnt.stop])
            found[f"step{step + 1}"] = self._mean(
                sample, step, self._losses(hidden_TE, features_TE[ahead], target_TD[ahead])
            )
        return found

    def _inputs(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        """The features that the layer begins with, and the embeddings of the text."""
        embedded_TE = self._teacher.embed(torch.from_numpy(sample.tokens))
        return F.linear(states_of(sample)[:, :-1].flatten(1), self._parts["fc"]), embedded_TE

    def _target(self, sample: Sample, _features_TE: torch.Tensor) -> torch.Tensor:
        """The target's probabilities."""
        return torch.softmax(states_of(sample)[:, -1] @ self._teacher.head_DE.T, dim=1)

    def _losses(self, hidden_TE: torch.Tensor, _features_TE: torch.Tensor, target_TD: torch.Tensor) -> torch.Tensor:
        """The loss of each row of a step, from the layer's output and the target's features and probabilities."""
        logits_TD = F.linear(normed(hidden_TE, self._parts["norm_last"], self._teacher.shape.eps), self._parts["head"])
        return -(target_TD * torch.log_softmax(logits_TD, dim=1)).sum(1)

    def _mean(self, sample: Sample, step: int, loss_T: torch.Tensor) -> torch.Tensor:
        """The mean over the rows of a step whose next token is one to learn, and can be predicted."""
        tokens_T = torch.from_numpy(sample.tokens)[2 + step : 2 + step + len(loss_T)]
        weights_T = (self._teacher.places_V[tokens_T] >= 0).float()
        weights_T[: _learnt(sample, step).start] = 0
        return (loss_T * weights_T).sum() / weights_T.sum().clamp(min=1)


def _learnt(sample: Sample, step: int) -> range:
    """The rows of a step to learn: row i has token i + 1 + step beside it, and predicts the one after that."""
    return range(max(sample.first - 2 - step, 0), len(sample) - 2 - step)


class FeatureLesson(EagleLesson):
    """EAGLE's layer over samples."""

    @override
    @staticmethod
    def layers(shape: Shape, settings: EagleSettings) -> tuple[int, ...]:
        return (NORMED,)

    def tensors(self) -> dict[str, torch.Tensor]:
        """As `papers.eagle.EagleLayer` reads them: the target's embeddings are not scaled there."""
        found = {name: value.detach().clone() for name, value in self._parts.items()}
        found["fc"][:, : self._shape.width] *= self._embedded_scale
        return found | {"feature_scale": self._scale_E, "head": self._head_DE, "ids": self._teacher.ids_D}

    def beginning(self) -> dict[str, torch.Tensor]:
        """The best linear guess, with attention and inner layer adding nothing."""
        self._embedded_scale = 1 / self._teacher.embedding_UE.square().mean().sqrt()
        self._scale_E = 1 / _square_means(self._samples, self._teacher.shape.width).sqrt().clamp(min=1e-6)
        self._head_DE = self._teacher.head_DE / self._scale_E
        shape = self._shape
        width, heads = shape.width, shape.heads * shape.head_dim
        draw = torch.Generator().manual_seed(self._seed)

        def drawn(rows: int, columns: int) -> torch.Tensor:
            return torch.randn((rows, columns), generator=draw).mul(columns**-0.5)

        return {
            "fc": self._linear_guess(),
            **{name: drawn(heads, width) for name in ("q", "k", "v")},
            **{name: drawn(shape.inner, width) for name in ("gate", "up")},
            "o": torch.zeros(width, heads),
            "down": torch.zeros(width, shape.inner),
            "norm_post": torch.ones(width),
        }

    def _linear_guess(self) -> torch.Tensor:
        """The matrix from embedding and features to the next features with the least squared error, [E, 2E]."""
        width = self._shape.width
        squares, products, rows = torch.zeros(2 * width, 2 * width), torch.zeros(2 * width, width), 0
        for sample in self._samples:
            x_TF, next_TE = self._seen(sample)
            squares += x_TF.T @ x_TF
            products += x_TF.T @ next_TE
            rows += len(x_TF)
            if rows > FITTED:
                break
        held_back = torch.diag(squares.diagonal() * RIDGE + 1e-6 * max(rows, 1))
        guess_EF: torch.Tensor = torch.linalg.solve(squares + held_back, products)
        return guess_EF.T.contiguous()

    def _seen(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        features_TE, embedded_TE = self._inputs(sample)
        return torch.cat([embedded_TE[2:], features_TE[1:-1]], 1), features_TE[2:]

    @override
    def _inputs(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        embedded_TE = self._teacher.embed(torch.from_numpy(sample.tokens)) * self._embedded_scale
        return states_of(sample)[:, -1] * self._scale_E, embedded_TE

    @override
    def _target(self, sample: Sample, features_TE: torch.Tensor) -> torch.Tensor:
        return torch.softmax(features_TE @ self._head_DE.T, dim=1)

    @override
    def _losses(self, hidden_TE: torch.Tensor, features_TE: torch.Tensor, target_TD: torch.Tensor) -> torch.Tensor:
        said_TD = torch.log_softmax(F.linear(hidden_TE, self._head_DE), dim=1)
        off_T = F.smooth_l1_loss(hidden_TE, features_TE, reduction="none").mean(1)
        return off_T - SAYING * (target_TD * said_TD).sum(1)


def _square_means(samples: Sequence[Sample], width: int) -> torch.Tensor:
    """Of each number of the features, over the samples."""
    total, rows = torch.zeros(width), 1
    for sample in samples:
        states_TE = states_of(sample)[1:, -1]
        total += states_TE.square().sum(0)
        rows += len(states_TE)
    return total / rows
