"""Medusa's heads: each learns to predict the token one place further ahead from the target's last hidden state.

Cai et al. 2024, *Medusa*. Medusa-1, section 2.2.1: the target is frozen; the loss is the sum of the heads'
cross-entropies, each weighing λ = 0.8 of the one before; heads begin as the target's own. One choice differs: all heads
share the target's frozen head and differ in their residual blocks; the paper gives each a head of its own, as `own`
does.

Medusa-2, section 2.2.2: heads and model are trained together. The loss is the model's own (the next token) and λ0 times
that of the heads; the heads learn alone at first, then both, the heads by a larger rate. The result is a model with
other answers. The optimiser knows one rate, so heads are stored as a quarter of their values: with AdamW, whose steps
do not depend on a gradient's size, they learn four times as fast.

Legend: T tokens of a sample or window, K heads, B blocks, E width, D tokens that can be predicted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere
from typing_extensions import override

from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.papers.train import example
from fastcoder_lsp.papers.train.samples import DrafterLesson, Sample, Teacher, states_of
from fastcoder_lsp.papers.train.trainable import Trainable

FADE = 0.8  # λ: the weight of a head's loss over that of the head before it
RANKS = 10  # candidates of a head whose accuracies are measured
HEADS_SHARE = 0.2  # λ0 of Medusa-2: the weight of the heads' loss beside the model's
FASTER = 4.0  # the heads' rate over the model's
ALONE = 0.2  # the share of steps in which the heads learn alone


@dataclass(frozen=True, slots=True)
class MedusaSettings:
    """`heads`: published 5, of which 4 are used; `blocks`: residual blocks of each (published 1); `own`: see above."""

    heads: int = 4
    blocks: int = 1
    own: bool = False


class MedusaLesson(DrafterLesson[MedusaSettings]):
    """Heads over samples (Medusa-1)."""

    method = "medusa"

    @override
    @staticmethod
    def numbers(shape: Shape, settings: MedusaSettings) -> dict[str, float]:
        return {"heads": settings.heads, "blocks": settings.blocks}

    def beginning(self) -> dict[str, torch.Tensor]:
        """Blocks that add nothing, and copies of the target's head where each head has its own."""
        sizes = (self._settings.heads, self._settings.blocks, self._teacher.shape.width)
        found = {"blocks.weight": torch.zeros(*sizes, sizes[-1]), "blocks.bias": torch.zeros(sizes)}
        if self._settings.own:
            found["head"] = self._teacher.head_DE.expand(self._settings.heads, -1, -1).clone()
        return found

    def tensors(self) -> dict[str, torch.Tensor]:
        """With the target's head where all share it."""
        return {"head": self._teacher.head_DE} | super().tensors()

    def ranks(self) -> tuple[tuple[float, ...], ...]:
        """For each head how often its i-th candidate is right, on held-out samples; empty without samples."""
        shown = self._held or self._samples[:8]
        if not shown:
            return ()
        right_KR, seen_K = np.zeros((self._settings.heads, RANKS)), np.zeros(self._settings.heads)
        with torch.no_grad():
            for sample in shown:
                for head, (logits_ND, labels_N) in enumerate(self._outputs(sample)):
                    best_NR = logits_ND.topk(min(RANKS, logits_ND.shape[1])).indices
                    hits_R = (best_NR == labels_N[:, None]).float().sum(0).numpy()
                    right_KR[head, : len(hits_R)] += hits_R
                    seen_K[head] += len(labels_N)
        return tuple(map(tuple, (right_KR / np.maximum(seen_K, 1)[:, None]).tolist()))

    def losses(self, shown: Sequence[tuple[Sample, str]], *, learn: bool) -> dict[str, float]:
        """The mean cross-entropy of each head; one head is learnt at a time, so that its logits alone take memory."""
        samples, means = [sample for sample, _ in shown], dict[str, float]()
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
        start = self._from(sample)
        state_TE = states_of(sample)[start:, 0]
        labels_T = self._teacher.places_V[torch.from_numpy(sample.tokens.astype(np.int64))][start:]
        head_HDE = self._parts.get("head", self._teacher.head_DE[None])
        yield from head_outputs(state_TE, labels_T, self._parts["blocks.weight"], self._parts["blocks.bias"], head_HDE)


def head_outputs(
    state_TE: torch.Tensor,
    labels_T: torch.Tensor,
    weight_KBEE: torch.Tensor,
    bias_KBE: torch.Tensor,
    head_HDE: torch.Tensor,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For each head k its logits [N, D] and labels [N]: from the state of token t it predicts token t + 2 + k.

    `head_HDE` is a matrix over the tokens for each head, or one for all.
    """
    for head, (weight_BEE, bias_BE) in enumerate(zip(weight_KBEE, bias_KBE, strict=True)):
        x_NE = state_TE[: max(len(state_TE) - 2 - head, 0)]
        for weight_EE, bias_E in zip(weight_BEE, bias_BE, strict=True):
            x_NE = x_NE + F.silu(F.linear(x_NE, weight_EE, bias_E))
        yield F.linear(x_NE, head_HDE[head % len(head_HDE)]), labels_T[2 + head :]


class JointLesson:
    """A model and heads over windows of text, `batch` of them in a step (Medusa-2; `loop.Lesson`).

    `places_V`: for each token its place among those that the heads can predict; -1 for the others. `head_DE`: the rows
    of the model's head for these tokens, shared by the heads and frozen. In the first `alone` steps only the heads
    learn.
    """

    def __init__(
        self,
        trainable: Trainable,
        texts: example.Sequences,
        places_V: torch.Tensor,
        head_DE: torch.Tensor,
        settings: MedusaSettings,
        *,
        alone: int,
        batch: int,
    ) -> None:
        sizes = (settings.heads, settings.blocks, head_DE.shape[1])
        self._weight_KBEE = torch.nn.Parameter(torch.zeros(*sizes, head_DE.shape[1]))
        self._bias_KBE = torch.nn.Parameter(torch.zeros(sizes))
        self.trainable, self._texts, self._places_V, self._head_DE = trainable, texts, places_V, head_DE
        self._settings, self._alone, self._batch = settings, alone, batch
        self._held = texts.held_out()[: trainable.settings.held_out]

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The model's and the heads'."""
        return self.trainable.parameters() | {"heads/bias": self._bias_KBE, "heads/weight": self._weight_KBEE}

    def gradients(self, step: int) -> dict[str, float]:
        """On a step's windows."""
        shown = [self._texts.at(index) for index in range(step * self._batch, (step + 1) * self._batch)]
        means = self._losses(shown, learn=True, alone=step < self._alone)
        for parameter in self.trainable.parameters().values():
            if parameter.grad is None:  # it has no gradient, but it counts this step as the others do
                parameter.grad = torch.zeros_like(parameter)
        return means

    def held_out(self) -> dict[str, float]:
        """On held-out windows."""
        with torch.no_grad():
            return self._losses(self._held, learn=False, alone=False)

    def heads(self) -> dict[str, torch.Tensor]:
        """The heads' true values, by the names of `MedusaLesson`."""
        return {"blocks.weight": FASTER * self._weight_KBEE.detach(), "blocks.bias": FASTER * self._bias_KBE.detach()}

    def taught(self, teacher: Teacher) -> Teacher:
        """`teacher` with the tokens and the rows of the head that the heads learnt with."""
        ids_D = torch.nonzero(self._places_V >= 0)[:, 0]
        return replace(teacher, ids_D=ids_D, places_V=self._places_V, head_DE=self._head_DE)

    def _losses(self, windows: Sequence[example.Sequence], *, learn: bool, alone: bool) -> dict[str, float]:
        """The mean of each window's losses; with `learn`, gradients of their weighted sum are added."""
        means: dict[str, float] = {}
        for window in windows:
            losses = self._window(window, alone=alone)
            for name, loss in losses.items():
                means[name] = means.get(name, 0.0) + loss.item() / len(windows)
            if learn:
                heads = [losses[name] for name in losses if name != "plain"]
                total = sum((HEADS_SHARE * FADE**head * loss for head, loss in enumerate(heads)), torch.zeros(()))
                total = total if alone else total + losses["plain"]
                if total.requires_grad:
                    (total / len(windows)).backward()  # type: ignore[no-untyped-call]
        return means

    def _window(self, window: example.Sequence, *, alone: bool) -> dict[str, torch.Tensor]:
        """`plain`: the model's cross-entropy of the next token; `head1`…: the heads'; of text alone, in nats."""
        tokens = torch.from_numpy(window.tokens)
        labels_T = torch.where(torch.from_numpy(window.text), tokens, -1)
        with self.trainable.precision(), torch.set_grad_enabled(torch.is_grad_enabled() and not alone):
            output = self.trainable.model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
        state_TE = output.hidden_states[-1][0].float()
        losses = {"plain": _loss(output.logits[0, :-1].float(), labels_T[1:])}
        places_T = torch.where(labels_T < 0, -1, self._places_V[tokens])
        heads = head_outputs(
            state_TE, places_T, FASTER * self._weight_KBEE, FASTER * self._bias_KBE, self._head_DE[None]
        )
        for head, (logits_ND, places_N) in enumerate(heads):
            losses[f"head{head + 1}"] = _loss(logits_ND, places_N)
        return losses


def _loss(logits_NV: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
    known = max(int((labels_N >= 0).sum()), 1)
    return F.cross_entropy(logits_NV, labels_N, ignore_index=-1, reduction="sum") / known
