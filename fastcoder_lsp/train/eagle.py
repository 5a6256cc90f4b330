"""EAGLE-3's layer: from the target's features it learns to go on with its own.

Li et al. 2025, *EAGLE-3*, section 3: no features are predicted, only tokens; the features are those behind a low, a
middle and a high layer; *training-time test* shows the layer its own output for as many steps as it will go on by
itself when decoding. Loss = Σ_j 0.8^j · cross-entropy to the target's probabilities at step j, over the tokens that can
be said. Owns the module and the loss. The row of token i at step j has token i + 1 + j beside it and sees the target's
features up to i, and of its own steps those of row i.

Legend: T rows, E width, D tokens that can be said, H heads, K of them with keys, d numbers of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.train.eagle_steps import Steps
from fastcoder_lsp.train.rotation import THETA, normed
from fastcoder_lsp.train.samples import Sample, order
from fastcoder_lsp.train.teacher import Teacher, states_of

FADE = 0.8
"""What a step's loss weighs against that of the step before."""


@dataclass(frozen=True, slots=True)
class EagleSettings:
    """Which layer, and how it learns.

    Attributes:
        steps: of training-time test (EAGLE-3: published 7; EAGLE: 1).
        version: 3 for EAGLE-3's layer, 1 for the one of EAGLE and EAGLE-2 (`eagle_features`).
        inner: width of the inner layer; 0: the target's.
    """

    steps: int = 4
    version: int = 3
    inner: int = 0


def layers_of(layers: int) -> tuple[int, ...]:
    """A low, a middle and a high layer of a target of so many, as the published checkpoints have them."""
    return (min(2, layers), max(1, layers // 2), max(1, layers - 3))


def sized(shape: Shape, settings: EagleSettings) -> Shape:
    """The layer's sizes: the target's, but for what `settings` say, and values for every head in EAGLE's layer.

    What a row says of the next token comes to it through the values alone, there: shared among a small model's heads
    they are too narrow for it.
    """
    inner = settings.inner or shape.inner
    return replace(shape, inner=inner, kv_heads=shape.heads if settings.version == 1 else shape.kv_heads)


def numbers_of(shape: Shape, settings: EagleSettings) -> dict[str, float]:
    """What the drafter's record says of the layer."""
    shape = sized(shape, settings)
    return {
        "version": settings.version,
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
        self._teacher, self._samples, self._held = teacher, samples, held
        self._settings, self._batch, self._seed = settings, batch, seed
        self._shape = sized(teacher.shape, settings)
        self._parts = {name: torch.nn.Parameter(value) for name, value in sorted(self._beginning().items())}

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

    def _beginning(self) -> dict[str, torch.Tensor]:
        """The parameters before the first step."""
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
        layer = Steps(self._parts, self._shape)
        found: list[torch.Tensor] = []
        for step in range(self._settings.steps):
            rows = len(sample) - 2 - step  # row i has token i + 1 + step beside it, and says the one after that
            start = max(sample.first - 2 - step, 0)
            if rows <= start:
                break
            hidden_TE = layer.step(self._teacher.embed(tokens_T[1 + step : 1 + step + rows]), hidden_TE[:rows])
            logits_TD = F.linear(
                normed(hidden_TE, self._parts["norm_last"], self._teacher.shape.eps), self._parts["head"]
            )
            loss_T = -(target_TD[1 + step : 1 + step + rows] * torch.log_softmax(logits_TD, dim=1)).sum(1)
            weights_T = known_T[2 + step : 2 + step + rows].float()
            weights_T[:start] = 0
            found.append((loss_T * weights_T).sum() / weights_T.sum().clamp(min=1))
        return found
