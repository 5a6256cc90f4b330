"""EAGLE-3's layer: from the target's features it learns to go on with its own.

Li et al. 2025, *EAGLE-3*, section 3: no features are predicted, only tokens; the features are those behind a low, a
middle and a high layer; *training-time test* shows the layer its own output for as many steps as it will go on by
itself when decoding. Loss = Σ_j 0.8^j · cross-entropy to the target's probabilities at step j, over the tokens that can
be said. Owns the module and the loss. The row of token i at step j has token i + 1 + j beside it and sees the target's
features up to i, and of its own steps those of row i.

Legend: T rows, E width, D tokens that can be said, H heads, K of them with keys, d numbers of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.train.rotation import THETA, normed, turned
from fastcoder_lsp.train.samples import Sample, order
from fastcoder_lsp.train.teacher import Teacher, states_of

FADE = 0.8
"""What a step's loss weighs against that of the step before."""


@dataclass(frozen=True, slots=True)
class EagleSettings:
    """`steps`: of training-time test (published 7)."""

    steps: int = 4


def layers_of(layers: int) -> tuple[int, ...]:
    """A low, a middle and a high layer of a target of so many, as the published checkpoints have them."""
    return (min(2, layers), max(1, layers // 2), max(1, layers - 3))


def numbers_of(shape: Shape) -> dict[str, float]:
    """What the drafter's record says of the layer's sizes: the target's."""
    return {
        "version": 3,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "theta": THETA,
        "eps": shape.eps,
    }


class EagleLesson:
    """The layer over samples: `batch` of these a step (`loop.Lesson`)."""

    def __init__(
        self,
        teacher: Teacher,
        samples: Sequence[Sample],
        held: Sequence[Sample],
        settings: EagleSettings,
        *,
        batch: int,
        seed: int,
    ) -> None:
        shape = teacher.shape
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
        draw = torch.Generator().manual_seed(seed)
        found = {name: torch.randn(size, generator=draw) * size[1] ** -0.5 for name, size in sizes.items()}
        found |= {name: torch.ones(width) for name in ("norm_input", "norm_hidden", "norm_post", "norm_last")}
        found["head"] = teacher.head_DE.clone()
        self._parts = {name: torch.nn.Parameter(value) for name, value in sorted(found.items())}
        self._teacher, self._samples, self._held = teacher, samples, held
        self._settings, self._batch, self._seed = settings, batch, seed

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """What changes (`Lesson`)."""
        return self._parts

    def gradients(self, step: int) -> dict[str, float]:
        """Of a step's samples (`Lesson`)."""
        chosen = range(step * self._batch, (step + 1) * self._batch)
        shown = [self._samples[order(len(self._samples), self._seed, index)] for index in chosen]
        return self._losses(shown, learn=True)

    def held_out(self) -> dict[str, float]:
        """Of the samples that no step shows (`Lesson`)."""
        with torch.no_grad():
            return self._losses(self._held, learn=False)

    def ranks(self) -> tuple[tuple[float, ...], ...]:
        """None: the tree grows by the layer's own confidence."""
        return ()

    def tensors(self) -> dict[str, torch.Tensor]:
        """As `draft.eagle_layer.EagleLayer` reads them."""
        return {name: value.detach() for name, value in self._parts.items()} | {"ids": self._teacher.ids_D}

    def _losses(self, samples: Sequence[Sample], *, learn: bool) -> dict[str, float]:
        means: dict[str, float] = {}
        for sample in samples:
            losses = self._steps(sample)
            if learn and losses:
                weighed = [FADE**step * loss / len(samples) for step, loss in enumerate(losses)]
                torch.stack(weighed).sum().backward()  # type: ignore[no-untyped-call]
            for step, loss in enumerate(losses):
                name = f"step{step + 1}"
                means[name] = means.get(name, 0.0) + loss.item() / len(samples)
        return means

    def _steps(self, sample: Sample) -> list[torch.Tensor]:
        """The mean loss of each step of training-time test over one sample."""
        states_TLE = states_of(sample)
        tokens_T = torch.from_numpy(sample.tokens)
        with torch.no_grad():
            target_TD = torch.softmax(states_TLE[:, -1] @ self._teacher.head_DE.T, dim=1)
        known_T = self._teacher.places_V[tokens_T] >= 0
        hidden_TE = F.linear(states_TLE[:, :-1].flatten(1), self._parts["fc"])
        pass_ = _Steps(self._parts, self._teacher.shape, len(sample))
        found: list[torch.Tensor] = []
        for step in range(self._settings.steps):
            rows = len(sample) - 2 - step  # row i has token i + 1 + step beside it, and says the one after that
            start = max(sample.first - 2 - step, 0)
            if rows <= start:
                break
            hidden_TE = pass_.step(self._teacher.embed(tokens_T[1 + step : 1 + step + rows]), hidden_TE[:rows])
            logits_TD = F.linear(
                normed(hidden_TE, self._parts["norm_last"], self._teacher.shape.eps), self._parts["head"]
            )
            loss_T = -(target_TD[1 + step : 1 + step + rows] * torch.log_softmax(logits_TD, dim=1)).sum(1)
            weights_T = known_T[2 + step : 2 + step + rows].float()
            weights_T[:start] = 0
            found.append((loss_T * weights_T).sum() / weights_T.sum().clamp(min=1))
        return found


class _Steps:
    """The layer over a text's rows, step after step; the keys of later steps are seen by their own row alone."""

    def __init__(self, parts: dict[str, torch.nn.Parameter], shape: Shape, rows: int) -> None:
        self._parts, self._shape, self._rows = parts, shape, rows
        self._keys: list[tuple[torch.Tensor, torch.Tensor]] = []

    def step(self, embedded_TE: torch.Tensor, hidden_TE: torch.Tensor) -> torch.Tensor:
        """What each row says, [T, E]; the rows may be fewer than in the step before."""
        parts, shape, step = self._parts, self._shape, len(self._keys)
        rows, heads, kv, dim = len(hidden_TE), shape.heads, shape.kv_heads, shape.head_dim
        both = [normed(embedded_TE, parts["norm_input"], shape.eps), normed(hidden_TE, parts["norm_hidden"], shape.eps)]
        x = torch.cat(both, dim=1)
        places_T = torch.arange(rows) + step
        q_HTd = turned(F.linear(x, parts["q"]).view(rows, heads, dim), places_T).transpose(0, 1)
        k_KTd = turned(F.linear(x, parts["k"]).view(rows, kv, dim), places_T).transpose(0, 1)
        v_KTd = F.linear(x, parts["v"]).view(rows, kv, dim).transpose(0, 1)
        self._keys.append((k_KTd, v_KTd))
        mixed_HTd = self._attend(q_HTd, rows, heads // kv)
        x_TE = hidden_TE + F.linear(mixed_HTd.transpose(0, 1).reshape(rows, heads * dim), parts["o"])
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
