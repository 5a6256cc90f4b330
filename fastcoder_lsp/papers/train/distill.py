"""DistillSpec: a smaller model learns to predict what the target predicts, so that more of its drafts are accepted.

Zhou et al. 2024, *DistillSpec: Improving Speculative Decoding via Knowledge Distillation*, section 4: on texts that the
target generated, the loss is a divergence between both models' distributions at every token; here the forward KL, one
of the paper's two that need no draws of the student (its on-policy data would have to be drawn after every step).

Boost-tuning is Miao et al. 2024, *SpecInfer*, section 3: smaller models are tuned one after another, each on the tokens
that the ones before it miss, so that their merged trees hold more of the target's answer. The paper leaves out prompts
whose whole continuation an earlier model predicts; here single tokens are left out, since a continuation of code is
seldom all right and never all wrong.

Legend: T tokens of a text, E width of the target, V tokens that both models know, N earlier students.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from fastcoder_lsp.papers.train.losses import CHUNK_CPU
from fastcoder_lsp.papers.train.samples import Sample, SampleLesson, states_of
from fastcoder_lsp.papers.train.trainable import Trainable, load_model


@dataclass(frozen=True, slots=True)
class DistillSettings:
    """`said`: tokens that the target generates after each text's first half; `boost`: students tuned earlier."""

    student: str = ""
    said: int = 64
    boost: tuple[str, ...] = ()


class EarlierStudents:
    """The students that were tuned before, often none; raises ModelInvalidError if transformers cannot load one."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._models = [load_model(folder, torch.float32).eval() for folder in folders]
        self._predictions: dict[bytes, torch.Tensor] = {}

    def predictions(self, sample: Sample) -> torch.Tensor:
        """The most likely token of each student after each token of a text, [N, T]; computed once."""
        text = sample.tokens.tobytes()
        if text not in self._predictions:
            tokens, best_NT = torch.from_numpy(sample.tokens)[None], torch.zeros((0, len(sample)), dtype=torch.int64)
            with torch.no_grad():
                for model in self._models:
                    best_T = model(input_ids=tokens, use_cache=False).logits[0].argmax(1)
                    best_NT = torch.cat([best_NT, best_T[None]])
            self._predictions[text] = best_NT
        return self._predictions[text]


class DistillLesson(SampleLesson):
    """A student over samples that the target generated; `head_VE` is the target's head."""

    def __init__(
        self,
        trainable: Trainable,
        head_VE: torch.Tensor,
        samples: Sequence[Sample],
        held: Sequence[Sample],
        *,
        batch: int,
        seed: int,
        earlier: EarlierStudents | None = None,
    ) -> None:
        super().__init__(samples, held, batch=batch, seed=seed)
        self.trainable, self._earlier = trainable, earlier or EarlierStudents()
        self._head_VE = head_VE

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The student's trained parameters."""
        return self.trainable.parameters()

    def terms(self, sample: Sample, _draw: str) -> dict[str, torch.Tensor]:
        """The divergence."""
        with self.trainable.precision():
            return {"divergence": self._loss(sample)}

    def _loss(self, sample: Sample) -> torch.Tensor:
        """The mean forward KL over the target's tokens that no earlier student predicts, in nats."""
        start = max(sample.first - 1, 0)
        tokens = torch.from_numpy(sample.tokens)[None]
        logits_TV = self.trainable.model(input_ids=tokens, use_cache=False).logits[0, start:]
        known = min(logits_TV.shape[1], len(self._head_VE))
        state_TE = states_of(sample)[start:, 0]
        earlier_NT = self._earlier.predictions(sample)[:, start:]
        rows = max(1, CHUNK_CPU // known)
        total, count = torch.zeros(()), 0
        for first in range(0, len(state_TE), rows):
            right_CV = torch.log_softmax(state_TE[first : first + rows] @ self._head_VE[:known].T, dim=1)
            own_CV = torch.log_softmax(logits_TV[first : first + rows, :known].float(), dim=1)
            learnt_C = (earlier_NT[:, first : first + rows] != right_CV.argmax(1)).all(0)
            total = total + ((right_CV.exp() * (right_CV - own_CV)).sum(1) * learnt_C).sum()
            count += int(learnt_C.sum())
        # Where nothing is left to learn, the sum is of zeros and its gradient zero.
        return total / max(count, 1)
