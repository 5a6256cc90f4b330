"""One training from its command: model, texts, settings, task, loop, export. The composition root of this package.

Owns the order of things and what is planned by the clock; every part is elsewhere. Prints nothing: it tells.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fastcoder_lsp import model as models
from fastcoder_lsp.core import Progress
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.tuned import TrainingRecord, read_record
from fastcoder_lsp.prompt import template_of
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.cllm import CllmSettings, CllmTask
from fastcoder_lsp.train.collect import collect
from fastcoder_lsp.train.curve import read_points, series
from fastcoder_lsp.train.export import export, require_place
from fastcoder_lsp.train.forward import Forward, agrees
from fastcoder_lsp.train.jacobi import JacobiCollector
from fastcoder_lsp.train.loop import ModelLesson, Outcome, Status, Task, Trainer
from fastcoder_lsp.train.machine import machine
from fastcoder_lsp.train.minutes import Minutes
from fastcoder_lsp.train.options import Asked, Method, TrainSettings, settle
from fastcoder_lsp.train.planning import fitted, with_plan
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.sdsat import SdsatSettings, SdsatTask, choose_adaptive
from fastcoder_lsp.train.sequences import Sequences
from fastcoder_lsp.train.texts import Texts, read_texts
from fastcoder_lsp.train.trainable import Trainable, embedding_rows, load_trainable, require_tuning
from fastcoder_lsp.train.trajectories import Trajectory

COLLECTING_SHARE = 0.4
"""Of --max-minutes, for collecting trajectories; the rest is for learning from them."""
PUBLISHED_TRAJECTORIES = 100_000
"""CLLM, figure 4: from 20,000 on it pays."""
USED = 0.95
"""Of the time that is left, for steps: measuring and writing take the rest."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the user asked for; `method` says which of the two settings holds."""

    method: Method
    model: str
    data: tuple[str, ...]
    out: Path
    asked: Asked
    device: str = "auto"
    sdsat: SdsatSettings = field(default_factory=SdsatSettings)
    cllm: CllmSettings = field(default_factory=CllmSettings)
    restart: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told: `note` of a sentence, `collected` of trajectories (done, wanted), `status` of each step."""

    note: Callable[[str], None]
    collected: Callable[[int, int], None]
    status: Callable[[Status], None]


@dataclass(frozen=True, slots=True)
class Result:
    """`record` of the export in `folder`; None where the run was stopped before a step was made."""

    outcome: Outcome
    record: TrainingRecord | None
    folder: Path


def train(job: Job, cache: Path, should_stop: Callable[[], bool], listener: Listener) -> Result:
    """Run `job`, or go on with it where it was stopped; the merged model is exported at the end, and when time is up.

    Raises:
        FastcoderError: the model or the data is not there, or the folder holds another run.
    """
    minutes = Minutes(job.asked.max_minutes)
    files = models.find(job.model, cache)
    tokenizer = Tokenizer.load(files.folder)
    texts = read_texts(job.data, tokenizer, cache)
    settings, notes = settle(job.method, job.asked, machine(job.device, models.count_parameters(files.folder)))
    require_tuning(settings)
    folder = RunFolder(job.out.expanduser().absolute())
    record, fresh = _skeleton(job, files, texts, tokenizer)
    folder.begin(
        {"model": job.model, "steps_asked": job.asked.steps, "settings": asdict(settings), "record": asdict(record)},
        restart=job.restart,
    )
    for note in notes:
        listener.note(note)
    models.require_checkpoint(files.folder, _once(listener.note))
    trained = record.adaptive if job.method == "sdsat" else ()
    trainable = load_trainable(files.folder, settings, trained, fresh=fresh, to_merge=False)
    forward = Forward(trainable.model, settings.device, packed=agrees(trainable.model, settings.device))
    if not forward.packed:
        listener.note("this model's attention does not support trees, so each branch runs by itself, which is slower")
    sequences = Sequences(texts.texts, tokenizer, length=settings.length, seed=settings.seed)
    listener.note(f"{sequences.files} files, {sequences.tokens:,} tokens; {_size(trainable):,} parameters to train")

    run = _Run(job, folder, tokenizer, sequences, settings, trainable, listener, should_stop)
    task = run.task(minutes.left())
    if task is None:
        return Result(Outcome(0, finished=False, seconds=minutes.seconds), None, folder.export)
    lesson = ModelLesson(trainable, forward, task)
    left = minutes.left() if job.asked.steps is None else None
    settings = fitted(lesson, settings, folder, left, listener.note, used=USED)
    trainer = Trainer(lesson, settings, folder.path)
    if trainer.step:
        listener.note(f"resuming after step {trainer.step} of {settings.steps}")
    outcome = trainer.run(should_stop, listener.status, minutes=minutes.left())
    if outcome.step == 0:
        return Result(outcome, None, folder.export)
    listener.note(f"writing {folder.export}")
    del trainable, forward, lesson, trainer, run
    return Result(outcome, _export(files.folder, settings, folder, folder.export, record), folder.export)


def export_run(out: Path, model: str | None, target: Path | None, cache: Path) -> TrainingRecord:
    """Write the newest checkpoint of the run in `out` as a model of its own, to `target` or into the run's folder.

    Raises:
        FastcoderError: there is no checkpoint, or `model` is not the one that was tuned.
    """
    folder = RunFolder(out.expanduser().absolute())
    identity = folder.identity()
    if "record" not in identity:
        raise UsageError(
            f"{out} contains a run of `train {identity.get('method')}`, which needs no export",
            "Run its training command again. It resumes, and writes the result at its end.",
        )
    record = record_of(identity["record"])
    files = models.find(model or str(identity["model"]), cache)
    if files.digest != record.base_digest:
        raise UsageError(
            f"{files.name} is not the model that the run in {out} tunes",
            f"Name the tuned model with --model: {record.base}, weights {record.base_digest[:12]}…",
        )
    if target is not None:
        require_place(target)
    models.require_checkpoint(files.folder, _once(lambda _: None))
    settings = settings_of(identity["settings"])
    return _export(files.folder, with_plan(settings, folder), folder, target or folder.export, record)


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts of one run, while its task is made."""

    job: Job
    folder: RunFolder
    tokenizer: Tokenizer
    sequences: Sequences
    settings: TrainSettings
    trainable: Trainable
    listener: Listener
    should_stop: Callable[[], bool]

    def task(self, left: float | None) -> Task | None:
        """What is to be learnt; None where the user stopped while trajectories were collected."""
        settings, job = self.settings, self.job
        if job.method == "sdsat":
            return SdsatTask(
                self.sequences,
                self.trainable.adaptive,
                job.sdsat,
                batch=settings.batch,
                seed=settings.seed,
                held_out=settings.held_out,
            )
        found = self._trajectories(left)
        if not found:
            return None
        return CllmTask(found, job.cllm, batch=settings.batch, seed=settings.seed, held_out=settings.held_out)

    def _trajectories(self, left: float | None) -> list[Trajectory]:
        """Collected now, or by the run that was interrupted."""
        settings, asked, job = self.settings, self.job.cllm, self.job
        planned = self.folder.plan().get("trajectories")
        wanted = planned or asked.trajectories or (400 if settings.device == "cpu" else PUBLISHED_TRAJECTORIES)
        if asked.trajectories is None and wanted != PUBLISHED_TRAJECTORIES:
            self.listener.note(f"trajectories: {wanted} at most (published: {PUBLISHED_TRAJECTORIES:,} and more)")
        until = None if left is None else time.monotonic() + 60 * left * COLLECTING_SHARE
        model = self.trainable.model.eval()
        collector = JacobiCollector(model, settings.device, block=asked.block, ends=self.tokenizer.end_ids)
        if not collector.batched:
            self.listener.note(
                "this model's cache cannot be shortened, so trajectories are collected one by one, much slower"
            )
        windows = self.sequences
        middle = self.tokenizer.control.get(template_of(self.tokenizer.control).middle)
        with self.trainable.precision(), self.trainable.untrained():
            found = collect(
                collector,
                windows,
                middle,
                asked,
                folder=self.folder.trajectories,
                wanted=wanted,
                seed=settings.seed,
                should_stop=lambda: self.should_stop() or (until is not None and time.monotonic() > until),
                told=self.listener.collected,
            )
        model.train()
        if self.should_stop():
            return []
        if not found:
            raise UsageError(
                f"{job.asked.max_minutes} minutes were too short to collect a trajectory", "Raise --max-minutes."
            )
        if planned is None:
            self.folder.set_plan(trajectories=len(found))
        return found


def settings_of(row: Mapping[str, Any]) -> TrainSettings:
    """Settings as JSON held them."""
    return TrainSettings(**{**row, "betas": tuple(row["betas"])})


def record_of(row: Mapping[str, Any]) -> TrainingRecord:
    """A record as JSON held it."""
    return TrainingRecord(**{**row, **{name: tuple(row[name]) for name in ("data", "adaptive", "earlier")}})


def _skeleton(job: Job, files: ModelFiles, texts: Texts, tokenizer: Tokenizer) -> tuple[TrainingRecord, bool]:
    """The record but for what comes out; and whether its adaptive tokens are new to the model."""
    known = read_record(files.folder, files.digest)
    adaptive, longest = (known.adaptive, known.longest) if known else ((), 0)
    fresh = job.method == "sdsat" and not adaptive
    if job.method == "sdsat":
        count = job.sdsat.longest if job.sdsat.distinct else 1
        if adaptive and len(adaptive) != count:
            raise UsageError(
                f"{files.name} has {len(adaptive)} adaptive tokens, but the options ask for {count}",
                "Use the same --distinct and --longest as before, or start from the model that it was tuned from.",
            )
        adaptive = adaptive or choose_adaptive(tokenizer, embedding_rows(files.folder), count)
        longest = job.sdsat.longest
    own = job.sdsat if job.method == "sdsat" else job.cllm
    record = TrainingRecord(
        method=job.method,
        base=files.name,
        base_digest=files.digest,
        weights="",
        data=texts.sources,
        data_digest=texts.fingerprint,
        arguments=asdict(own),
        adaptive=adaptive,
        longest=longest,
        block=job.cllm.block if job.method == "cllm" else (known.block if known else 0),
        earlier=(*known.earlier, asdict(known)) if known else (),
    )
    return record, fresh


def _export(
    base: Path, settings: TrainSettings, folder: RunFolder, target: Path, record: TrainingRecord
) -> TrainingRecord:
    """Export with everything that is known of the run now."""
    curve = read_points(folder.path / "losses.jsonl")
    figures = {"steps": float(max((point.step for point in curve), default=0))}
    for held_out, name in ((True, "held_out"), (False, "trained")):
        for term, values in series(curve, held_out=held_out).items():
            figures |= {f"{name}_{term}_first": values[0][1], f"{name}_{term}_last": values[-1][1]}
    arguments = {**record.arguments, "training": asdict(settings)}
    return export(base, settings, folder.path, target, replace(record, figures=figures, arguments=arguments))


def _once(note: Callable[[str], None]) -> Progress:
    """Notes what is done when it begins."""
    said: set[str] = set()

    def tell(_share: float, what: str) -> None:
        if what not in said:
            said.add(what)
            note(what)

    return tell


def _size(trainable: Trainable) -> int:
    return sum(parameter.numel() for parameter in trainable.parameters().values())
