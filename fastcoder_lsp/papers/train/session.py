"""A training from its command to its result: the one order of things for all methods.

A session finds the model, reads the texts, settles the settings, claims the run's folder, prepares the lesson, trains
within the user's time, and writes the result. A method is a subclass. A session prints nothing; it tells a listener.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch

from fastcoder_lsp import model as models
from fastcoder_lsp.core import KeepingEngine, Progress
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.drafter_files import DrafterRecord
from fastcoder_lsp.model.files import TrainingRecord
from fastcoder_lsp.papers.train.example import Sequences
from fastcoder_lsp.papers.train.loop import (
    Lesson,
    RunOutcome,
    TimeBudget,
    Trainer,
    TrainingProgress,
    time_step,
    with_plan,
)
from fastcoder_lsp.papers.train.options import (
    Method,
    RequestedOptions,
    SampleOptions,
    TrainingDevice,
    TrainSettings,
    machine,
    resolve_options,
)
from fastcoder_lsp.papers.train.run_folder import RunFolder
from fastcoder_lsp.papers.train.samples import CPU_SAMPLES, HELD_OUT, SHARE, Collector, Sample
from fastcoder_lsp.papers.train.texts import Texts, read_texts
from fastcoder_lsp.papers.train.trainable import require_tuning
from fastcoder_lsp.tokenizer import Tokenizer

FEWEST_STEPS = 8


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """The user's request; `own` holds the settings of the method."""

    model: str
    data: tuple[str, ...]
    out: Path
    asked: RequestedOptions
    own: Any
    collected: SampleOptions = field(default_factory=SampleOptions)
    device: str = "auto"
    restart: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """Receives notes, progress of collecting (done, wanted), and the status after each step."""

    note: Callable[[str], None]
    collected: Callable[[int, int], None]
    status: Callable[[TrainingProgress], None]


@dataclass(frozen=True, slots=True)
class Result:
    """`record` of the model or drafter in `folder`; None if the run was stopped before its first step."""

    outcome: RunOutcome
    record: TrainingRecord | DrafterRecord | None
    folder: Path
    model: str  # the one that `--model` names, or that the result's heads were tuned with


class TrainingSession(ABC):
    """One training; see `run`. Raises FastcoderError without model or data, or if the folder holds another run."""

    method: ClassVar[Method]
    used: ClassVar[float] = 0.9  # the share of the remaining time for steps; evaluation and writing take the rest

    def __init__(self, job: TrainingJob, cache: Path, should_stop: Callable[[], bool], listener: Listener) -> None:
        self.job, self.own, self.cache, self.should_stop, self.listener = job, job.own, cache, should_stop, listener
        self.minutes = TimeBudget(job.asked.max_minutes)
        self.opened = ExitStack()
        self.files = models.find(job.model, cache)
        self.tokenizer = Tokenizer.load(self.files.folder)
        self.others = self.find_others()
        device = self.machine()
        self.folder = RunFolder(job.out.expanduser().absolute())
        self.folder.require_room()  # reading may take minutes
        self.texts = self.read()
        self.settings, notes = resolve_options(self.method, job.asked, device)
        require_tuning(self.settings)
        self.folder.begin(self.identity(), restart=job.restart)
        for note in notes:
            listener.note(note)
        for files in (self.files, *self.others):
            models.require_checkpoint(files.folder, once(listener.note))
        torch.manual_seed(self.settings.seed)

    def find_others(self) -> Sequence[ModelFiles]:
        """Find the models beside the one that `--model` names, and check that they belong together."""
        return ()

    def read(self) -> Texts:
        """The training texts."""
        return read_texts(self.job.data, self.tokenizer, self.cache)

    @cached_property
    def sequences(self) -> Sequences:
        """Windows of the texts."""
        return Sequences(self.texts.texts, self.tokenizer, length=self.settings.length, seed=self.settings.seed)

    def machine(self) -> TrainingDevice:
        """The machine, for the model that is tuned."""
        return machine("cpu", models.count_parameters(self.files.folder))

    def identity(self) -> dict[str, Any]:
        """The values that distinguish this run from others, for JSON."""
        return {
            "model": self.job.model,
            "method": self.method,
            "target": self.files.digest,
            "data": self.texts.fingerprint,
            "own": asdict(self.own),
            "steps_asked": self.job.asked.steps,
            "settings": asdict(self.settings),
        }

    @property
    @abstractmethod
    def place(self) -> Path:
        """The folder of the result."""

    @abstractmethod
    def prepare(self) -> Lesson | None:
        """The lesson; None if the user stopped before it was ready."""

    @abstractmethod
    def write(self) -> TrainingRecord | DrafterRecord:
        """Write the result to `place`."""

    def run(self) -> Result:
        """Train, or resume the run; write the result at the end, when time is up, and when the user stops."""
        with self.opened:
            lesson = self.prepare()
            if lesson is None:
                return self.result(RunOutcome(0, finished=False, seconds=self.minutes.seconds), None)
            self.settings = self.fitted(lesson)
            trainer = Trainer(lesson, self.settings, self.folder)
            if trainer.step:
                self.listener.note(f"resuming after step {trainer.step} of {self.settings.steps}")
            outcome = trainer.run(self.should_stop, self.listener.status, minutes=self.minutes.left())
            if outcome.step == 0:
                return self.result(outcome, None)
            del lesson, trainer  # a model is loaded once more to be written
            return self.result(outcome, self.write())

    def collect(
        self, engine: KeepingEngine, layers: tuple[int, ...], said: int
    ) -> tuple[list[Sample], list[Sample]] | None:
        """Samples of the target to learn from, and held-out ones; None if stopped, UsageError without time for any."""
        collector, states = Collector(engine, self.tokenizer, layers, said), self.folder.path / "states"
        held_texts = self.sequences.held_out()[:HELD_OUT]
        held = collector.samples(
            states / "held",
            lambda index: held_texts[index].tokens,
            len(held_texts),
            self.should_stop,
            lambda _done, _wanted: None,
        )
        planned = self.folder.plan().get("samples")
        late = self.minutes.end_of(SHARE) if planned is None else lambda: False
        samples = collector.samples(
            states / "learnt",
            lambda index: self.sequences.at(index).tokens,
            planned or self.job.collected.samples or min(CPU_SAMPLES, 4 * len(self.sequences)),
            lambda: self.should_stop() or late(),
            self.listener.collected,
        )
        if self.should_stop():
            return None
        if not samples:
            raise UsageError(f"collected nothing within {self.minutes.most or 0:g} min", "Raise --max-minutes.")
        if planned is None:
            self.folder.set_plan(samples=len(samples))
        return samples, held

    def result(self, outcome: RunOutcome, record: TrainingRecord | DrafterRecord | None) -> Result:
        """The result in `place`."""
        return Result(outcome, record, self.place, self.job.model)

    def fitted(self, lesson: Lesson) -> TrainSettings:
        """The settings with the steps that fit into the time, timed once, unless the user named their number."""
        left, settings = self.minutes.left() if self.job.asked.steps is None else None, self.settings
        if left is not None and "steps" not in self.folder.plan():
            seconds = time_step(lesson)
            steps = max(FEWEST_STEPS, int(60 * left * self.used / seconds))
            self.folder.set_plan(steps=steps, warm_up=max(1, round(settings.warm_up / settings.steps * steps)))
            self.listener.note(
                f"{seconds:.1f} s a step: {steps} steps fit into the time; to set their number, use --steps"
            )
        return with_plan(settings, self.folder)


def once(note: Callable[[str], None]) -> Progress:
    """A progress that notes each piece of work when it begins."""
    noted: set[str] = set()

    def tell(_share: float, activity: str) -> None:
        if activity not in noted:
            noted.add(activity)
            note(activity)

    return tell
