"""The training loop: gradients of a step → one step of AdamW, until it is done or time is up.

Owns the optimiser, the rate's schedule and the moments at which a checkpoint is written. A step is a function of the
weights, the optimiser and its number alone, so a run that was stopped ends at the weights of one that was not.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.train import checkpoint as checkpoints
from fastcoder_lsp.train.curve import Curve, Point, draw
from fastcoder_lsp.train.example import Example
from fastcoder_lsp.train.forward import Forward
from fastcoder_lsp.train.losses import term_sums, total
from fastcoder_lsp.train.options import TrainSettings
from fastcoder_lsp.train.trainable import Trainable

CHECKPOINT_SECONDS = 120.0
MEASURED = 4
"""Times that held-out text is measured on the way, evenly spread, beside before and after."""


class Task(Protocol):
    """What is learnt: the examples of each step, and the weights of the loss terms."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Loss term → its weight."""
        ...

    def examples(self, step: int) -> Sequence[Example]:
        """The examples of a step; the same for the same step, always."""
        ...

    def held_out(self) -> Sequence[Example]:
        """Examples that no step gives."""
        ...


class Lesson(Protocol):
    """What changes, and by what: all that the loop asks of whatever is trained."""

    def parameters(self) -> Mapping[str, torch.nn.Parameter]:
        """What changes, by name, in a fixed order."""
        ...

    def gradients(self, step: int) -> dict[str, float]:
        """Add the gradients of a step to the parameters; the mean of each loss term. A function of both alone."""
        ...

    def held_out(self) -> dict[str, float]:
        """The mean of each loss term on text that no step shows; none where nothing is held out."""
        ...


@dataclass(frozen=True, slots=True)
class Status:
    """Where a run is.

    Attributes:
        step: steps that were made.
        steps: steps in all.
        losses: running means of the loss terms.
        rate: the learning rate.
        step_seconds: seconds a step took of late.
    """

    step: int
    steps: int
    losses: Mapping[str, float]
    rate: float
    step_seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `finished`, or stopped after `step` steps; `seconds` of this part of it."""

    step: int
    finished: bool
    seconds: float


class Trainer:
    """One run of a lesson. `folder` holds its checkpoints and its curve; what is there is gone on with."""

    def __init__(self, lesson: Lesson, settings: TrainSettings, folder: Path) -> None:
        self._lesson, self._settings, self._folder = lesson, settings, folder
        self._parameters = lesson.parameters()
        self._optimiser = torch.optim.AdamW(
            self._parameters.values(), lr=settings.rate, betas=settings.betas, weight_decay=settings.decay
        )
        found = checkpoints.newest(folder)
        self.step = found.step if found else 0
        if found:
            checkpoints.unpack(found, self._parameters, self._optimiser)
        self.curve = Curve(folder / "losses.jsonl", self.step)

    def run(self, should_stop: Callable[[], bool], told: Callable[[Status], None], *, minutes: float | None) -> Outcome:
        """Go on until all steps are made, `should_stop` says so, or `minutes` are over; a checkpoint is written then.

        Raises:
            FastcoderError: the loss is no number any more, or memory or disk do not suffice.
        """
        started = saved = time.monotonic()
        deadline = math.inf if minutes is None else started + 60 * minutes
        settings, pace = self._settings, 0.0
        every = max(1, settings.steps // MEASURED)
        if self.step == 0:
            self._measure()
        while self.step < settings.steps and not should_stop() and time.monotonic() < deadline:
            began = time.monotonic()
            losses = self._make_step()
            took = time.monotonic() - began
            pace = took if pace == 0 else 0.8 * pace + 0.2 * took
            self.curve.add(Point(self.step, losses))
            if self.step % every == 0 or self.step == settings.steps:
                self._measure()
            told(Status(self.step, settings.steps, self.curve.smoothed(), self._rate(self.step - 1), pace))
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        self.save()
        return Outcome(self.step, self.step >= settings.steps, time.monotonic() - started)

    def save(self) -> None:
        """Write a checkpoint and the curve's picture."""
        checkpoints.save(self._folder, self.step, checkpoints.pack(self._parameters, self._optimiser))
        picture = draw(self.curve.points, f"{self._folder.name}: losses")
        (self._folder / "losses.svg").write_text(picture, encoding="utf-8")

    def _make_step(self) -> dict[str, float]:
        """One step; the mean loss of each term before it."""
        losses = self._lesson.gradients(self.step)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._settings.clip)
        if not bool(torch.isfinite(norm)):
            raise FastcoderError(
                f"the loss became infinite or NaN at step {self.step}",
                "Choose a smaller --rate or --precision fp32, and start again with --restart.",
            )
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate(self.step)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return losses

    def _measure(self) -> None:
        """Losses on held-out text, into the curve."""
        if means := self._lesson.held_out():
            self.curve.add(Point(self.step, means, held_out=True))

    def _rate(self, step: int) -> float:
        return rate(step, self._settings)


class ModelLesson:
    """A model that is tuned by the examples of a task."""

    def __init__(self, trainable: Trainable, forward: Forward, task: Task) -> None:
        self._trainable, self._forward, self._task = trainable, forward, task

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The model's that change (`Lesson`)."""
        return self._trainable.parameters()

    def gradients(self, step: int) -> dict[str, float]:
        """Of the task's examples of this step (`Lesson`)."""
        examples = self._task.examples(step)
        counts = _counts(examples)
        means: dict[str, float] = {}
        for part in passes(examples, self._trainable.settings.rows):
            with self._trainable.precision():
                outputs = self._forward(part)
            loss: torch.Tensor | None = None
            for example, (wanted, logits_NV) in zip(part, outputs, strict=True):
                sums = term_sums(example, wanted, logits_NV)
                own = total(sums, counts, self._task.weights)
                loss = own if loss is None else loss + own
                _add(means, sums, counts)
            assert loss is not None
            loss.backward()  # type: ignore[no-untyped-call]
        return means

    def held_out(self) -> dict[str, float]:
        """Of the task's held-out examples (`Lesson`)."""
        examples = self._task.held_out()
        counts, means = _counts(examples), dict[str, float]()
        with torch.no_grad(), self._trainable.precision():
            for part in passes(examples, self._trainable.settings.rows):
                for example, (wanted, logits_NV) in zip(part, self._forward(part), strict=True):
                    _add(means, term_sums(example, wanted, logits_NV), counts)
        return means


def time_step(lesson: Lesson) -> float:
    """Seconds that a step takes, tried without any effect on the weights; the first of two tries warms up."""
    took = 0.0
    for _ in range(2):
        began = time.monotonic()
        lesson.gradients(0)
        took = time.monotonic() - began
    for parameter in lesson.parameters().values():
        parameter.grad = None
    return took


def rate(step: int, settings: TrainSettings) -> float:
    """The learning rate of a step: linear warm-up, then a cosine from `rate` to `final_rate`."""
    if step < settings.warm_up:
        return settings.rate * (step + 1) / settings.warm_up
    share = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    return settings.final_rate + 0.5 * (settings.rate - settings.final_rate) * (1 + math.cos(math.pi * min(share, 1.0)))


def passes(examples: Sequence[Example], rows: int) -> Iterator[list[Example]]:
    """The examples in their order, as many a pass as fit in `rows`, at least one."""
    part: list[Example] = []
    for example in examples:
        if part and sum(map(len, part)) + len(example) > rows:
            yield part
            part = []
        part.append(example)
    if part:
        yield part


def _counts(examples: Sequence[Example]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for example in examples:
        for name, count in example.counts().items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _add(means: dict[str, float], sums: Mapping[str, torch.Tensor], counts: Mapping[str, int]) -> None:
    """Add an example's share to the means of a step."""
    for name, value in sums.items():
        means[name] = means.get(name, 0.0) + value.item() / counts[name]
