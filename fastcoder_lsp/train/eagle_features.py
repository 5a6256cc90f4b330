"""EAGLE's first layer: the features of a token, and the token after it, give the features of that one.

Li et al. 2024, *EAGLE*, sections 3.1 and 3.2: the features are the target's last, its own head reads them, and the loss
is how far they are off (smooth L1) and 0.1 · cross-entropy to what the target says of them; the layer of EAGLE-2 is
the same. Three choices. The layer begins as the best linear guess (least squares over the samples), with attention and
inner layer adding nothing yet: what it need not learn step by step it knows at once. Features are scaled to 1 in each
number, for a few of a model's are a hundred times as large as the others. And where EAGLE adds noise, so that the layer
gets used to features that are a little wrong, it is shown its own (training-time test, EAGLE-3).

Legend: T rows, E width, D tokens that can be said.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.train.eagle import EagleLesson, EagleSettings
from fastcoder_lsp.train.eagle_steps import Steps
from fastcoder_lsp.train.samples import Sample
from fastcoder_lsp.train.teacher import Teacher, states_of

SAYING = 0.1
"""What the cross-entropy weighs against the distance of the features (published)."""
FITTED = 60_000
"""Tokens that the linear guess is fitted to, at most."""
RIDGE = 1e-2
"""Of each number's own square mean, what holds its weights back where there is little text."""


class FeatureLesson(EagleLesson):
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
        self._embedded_scale = 1 / teacher.embedding_UE.square().mean().sqrt()
        self._scale_E = 1 / _square_means(samples, teacher.shape.width).sqrt().clamp(min=1e-6)
        self._head_DE = teacher.head_DE / self._scale_E
        super().__init__(teacher, samples, held, settings, batch=batch, seed=seed)

    def tensors(self) -> dict[str, torch.Tensor]:
        """As `draft.eagle_layer.EagleLayer` reads them: the target's embeddings are not scaled there."""
        found = {name: value.detach().clone() for name, value in self._parts.items()}
        found["fc"][:, : self._shape.width] *= self._embedded_scale
        return found | {"feature_scale": self._scale_E, "head": self._head_DE, "ids": self._teacher.ids_D}

    def _beginning(self) -> dict[str, torch.Tensor]:
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
        """What gives the next features with the least squared error, from embedding and features; [E, 2E]."""
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
        """Embeddings and features of a text's rows, and the features that come next; the first token's is like none."""
        features_TE, embedded_TE = self._inputs(sample)
        return torch.cat([embedded_TE[2:], features_TE[1:-1]], 1), features_TE[2:]

    def _inputs(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        embedded_TE = self._teacher.embed(torch.from_numpy(sample.tokens)) * self._embedded_scale
        return states_of(sample)[:, -1] * self._scale_E, embedded_TE

    def _steps(self, sample: Sample) -> list[torch.Tensor]:
        """The mean loss of each step of training-time test over one sample."""
        features_TE, embedded_TE = self._inputs(sample)
        with torch.no_grad():
            target_TD = torch.softmax(features_TE @ self._head_DE.T, dim=1)
        known_T = self._teacher.places_V[torch.from_numpy(sample.tokens)] >= 0
        layer, hidden_TE = Steps(self._parts, self._shape), features_TE
        found: list[torch.Tensor] = []
        for step in range(self._settings.steps):
            rows = len(sample) - 2 - step  # as in `EagleLesson`
            start = max(sample.first - 2 - step, 0)
            if rows <= start:
                break
            hidden_TE = layer.step(embedded_TE[1 + step : 1 + step + rows], hidden_TE[:rows])
            said_TD = torch.log_softmax(F.linear(hidden_TE, self._head_DE), dim=1)
            saying_T = -(target_TD[1 + step : 1 + step + rows] * said_TD).sum(1)
            off_T = F.smooth_l1_loss(hidden_TE, features_TE[1 + step : 1 + step + rows], reduction="none").mean(1)
            weights_T = known_T[2 + step : 2 + step + rows].float()
            weights_T[:start] = 0
            found.append(((off_T + SAYING * saying_T) * weights_T).sum() / weights_T.sum().clamp(min=1))
        return found


def _square_means(samples: Sequence[Sample], width: int) -> torch.Tensor:
    """Of each number of the features, over the samples."""
    total, rows = torch.zeros(width), 1
    for sample in samples:
        states_TE = states_of(sample)[1:, -1]
        total += states_TE.square().sum(0)
        rows += len(states_TE)
    return total / rows
