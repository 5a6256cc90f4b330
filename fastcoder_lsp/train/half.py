"""A drafter's lesson, and the same with its products in bf16: weights, sums and the optimiser stay in fp32.

Owns the protocol of such lessons, and nothing of how precise is precise enough (`drafter_settings`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from fastcoder_lsp.train.loop import Lesson


class DrafterLesson(Lesson, Protocol):
    """A lesson whose outcome is a drafter."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that the drafter computes with."""
        ...

    def ranks(self) -> tuple[tuple[float, ...], ...]:
        """How often candidates are right, by place and rank; none where the method does not ask."""
        ...


@dataclass(frozen=True, slots=True)
class InHalf:
    """`lesson`, computed on a CPU with products in bf16 (`DrafterLesson`)."""

    lesson: DrafterLesson

    def parameters(self) -> Mapping[str, torch.nn.Parameter]:
        """What changes, in fp32."""
        return self.lesson.parameters()

    def gradients(self, step: int) -> dict[str, float]:
        """Of a step's samples."""
        with torch.autocast("cpu", torch.bfloat16):
            return self.lesson.gradients(step)

    def held_out(self) -> dict[str, float]:
        """Of the samples that no step shows."""
        with torch.autocast("cpu", torch.bfloat16):
            return self.lesson.held_out()

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that the drafter computes with."""
        return self.lesson.tensors()

    def ranks(self) -> tuple[tuple[float, ...], ...]:
        """How often candidates are right, in full precision, as when decoding."""
        return self.lesson.ranks()
