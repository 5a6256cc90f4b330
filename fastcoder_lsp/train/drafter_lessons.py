"""Which drafters with weights can be trained: of each, what it reads of the target and how its lesson is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastcoder_lsp.core import NORMED
from fastcoder_lsp.engine.architecture import Shape
from fastcoder_lsp.train import dflash, eagle, eagle_features, medusa
from fastcoder_lsp.train.drafter_settings import DrafterMethod


@dataclass(frozen=True, slots=True)
class LessonKind:
    """One method on one target.

    Attributes:
        layers: whose hidden states the drafter reads.
        kept: whose hidden states are collected: these first, and more where the loss asks for them.
        make: makes the lesson from a teacher, samples, held-out samples, `batch` and `seed`.
        numbers: what the drafter's record says of sizes.
    """

    layers: tuple[int, ...]
    kept: tuple[int, ...]
    make: Callable[..., Any]
    numbers: Callable[[Shape], Mapping[str, float]]


def kind_of(method: DrafterMethod, own: Any, layers: int) -> LessonKind:
    """How `method` is trained with its settings `own` on a target of so many layers."""
    if method == "medusa":
        return LessonKind(
            medusa.LAYERS,
            medusa.LAYERS,
            lambda teacher, samples, held, *, batch, seed: medusa.MedusaLesson(
                teacher, samples, held, own, batch=batch, seed=seed
            ),
            lambda _shape: {"heads": own.heads, "blocks": own.blocks},
        )
    if method == "dflash":
        seen = dflash.layers_of(layers, own.layers)
        return LessonKind(
            seen,
            seen,
            lambda teacher, samples, held, *, batch, seed: dflash.DflashLesson(
                teacher, samples, held, own, batch=batch, seed=seed
            ),
            lambda shape: dflash.numbers_of(shape, own),
        )
    make = eagle.EagleLesson if own.version == 3 else eagle_features.FeatureLesson
    read = eagle.layers_of(layers) if own.version == 3 else (NORMED,)
    return LessonKind(
        read,
        read if NORMED in read else (*read, NORMED),
        lambda teacher, samples, held, *, batch, seed: make(teacher, samples, held, own, batch=batch, seed=seed),
        lambda shape: eagle.numbers_of(shape, own),
    )
