"""Steps on a CPU: LoRA's product is peft's, layers that are left as they are, passes at the same time."""

from dataclasses import replace
from functools import partialmethod
from typing import ClassVar

import numpy as np
import pytest
import torch

from fastcoder_lsp.papers.train.example import Example, Labels, trunk
from fastcoder_lsp.papers.train.loop import ModelLesson
from fastcoder_lsp.papers.train.losses import Forward
from fastcoder_lsp.papers.train.options import TrainSettings
from fastcoder_lsp.papers.train.trainable import Trainable, load_trainable
from tests.papers.train.conftest import Speaker

SETTINGS = TrainSettings(
    tuning="lora",
    device="cpu",
    precision="fp32",
    seed=0,
    length=64,
    batch=1,
    steps=1,
    warm_up=1,
    rate=1e-3,
    final_rate=1e-4,
    rank=4,
)


def results(trainable: Trainable) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits of some tokens, and the gradients of their sum of squares, in float64."""
    trainable.model.double()
    with torch.no_grad():
        for name, value in trainable.parameters().items():
            torch.manual_seed(len(name))
            value.copy_(torch.randn_like(value) / 8)
    logits = trainable.model(input_ids=torch.arange(20, 40)[None]).logits
    logits.square().sum().backward()
    return logits.detach(), {
        name: value.grad for name, value in trainable.parameters().items() if value.grad is not None
    }


@pytest.mark.parametrize("frozen", [0.0, 0.5])
def test_the_product_is_peft_s(speaker: Speaker, frozen: float) -> None:
    pytest.importorskip("peft")
    settings = replace(SETTINGS, frozen=frozen)
    ours, theirs = (load_trainable(speaker.folder, settings, (), fresh=False, to_merge=False) for _ in range(2))
    fused = [module for module in theirs.model.modules() if "forward" in vars(module)]
    assert len(fused) == 14 if not frozen else 7, "each of seven products of both layers, or of the upper one"
    for module in fused:
        del module.forward
    (found, gradients), (expected, wanted) = results(ours), results(theirs)
    torch.testing.assert_close(found, expected)
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, wanted[name])
    with ours.untrained(), theirs.untrained():
        base = [one.model(input_ids=torch.arange(20, 40)[None]).logits for one in (ours, theirs)]
    torch.testing.assert_close(*base)
    assert not torch.allclose(base[0], found)


class OneStep:
    """A task of some texts."""

    weights: ClassVar[dict[str, float]] = {"text": 1.0}

    def examples(self, step: int) -> list[Example]:
        ids = [np.arange(20 + step, 40 + step + number, dtype=np.int64) for number in range(5)]
        return [Example(*trunk(one), {"text": Labels(np.arange(len(one) - 1), one[1:])}, {}) for one in ids]

    held_out = partialmethod(examples, 9)


def test_passes_at_once_give_the_same(speaker: Speaker) -> None:
    """Several passes on threads of their own: the same gradients and means, bit for bit."""
    found = []
    for at_once in (1, 3):
        settings = replace(SETTINGS, rows=1, at_once=at_once)
        trainable = load_trainable(speaker.folder, settings, (), fresh=False, to_merge=False)
        lesson = ModelLesson(trainable, Forward(trainable.model, "cpu"), OneStep())
        means = lesson.gradients(0), lesson.held_out()
        found.append((means, [value.grad.tolist() for value in lesson.parameters().values() if value.grad is not None]))
    assert found[0] == found[1]
    assert len(found[0][1]) == 28
