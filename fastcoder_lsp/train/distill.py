"""DistillSpec: a smaller model learns to say what the target says, so that more of its drafts are accepted.

Zhou et al. 2024, *DistillSpec: Improving Speculative Decoding via Knowledge Distillation*, section 4: on texts that the
target said itself, the loss is a divergence between both models' distributions at every token; here the forward KL, one
of the paper's two that need no draws of the student (its on-policy data would have to be said anew after every step).
Owns the lesson: the student's passes and the loss; texts and the target's states are `samples`'.

Legend: T tokens of a text, E width of the target, V tokens that both models know.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.train.boosting import Earlier
from fastcoder_lsp.train.losses import CHUNK_CPU
from fastcoder_lsp.train.samples import Sample, order
from fastcoder_lsp.train.teacher import states_of
from fastcoder_lsp.train.trainable import Trainable

LAYERS = (NORMED,)


@dataclass(frozen=True, slots=True)
class DistillSettings:
    """What is taught to whom.

    Attributes:
        student: the smaller model, as for `--model`.
        said: tokens that the target says behind each text's half.
        boost: students that were tuned before: only what all of them miss is learnt (`boosting`).
    """

    student: str = ""
    said: int = 64
    boost: tuple[str, ...] = ()


class DistillLesson:
    """A student over samples: `batch` of these a step (`loop.Lesson`).

    Args:
        trainable: the student.
        head_VE: the target's head.
        samples: texts that the target said, with its last normed states.
        held: likewise, never learnt from.
        batch: samples a step.
        seed: of their order.
        earlier: students that were tuned before; None: there are none.
    """

    def __init__(
        self,
        trainable: Trainable,
        head_VE: torch.Tensor,
        samples: Sequence[Sample],
        held: Sequence[Sample],
        *,
        batch: int,
        seed: int,
        earlier: Earlier | None = None,
    ) -> None:
        self.trainable, self._earlier = trainable, earlier or Earlier()
        self._head_VE, self._samples, self._held = head_VE, samples, held
        self._batch, self._seed = batch, seed

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The student's that change (`Lesson`)."""
        return self.trainable.parameters()

    def gradients(self, step: int) -> dict[str, float]:
        """Of a step's samples (`Lesson`)."""
        means = {"divergence": 0.0}
        for index in range(step * self._batch, (step + 1) * self._batch):
            sample = self._samples[order(len(self._samples), self._seed, index)]
            with self.trainable.precision():
                loss = self._loss(sample)
            (loss / self._batch).backward()  # type: ignore[no-untyped-call]
            means["divergence"] += loss.item() / self._batch
        return means

    def held_out(self) -> dict[str, float]:
        """Of the samples that no step shows (`Lesson`)."""
        if not self._held:
            return {}
        with torch.no_grad(), self.trainable.precision():
            return {"divergence": sum(self._loss(one).item() for one in self._held) / len(self._held)}

    def _loss(self, sample: Sample) -> torch.Tensor:
        """The mean forward KL over the tokens that the target said and no earlier student says, in nats."""
        start = max(sample.first - 1, 0)
        tokens = torch.from_numpy(sample.tokens)[None]
        said_TV = self.trainable.model(input_ids=tokens, use_cache=False).logits[0, start:]
        known = min(said_TV.shape[1], len(self._head_VE))
        state_TE = states_of(sample)[start:, 0]
        earlier_NT = self._earlier.said(sample)[:, start:]
        rows = max(1, CHUNK_CPU // known)
        total, count = torch.zeros(()), 0
        for first in range(0, len(state_TE), rows):
            right_CV = torch.log_softmax(state_TE[first : first + rows] @ self._head_VE[:known].T, dim=1)
            own_CV = torch.log_softmax(said_TV[first : first + rows, :known].float(), dim=1)
            learnt_C = (earlier_NT[:, first : first + rows] != right_CV.argmax(1)).all(0)
            total = total + ((right_CV.exp() * (right_CV - own_CV)).sum(1) * learnt_C).sum()
            count += int(learnt_C.sum())
        # Where nothing is left to learn the sum is of zeros, which has a gradient, too: none.
        return total / max(count, 1)
