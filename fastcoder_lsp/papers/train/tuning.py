"""Trainings whose result is a model: CLLM, SDSAT and DistillSpec, with the export of their runs."""

import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fastcoder_lsp import model as models
from fastcoder_lsp.core import NORMED
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import FastcoderError, UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.files import TrainingRecord, read_record
from fastcoder_lsp.papers.train.cllm import (
    CllmTask,
    EngineCollector,
    JacobiCollector,
    Trajectory,
    TrajectoryCollector,
    cleaned,
    load,
    prompts,
    save,
)
from fastcoder_lsp.papers.train.distill import DistillLesson, EarlierStudents
from fastcoder_lsp.papers.train.loop import Lesson, ModelLesson, TrainingTask, with_plan
from fastcoder_lsp.papers.train.losses import Forward, agrees
from fastcoder_lsp.papers.train.options import TrainingDevice, TrainSettings, machine
from fastcoder_lsp.papers.train.run_folder import RunFolder
from fastcoder_lsp.papers.train.samples import SHARE, open_target, shape_of
from fastcoder_lsp.papers.train.sdsat import SdsatTask, choose_adaptive
from fastcoder_lsp.papers.train.session import TrainingSession, once
from fastcoder_lsp.papers.train.trainable import Trainable, embedding_rows, load_trainable, require_place, write_model
from fastcoder_lsp.prompt import template_of
from fastcoder_lsp.tokenizer import Tokenizer

CPU_TRAJECTORIES = 400
PUBLISHED_TRAJECTORIES = 100_000  # CLLM (arXiv 2403.00835), table 4
TRIES = 4
"""Most prompts, as a multiple of the trajectories wanted: where nearly all outputs loop, there is little to learn."""


class TuningSession(TrainingSession):
    """A session that writes a model: that of a run's newest checkpoint, merged."""

    trained: ClassVar[bool] = False  # whether the losses on training text are among the record's figures

    @property
    def place(self) -> Path:
        """The model's folder."""
        return self.folder.model

    @property
    def base(self) -> ModelFiles:
        """The model that is tuned."""
        return self.files

    @cached_property
    def record(self) -> TrainingRecord:
        """The record, but for figures and weights."""
        return TrainingRecord(
            method=self.method,
            base=self.base.name,
            base_digest=self.base.digest,
            weights="",
            data=self.texts.sources,
            data_digest=self.texts.fingerprint,
            arguments=asdict(self.own),
        )

    def write(self) -> TrainingRecord:
        """Export the newest checkpoint."""
        self.listener.note(f"writing {self.place}")
        return _export(self.base.folder, self.settings, self.folder, self.place, self.record, trained=self.trained)


class TaskSession(TuningSession):
    """CLLM and SDSAT: a model is tuned by the examples of a task, on any device."""

    used, trained = 0.95, True

    def machine(self) -> TrainingDevice:
        """The device that the user named."""
        return machine(self.job.device, models.count_parameters(self.files.folder))

    @cached_property
    def earlier(self) -> TrainingRecord | None:
        """The record of the base's own tuning, if it was tuned."""
        return read_record(self.files.folder, self.files.digest)

    @cached_property
    def record(self) -> TrainingRecord:
        """The record, with those of earlier tunings."""
        record, known = super().record, self.earlier
        if known is None:
            return record
        return replace(
            record,
            adaptive=known.adaptive,
            longest=known.longest,
            block=known.block,
            edit_format=known.edit_format,
            earlier=(*known.earlier, asdict(known)),
        )

    def identity(self) -> dict[str, Any]:
        """The record is a part of it, for `train export`."""
        return {
            "model": self.job.model,
            "steps_asked": self.job.asked.steps,
            "settings": asdict(self.settings),
            "record": asdict(self.record),
        }

    def prepare(self) -> Lesson | None:
        """Load the model and make the task."""
        trainable, device = self.trainable(), self.settings.device
        forward = Forward(trainable.model, device, packed=agrees(trainable.model, device))
        if not forward.packed:
            self.listener.note(
                "this model's attention does not support trees, so each branch runs by itself, which is slower"
            )
        size = sum(parameter.numel() for parameter in trainable.parameters().values())
        self.listener.note(f"{self.amount()}; {size:,} parameters to train")
        task = self.task(trainable)
        return None if task is None else ModelLesson(trainable, forward, task)

    def amount(self) -> str:
        """How much there is to learn from, for the user."""
        return f"{counted(self.sequences.files, 'file')}, {counted(self.sequences.tokens, 'token')}"

    def trainable(self) -> Trainable:
        """The model, ready to be trained."""
        return load_trainable(self.files.folder, self.settings, (), fresh=False, to_merge=False)

    @abstractmethod
    def task(self, trainable: Trainable) -> TrainingTask | None:
        """The task; None if the user stopped before it was ready."""


class SdsatSession(TaskSession):
    """`train sdsat`."""

    method = "sdsat"

    @cached_property
    def record(self) -> TrainingRecord:
        """The record with the adaptive tokens: the base's, or new ones."""
        record, own = super().record, self.own
        count = own.longest if own.distinct else 1
        if record.adaptive and len(record.adaptive) != count:
            held = counted(len(record.adaptive), "adaptive token")
            raise UsageError(
                f"{self.files.name} has {held}, but the options ask for {count}",
                "Use the same --distinct and --longest as before, or start from the model that it was tuned from.",
            )
        adaptive = record.adaptive or choose_adaptive(self.tokenizer, embedding_rows(self.files.folder), count)
        return replace(record, adaptive=adaptive, longest=own.longest)

    def trainable(self) -> Trainable:
        """The model with rows for the adaptive tokens."""
        fresh = self.earlier is None or not self.earlier.adaptive
        return load_trainable(self.files.folder, self.settings, self.record.adaptive, fresh=fresh, to_merge=False)

    def task(self, trainable: Trainable) -> TrainingTask:
        """Windows with adaptive tokens."""
        settings = self.settings
        return SdsatTask(
            self.sequences,
            trainable.adaptive,
            self.own,
            batch=settings.batch,
            seed=settings.seed,
            held_out=settings.held_out,
        )


class CllmSession(TaskSession):
    """`train cllm`."""

    method = "cllm"

    @cached_property
    def record(self) -> TrainingRecord:
        """The record with the block's length."""
        return replace(super().record, block=self.own.block)

    def task(self, trainable: Trainable) -> TrainingTask | None:
        """Trajectories, collected now or by the run that is resumed."""
        found, settings = self._trajectories(trainable), self.settings
        if not found:
            return None
        return CllmTask(found, self.own, batch=settings.batch, seed=settings.seed, held_out=settings.held_out)

    def _trajectories(self, trainable: Trainable) -> list[Trajectory]:
        settings, own = self.settings, self.own
        planned = self.folder.plan().get("trajectories")
        most = CPU_TRAJECTORIES if settings.device == "cpu" else PUBLISHED_TRAJECTORIES
        wanted = planned or own.trajectories or most
        if own.trajectories is None and wanted != PUBLISHED_TRAJECTORIES:
            self.listener.note(f"trajectories: {wanted} at most (published: {PUBLISHED_TRAJECTORIES:,} and more)")
        late = self.minutes.end_of(SHARE)
        with ExitStack() as opened:
            collector = self._collector(trainable, opened)
            found = self._collect(collector, wanted, lambda: self.should_stop() or late())
        if self.should_stop():
            return []
        if not found:
            raise UsageError(f"collected no trajectory within {self.minutes.most or 0:g} min", "Raise --max-minutes.")
        if planned is None:
            self.folder.set_plan(trajectories=len(found))
        return found

    def _collector(self, trainable: Trainable, opened: ExitStack) -> TrajectoryCollector:
        """On a CPU the engine that decodes, if it can take back a guess; else transformers. `opened` closes it."""
        settings, own = self.settings, self.own
        ends = self.tokenizer.end_ids
        if settings.device == "cpu":
            room = settings.length + own.blocks * own.block + own.block
            engine = open_target(self.files, room, self.cache)
            if engine.info.drafts and own.block < engine.info.max_nodes:
                opened.callback(engine.close)
                return EngineCollector(engine, block=own.block, ends=ends)
            engine.close()
        for way in (trainable.precision(), trainable.untrained()):
            opened.enter_context(way)
        opened.callback(trainable.model.train)
        collector = JacobiCollector(trainable.model.eval(), settings.device, block=own.block, ends=ends)
        if not collector.batched:
            self.listener.note(
                "this model's cache cannot be shortened, so trajectories are collected one by one, much slower"
            )
        return collector

    def _collect(
        self, collector: TrajectoryCollector, wanted: int, should_stop: Callable[[], bool]
    ) -> list[Trajectory]:
        """Cleaned trajectories, fewer than `wanted` if `should_stop`; FastcoderError if the model repeats itself."""
        own, batches = self.own, self.folder.path / "trajectories"
        middle = self.tokenizer.control.get(template_of(self.tokenizer).middle)
        batches.mkdir(parents=True, exist_ok=True)
        found: list[Trajectory] = []
        number = 0
        while len(found) < wanted and number * own.batch < TRIES * wanted + own.batch:
            path = batches / f"{number:06}.npz"
            if path.is_file():
                found += load(path)
            else:
                if should_stop():
                    break
                asked = prompts(self.sequences, middle, number * own.batch, own.batch)
                draw = random.Random(f"guess {self.settings.seed} {number}")  # noqa: S311 reproducible, no secret
                made = collector.collect(asked, own.blocks, draw)
                kept = [clean for one in made if (clean := cleaned(one)) is not None]
                save(path, kept)
                found += kept
            number += 1
            self.listener.collected(min(len(found), wanted), wanted)
        if not found and not should_stop():
            raise FastcoderError("the model only repeats itself", "Use other --data, or another --model.")
        return found[:wanted]


class DistillSession(TuningSession):
    """`train distill`: `--model` is the target, the student is tuned."""

    method = "distill"

    def find_others(self) -> Sequence[ModelFiles]:
        """Find the student and those tuned earlier; raises UsageError if their tokenizers differ."""
        found = [models.find(name, self.cache) for name in (self.own.student, *self.own.boost)]
        for files in found:
            if Tokenizer.load(files.folder).identity != self.tokenizer.identity:
                raise UsageError(
                    f"{files.name} and {self.files.name} have different tokenizers",
                    "With --student and --boost, name models of the same family.",
                )
        return found

    @property
    def base(self) -> ModelFiles:
        """The student."""
        return self.others[0]

    def machine(self) -> TrainingDevice:
        """The machine, for the student."""
        return machine("cpu", models.count_parameters(self.base.folder))

    @cached_property
    def record(self) -> TrainingRecord:
        """The record with the target."""
        record = super().record
        target = {"target": self.files.name, "target_digest": self.files.digest}
        return replace(record, arguments={**record.arguments, **target})

    def identity(self) -> dict[str, Any]:
        """With the students."""
        earlier = [files.digest for files in self.others[1:]]
        return {
            **super().identity(),
            "student": self.base.digest,
            "earlier": earlier,
            "samples": self.job.collected.samples,
        }

    def prepare(self) -> Lesson | None:
        """Collect the target's texts and states, and load the student."""
        with closing(open_target(self.files, self.settings.length + self.own.said + 256, self.cache)) as engine:
            found = self.collect(engine, (NORMED,), self.own.said)
        if found is None:
            return None
        trainable = load_trainable(self.base.folder, self.settings, (), fresh=False, to_merge=False)
        with open_weights(self.files.folder) as weights:
            head_VE = weights.head(shape_of(self.files.folder))
        earlier = EarlierStudents([files.folder for files in self.others[1:]])
        batch, seed = self.settings.batch, self.settings.seed
        return DistillLesson(trainable, head_VE, *found, batch=batch, seed=seed, earlier=earlier)


def export_run(out: Path, model: str | None, target: Path | None, cache: Path) -> TrainingRecord:
    """Export the newest checkpoint of the run in `out` as a model; FastcoderError if there is none of `model`."""
    folder = RunFolder(out.expanduser().absolute())
    identity = folder.identity()
    if "record" not in identity:
        raise UsageError(
            f"{out} contains a run of `train {identity.get('method')}`, which needs no export",
            "Run its training command again. It resumes, and writes the result at its end.",
        )
    record = _record_of(identity["record"])
    files = models.find(model or str(identity["model"]), cache)
    if files.digest != record.base_digest:
        raise UsageError(
            f"{files.name} is not the model that the run in {out} tunes",
            f"Name the tuned model with --model: {record.base}, weights {record.base_digest[:12]}…",
        )
    if target is not None:
        require_place(target)
    models.require_checkpoint(files.folder, once(lambda _: None))
    settings = with_plan(_settings_of(identity["settings"]), folder)
    return _export(files.folder, settings, folder, target or folder.model, record, trained=True)


def _export(
    base: Path,
    settings: TrainSettings,
    folder: RunFolder,
    target: Path,
    record: TrainingRecord,
    *,
    trained: bool = False,
) -> TrainingRecord:
    """Write the newest checkpoint of a run, merged into the weights of `base`, to `target`; returns the full record.

    Raises FastcoderError if there is no checkpoint, it is of another model, or `target` holds other files.
    """
    require_place(target)
    arguments = {**record.arguments, "training": asdict(settings)}
    record = replace(record, figures=folder.figures(trained=trained), arguments=arguments)
    adaptive = record.adaptive if record.method == "sdsat" else ()
    known = {token for earlier in record.earlier for token in earlier["adaptive"]}
    trainable = load_trainable(base, settings, adaptive, fresh=not known.issuperset(adaptive), to_merge=True)
    folder.restore_values(trainable.parameters())
    return write_model(trainable, base, target, record)


def _settings_of(row: Mapping[str, Any]) -> TrainSettings:
    return TrainSettings(**{**row, "betas": tuple(row["betas"])})


def _record_of(row: Mapping[str, Any]) -> TrainingRecord:
    return TrainingRecord(**{**row, **{name: tuple(row[name]) for name in ("data", "adaptive", "earlier")}})
