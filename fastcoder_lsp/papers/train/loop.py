"""The training loop: gradients of a step → one step of AdamW, until all steps are made or time is up.

A step is a function of the weights, the optimiser and its number alone, so an interrupted run ends at the weights of an
uninterrupted one.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import torch

from fastcoder_lsp.errors import FastcoderError
from fastcoder_lsp.papers.train.example import Example
from fastcoder_lsp.papers.train.losses import Forward, term_sums, total
from fastcoder_lsp.papers.train.options import TrainSettings
from fastcoder_lsp.papers.train.run_folder import Curve, Point, RunFolder
from fastcoder_lsp.papers.train.trainable import Trainable

CHECKPOINT_SECONDS = 120.0
MEASURED = 4  # evaluations on held-out text during the run, evenly spread, beside those before and after


class TrainingTask(Protocol):
    """The examples of each step, and the weights of the loss terms."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Loss term → its weight."""

    def examples(self, step: int) -> Sequence[Example]:
        """The examples of a step: always the same for the same step."""

    def held_out(self) -> Sequence[Example]:
        """Examples that no step trains on."""


class Lesson(Protocol):
    """The parameters of a training, and their gradients."""

    def parameters(self) -> Mapping[str, torch.nn.Parameter]:
        """The trained parameters by name, in a fixed order."""

    def gradients(self, step: int) -> dict[str, float]:
        """Add the gradients of a step to the parameters, and return the mean of each loss term."""

    def held_out(self) -> dict[str, float]:
        """The mean of each loss term on held-out text; empty where nothing is held out."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of a run: `losses` are running means, `step_seconds` the duration of recent steps."""

    step: int
    steps: int
    losses: Mapping[str, float]
    rate: float
    step_seconds: float


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended after `step` steps; `seconds` is the duration since it was last resumed."""

    step: int
    finished: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """A budget of `most` minutes from now on; None: no limit."""

    most: float | None
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds passed so far."""
        return time.monotonic() - self._started

    def left(self) -> float | None:
        """Minutes left; None where there is no limit."""
        return None if self.most is None else self.most - self.seconds / 60

    def end_of(self, share: float) -> Callable[[], bool]:
        """Whether `share` of the minutes that are left now has passed."""
        left = self.left()
        until = math.inf if left is None else time.monotonic() + 60 * left * share
        return lambda: time.monotonic() > until


class Trainer:
    """One run of a lesson, resumed from the newest checkpoint in `folder`."""

    def __init__(self, lesson: Lesson, settings: TrainSettings, folder: RunFolder) -> None:
        self._lesson, self._settings, self._folder = lesson, settings, folder
        self._parameters = lesson.parameters()
        self._optimiser = torch.optim.AdamW(
            self._parameters.values(), lr=settings.rate, betas=settings.betas, weight_decay=settings.decay
        )
        found = folder.newest()
        self.step = found.step if found else 0
        if found:
            found.restore(self._parameters, self._optimiser)
        self.curve = Curve(folder.path, self.step)

    def run(
        self, should_stop: Callable[[], bool], progress: Callable[[TrainingProgress], None], *, minutes: float | None
    ) -> RunOutcome:
        """Train until all steps are made, `should_stop` says so, or `minutes` are over, then write a checkpoint.

        Raises:
            FastcoderError: the loss became infinite or NaN, or memory or disk do not suffice.
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
            progress(
                TrainingProgress(self.step, settings.steps, self.curve.smoothed(), rate(self.step - 1, settings), pace)
            )
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        self.save()
        return RunOutcome(self.step, self.step >= settings.steps, time.monotonic() - started)

    def save(self) -> None:
        """Write a checkpoint and the curve's picture."""
        self._folder.save(self.step, self._parameters, self._optimiser)
        self.curve.draw()

    def _make_step(self) -> dict[str, float]:
        losses = self._lesson.gradients(self.step)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._settings.clip)
        if not bool(torch.isfinite(norm)):
            raise FastcoderError(
                f"the loss became infinite or NaN at step {self.step}",
                "Choose a smaller --rate or --precision fp32, and start again with --restart.",
            )
        for group in self._optimiser.param_groups:
            group["lr"] = rate(self.step, self._settings)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return losses

    def _measure(self) -> None:
        if means := self._lesson.held_out():
            self.curve.add(Point(self.step, means, held_out=True))


_Passed: TypeAlias = tuple[dict[str, float], Sequence[torch.Tensor | None]]
"""The share of a step's means that a pass has, and its gradients."""


class ModelLesson:
    """A model tuned on the examples of a task (`Lesson`)."""

    def __init__(self, trainable: Trainable, forward: Forward, task: TrainingTask) -> None:
        self._trainable, self._forward, self._task = trainable, forward, task

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The model's trained parameters."""
        return self._trainable.parameters()

    def gradients(self, step: int) -> dict[str, float]:
        """On the task's examples of this step."""
        return self._run(self._task.examples(step), list(self.parameters().values()))

    def held_out(self) -> dict[str, float]:
        """On the task's held-out examples."""
        return self._run(self._task.held_out(), [])

    def _run(self, examples: Sequence[Example], parameters: Sequence[torch.nn.Parameter]) -> dict[str, float]:
        """The means of some examples; adds the gradients of these parameters."""
        counts, means = _counts(examples), dict[str, float]()
        for found, gradients in self._at_once(examples, lambda part: self._pass(part, counts, parameters)):
            for name, mean in found.items():
                means[name] = means.get(name, 0.0) + mean
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return means

    def _at_once(self, examples: Sequence[Example], run: Callable[[list[Example]], _Passed]) -> Iterator[_Passed]:
        settings = self._trainable.settings
        parts = passes(examples, settings.rows)
        if settings.at_once == 1:
            yield from map(run, parts)
            return
        torch.set_num_threads(1)  # of each pass
        with ThreadPoolExecutor(settings.at_once, "fastcoder-pass") as pool:
            yield from pool.map(run, parts)

    def _pass(
        self, part: list[Example], counts: Mapping[str, int], parameters: Sequence[torch.nn.Parameter]
    ) -> _Passed:
        """One pass: its share of the means, and its gradients of some parameters."""
        means = dict[str, float]()
        with torch.set_grad_enabled(bool(parameters)):
            with self._trainable.precision():
                outputs = self._forward(part)
            loss: torch.Tensor | None = None
            for example, (wanted, logits_NV) in zip(part, outputs, strict=True):
                sums = term_sums(example, wanted, logits_NV)
                own = total(sums, counts, self._task.weights)
                loss = own if loss is None else loss + own
                _add(means, sums, counts)
            assert loss is not None
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True) if parameters else ()
        return means, gradients


def time_step(lesson: Lesson) -> float:
    """Seconds of a step, measured without changing the weights; the first of two tries warms up."""
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
    """The examples in order, as many in a pass as fit into `rows` tokens, at least one."""
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
    for name, value in sums.items():
        means[name] = means.get(name, 0.0) + value.item() / counts[name]


def with_plan(settings: TrainSettings, folder: RunFolder) -> TrainSettings:
    """The settings with the planned number of steps, if the run in `folder` has a plan."""
    plan = folder.plan()
    return replace(settings, steps=plan.get("steps", settings.steps), warm_up=plan.get("warm_up", settings.warm_up))
