"""Medusa-2: the heads and the model are taught together, and a model comes out that is easier to say ahead of.

Cai et al. 2024, *Medusa*, section 2.2.2: the loss is the model's own (the next token) and λ0 times that of the heads;
the heads learn alone at first, then both, the heads by a larger rate. So the tokens are no longer the old model's: what
is decoded exactly is the tuned one. Owns the lesson. The optimiser knows one rate, so heads are kept as a quarter of
what they are: by AdamW, whose steps are as long whatever a gradient's size is, they learn four times as fast.

Legend: T tokens of a window, K heads, B blocks, E width, D tokens that heads can say.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn import functional as F  # noqa: N812 its name everywhere

from fastcoder_lsp.train import sequences
from fastcoder_lsp.train.medusa import FADE, MedusaSettings, head_outputs
from fastcoder_lsp.train.teacher import Teacher
from fastcoder_lsp.train.trainable import Trainable

SHARE = 0.2
"""λ0: what the heads' loss weighs beside the model's."""
FASTER = 4.0
"""The heads' rate over the model's."""
ALONE = 0.2
"""Of the steps, those in which the heads learn alone."""


class JointLesson:
    """A model and heads over windows of text: `batch` of these a step (`loop.Lesson`).

    Args:
        trainable: the model.
        texts: the windows.
        places_V: for each token its place among those that heads can say; -1 for the others.
        head_DE: their rows of the model's head, which the heads share and which stays as it is.
        settings: of the heads.
        alone: steps in which the heads learn alone.
        batch: windows a step.
    """

    def __init__(
        self,
        trainable: Trainable,
        texts: sequences.Sequences,
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
        """What changes (`Lesson`)."""
        return self.trainable.parameters() | {"heads/bias": self._bias_KBE, "heads/weight": self._weight_KBEE}

    def gradients(self, step: int) -> dict[str, float]:
        """Of a step's windows (`Lesson`)."""
        shown = [self._texts.at(index) for index in range(step * self._batch, (step + 1) * self._batch)]
        means = self._losses(shown, learn=True, alone=step < self._alone)
        for parameter in self.trainable.parameters().values():
            if parameter.grad is None:  # it has no gradient, but it counts this step as the others do
                parameter.grad = torch.zeros_like(parameter)
        return means

    def held_out(self) -> dict[str, float]:
        """Of the windows that no step shows (`Lesson`)."""
        with torch.no_grad():
            return self._losses(self._held, learn=False, alone=False)

    def heads(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The heads' blocks and biases as they are, [K, B, E, E] and [K, B, E]."""
        return FASTER * self._weight_KBEE.detach(), FASTER * self._bias_KBE.detach()

    def taught(self, teacher: Teacher) -> Teacher:
        """`teacher`, with the tokens that the heads can say and the rows of the head that they learnt by."""
        ids_D = torch.nonzero(self._places_V >= 0)[:, 0]
        return replace(teacher, ids_D=ids_D, places_V=self._places_V, head_DE=self._head_DE)

    def _losses(self, windows: Sequence[sequences.Sequence], *, learn: bool, alone: bool) -> dict[str, float]:
        """The mean of each window's losses; where it is learnt from, gradients of their weighed sum are added."""
        means: dict[str, float] = {}
        for window in windows:
            losses = self._window(window, alone=alone)
            for name, loss in losses.items():
                means[name] = means.get(name, 0.0) + loss.item() / len(windows)
            if learn:
                heads = [losses[name] for name in losses if name != "plain"]
                total = sum((SHARE * FADE**head * loss for head, loss in enumerate(heads)), torch.zeros(()))
                total = total if alone else total + losses["plain"]
                if total.requires_grad:
                    (total / len(windows)).backward()  # type: ignore[no-untyped-call]
        return means

    def _window(self, window: sequences.Sequence, *, alone: bool) -> dict[str, torch.Tensor]:
        """`plain`: the model's cross-entropy of the next token; `head1`…: the heads'; of text alone, in nats."""
        tokens = torch.from_numpy(window.tokens)
        labels_T = torch.where(torch.from_numpy(window.text), tokens, -1)
        with self.trainable.precision(), torch.set_grad_enabled(torch.is_grad_enabled() and not alone):
            said = self.trainable.model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
        state_TE = said.hidden_states[-1][0].float()
        losses = {"plain": _loss(said.logits[0, :-1].float(), labels_T[1:])}
        places_T = torch.where(labels_T < 0, -1, self._places_V[tokens])
        heads = head_outputs(
            state_TE, places_T, FASTER * self._weight_KBEE, FASTER * self._bias_KBE, self._head_DE[None]
        )
        for head, (logits_ND, places_N) in enumerate(heads):
            losses[f"head{head + 1}"] = _loss(logits_ND, places_N)
        return losses


def _loss(logits_NV: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy where there is a label; 0 where there is none."""
    known = max(int((labels_N >= 0).sum()), 1)
    return F.cross_entropy(logits_NV, labels_N, ignore_index=-1, reduction="sum") / known
