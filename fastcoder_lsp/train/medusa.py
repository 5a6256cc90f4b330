"""Medusa's heads: each learns to say the token one place further ahead from the target's last hidden state.

Cai et al. 2024, *Medusa*, section 2.2.1 (Medusa-1: the target is frozen; Medusa-2 is `medusa_joint`): the loss is the
sum of the heads' cross-entropies, each weighing λ = 0.8 of the one before; heads begin as the target's own. Owns the
module, the loss, and the accuracies of the candidates by rank, which the tree is built from. A choice: all heads share
the target's frozen head and differ in their residual blocks; the paper gives each a head of its own, which `own` does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.train.samples import Sample, order
from fastcoder_lsp.train.teacher import Teacher, states_of

LAYERS = (NORMED,)
FADE = 0.8
"""λ: what a head's loss weighs against that of the head before it."""
RANKS = 10
"""Candidates of a head whose accuracies are measured."""


@dataclass(frozen=True, slots=True)
class MedusaSettings:
    """`heads`: published 5, of which 4 are used; `blocks`: residual blocks of each (published 1); `own`: see above."""

    heads: int = 4
    blocks: int = 1
    own: bool = False


class MedusaLesson:
    """Heads over samples: `batch` of these a step (`loop.Lesson`).

    Legend: T tokens of a sample, K heads, B blocks, E width, D tokens that can be said.
    """

    def __init__(
        self,
        teacher: Teacher,
        samples: Sequence[Sample],
        held: Sequence[Sample],
        settings: MedusaSettings,
        *,
        batch: int,
        seed: int,
    ) -> None:
        width = teacher.shape.width
        sizes = (settings.heads, settings.blocks, width)
        self.weight_KBEE = torch.nn.Parameter(torch.zeros(*sizes, width))
        self.bias_KBE = torch.nn.Parameter(torch.zeros(sizes))
        head = teacher.head_DE.expand(settings.heads, -1, -1).clone() if settings.own else teacher.head_DE
        self.head = torch.nn.Parameter(head, requires_grad=settings.own)
        self._teacher, self._samples, self._held, self._settings = teacher, samples, held, settings
        self._batch, self._seed = batch, seed

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """What changes (`Lesson`)."""
        found = {"blocks.bias": self.bias_KBE, "blocks.weight": self.weight_KBEE}
        return found | ({"head": self.head} if self._settings.own else {})

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
        """For each head how often its i-th candidate is right, on samples that no step shows."""
        right_KR, seen_K = np.zeros((self._settings.heads, RANKS)), np.zeros(self._settings.heads)
        with torch.no_grad():
            for sample in self._held or self._samples[:8]:
                for head, (logits_ND, labels_N) in enumerate(self._outputs(sample)):
                    best_NR = logits_ND.topk(min(RANKS, logits_ND.shape[1])).indices
                    hits_R = (best_NR == labels_N[:, None]).float().sum(0).numpy()
                    right_KR[head, : len(hits_R)] += hits_R
                    seen_K[head] += len(labels_N)
        return tuple(map(tuple, (right_KR / np.maximum(seen_K, 1)[:, None]).tolist()))

    def tensors(self) -> dict[str, torch.Tensor]:
        """As `draft.medusa.Heads` reads them."""
        parts = {"blocks.weight": self.weight_KBEE, "blocks.bias": self.bias_KBE, "head": self.head}
        return {name: value.detach() for name, value in parts.items()} | {"ids": self._teacher.ids_D}

    def _losses(self, samples: Sequence[Sample], *, learn: bool) -> dict[str, float]:
        """The mean cross-entropy of each head; where it is learnt from, gradients of their weighed sum are added."""
        means: dict[str, float] = {}
        counts = [
            sum(max(len(one) - self._from(one) - 2 - head, 1) for one in samples)
            for head in range(self._settings.heads)
        ]
        for sample in samples:
            for head, (logits_ND, labels_N) in enumerate(self._outputs(sample)):
                name = f"head{head + 1}"
                known = int((labels_N >= 0).sum())
                if not known:
                    continue
                loss = F.cross_entropy(logits_ND, labels_N, ignore_index=-1, reduction="sum") / counts[head]
                if learn:
                    (FADE**head * loss).backward()  # type: ignore[no-untyped-call]
                means[name] = means.get(name, 0.0) + loss.item()
        return means

    @staticmethod
    def _from(sample: Sample) -> int:
        return max(sample.first - 1, 0)

    def _outputs(self, sample: Sample) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """For each head its logits [N, D] and labels [N]: from the state of token t it says token t + 2 + k."""
        start = self._from(sample)
        state_TE = states_of(sample)[start:, 0]
        labels_T = self._teacher.places_V[torch.from_numpy(sample.tokens.astype(np.int64))][start:]
        own = self.head if self._settings.own else self.head[None]
        yield from head_outputs(state_TE, labels_T, self.weight_KBEE, self.bias_KBE, own)


def head_outputs(
    state_TE: torch.Tensor,
    labels_T: torch.Tensor,
    weight_KBEE: torch.Tensor,
    bias_KBE: torch.Tensor,
    head_HDE: torch.Tensor,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For each head its logits [N, D] and labels [N]: from the state of token t it says token t + 2 + k.

    Args:
        state_TE: the last states of a text.
        labels_T: its tokens, as they are labelled.
        weight_KBEE: the heads' blocks.
        bias_KBE: their biases.
        head_HDE: a matrix over the tokens for each head, or one for all.
    """
    for head, (weight_BEE, bias_BE) in enumerate(zip(weight_KBEE, bias_KBE, strict=True)):
        x_NE = state_TE[: max(len(state_TE) - 2 - head, 0)]
        for weight_EE, bias_E in zip(weight_BEE, bias_BE, strict=True):
            x_NE = x_NE + F.silu(F.linear(x_NE, weight_EE, bias_E))
        yield F.linear(x_NE, head_HDE[head % len(head_HDE)]), labels_T[2 + head :]
