"""One training of a drafter's own weights, from its command: target, texts, samples, lesson, loop, folder, measure.

The composition root for drafters with weights; `session` is the one for models. Owns the order of things; prints
nothing: it tells.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core import KeepingEngine
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.drafter_files import WEIGHTS, DrafterRecord
from fastcoder_lsp.model.store import publish
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.collecting import collect
from fastcoder_lsp.train.curve import read_points, series
from fastcoder_lsp.train.drafter_lessons import LessonKind, kind_of
from fastcoder_lsp.train.drafter_settings import Collected, DrafterMethod, settle_drafter
from fastcoder_lsp.train.half import DrafterLesson, InHalf
from fastcoder_lsp.train.loop import Outcome, Trainer
from fastcoder_lsp.train.machine import machine
from fastcoder_lsp.train.measure import tokens_a_pass
from fastcoder_lsp.train.minutes import Minutes
from fastcoder_lsp.train.options import Asked, TrainSettings
from fastcoder_lsp.train.planning import fitted
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.samples import Collector, Sample
from fastcoder_lsp.train.sequences import Sequences
from fastcoder_lsp.train.session import Listener
from fastcoder_lsp.train.teacher import make_teacher, shape_of
from fastcoder_lsp.train.texts import Texts, read_texts

USED = 0.9
"""Of the time that is left when samples are there, for steps."""


@dataclass(frozen=True, slots=True)
class DrafterJob:
    """What the user asked for; `own`: the method's settings (`drafter_lessons`)."""

    method: DrafterMethod
    model: str
    data: tuple[str, ...]
    out: Path
    asked: Asked
    own: object
    collected: Collected = field(default_factory=Collected)
    restart: bool = False


@dataclass(frozen=True, slots=True)
class DrafterResult:
    """`record` of the drafter in `folder`; None where the run was stopped before a step was made."""

    outcome: Outcome
    record: DrafterRecord | None
    folder: Path


def train_drafter(job: DrafterJob, cache: Path, should_stop: Callable[[], bool], listener: Listener) -> DrafterResult:
    """Run `job`, or go on with it where it was stopped; the drafter is written at the end, and when time is up.

    Raises:
        FastcoderError: the model or the data is not there, or the folder holds another run.
    """
    minutes = Minutes(job.asked.max_minutes)
    files = models.find(job.model, cache)
    tokenizer = Tokenizer.load(files.folder)
    texts = read_texts(job.data, tokenizer, cache)
    settings, notes = settle_drafter(
        job.method, job.asked, machine("cpu", shape_of(files.folder).weight_count, drafter=True)
    )
    folder, place = RunFolder(job.out.expanduser().absolute()), job.out.expanduser().absolute() / "drafter"
    folder.begin(_identity(job, files, texts, settings), restart=job.restart)
    for note in notes:
        listener.note(note)
    models.require_checkpoint(files.folder, lambda _share, _what: None)
    torch.manual_seed(settings.seed)
    sequences = Sequences(texts.texts, tokenizer, length=settings.length, seed=settings.seed)
    engine = target_engine(files, settings.length + job.collected.said + 256, cache)
    try:
        run = _Run(job, files, folder, sequences, tokenizer, engine, settings, listener, should_stop, minutes)
        made = run.lesson()
        if made is None:
            return DrafterResult(Outcome(0, finished=False, seconds=minutes.seconds), None, place)
        lesson, kind, held = made
        left = minutes.left() if job.asked.steps is None else None
        planned = fitted(lesson, settings, folder, left, listener.note, used=USED)
        trainer = Trainer(lesson, planned, folder.path)
        if trainer.step:
            listener.note(f"resuming after step {trainer.step}")
        outcome = trainer.run(should_stop, listener.status, minutes=minutes.left())
        if outcome.step == 0:
            return DrafterResult(outcome, None, place)
        record = run.record(lesson, kind, texts)
        write_drafter(place, record, lesson.tensors())
        found = tokens_a_pass(engine, tokenizer, f"{job.method}:weights={place}", [one.tokens for one in held])
        record = replace(record, figures={**record.figures, **found})
        record.write(place)
        return DrafterResult(outcome, record, place)
    finally:
        engine.close()


def require_place(place: Path) -> None:
    """See that a drafter may be written to `place`.

    Raises:
        UsageError: something else is there.
    """
    if place.is_dir() and any(place.iterdir()) and not (place / WEIGHTS).is_file():
        raise UsageError(f"{place} contains other files", "Name an empty or a new folder.")


def write_drafter(place: Path, record: DrafterRecord, tensors: dict[str, torch.Tensor]) -> None:
    """Write a drafter's folder, whole or not at all.

    Raises:
        UsageError: something else is there.
    """
    require_place(place)
    made = place.with_name(f"unfinished-{place.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in tensors.items()}, made / WEIGHTS)
    record.write(made)
    publish(made, place)


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts of one run."""

    job: DrafterJob
    files: ModelFiles
    folder: RunFolder
    sequences: Sequences
    tokenizer: Tokenizer
    engine: KeepingEngine
    settings: TrainSettings
    listener: Listener
    should_stop: Callable[[], bool]
    minutes: Minutes

    def lesson(self) -> tuple[DrafterLesson, LessonKind, Sequence[Sample]] | None:
        """What is to be learnt, and the samples that are held out; None where the user stopped before."""
        job, settings = self.job, self.settings
        shape = shape_of(self.files.folder)
        kind = kind_of(job.method, job.own, shape.layers)
        collector = Collector(self.engine, self.tokenizer, kind.kept, job.collected.said)
        found = collect(
            *(collector, self.folder, self.sequences, job.collected.samples),
            *(self.minutes, self.should_stop, self.listener.collected),
        )
        if found is None:
            return None
        samples, held = found
        counts_V = self.sequences.counts(shape.vocabulary)
        teacher = make_teacher(self.files.folder, self.engine, [*samples, *held], job.collected.vocabulary, counts_V)
        self.listener.note(
            f"{len(samples)} texts, {sum(map(len, samples)):,} tokens; {len(teacher.ids_D):,} tokens can be drafted"
        )
        lesson = kind.make(teacher, samples, held, batch=settings.batch, seed=settings.seed)
        return InHalf(lesson) if settings.precision == "bf16" else lesson, kind, held

    def record(self, lesson: DrafterLesson, kind: LessonKind, texts: Texts) -> DrafterRecord:
        """What the drafter is, but for how good it is."""
        curve = read_points(self.folder.path / "losses.jsonl")
        figures = {"steps": float(max((point.step for point in curve), default=0))}
        for term, values in series(curve, held_out=True).items():
            figures |= {f"held_out_{term}_first": values[0][1], f"held_out_{term}_last": values[-1][1]}
        ranks = lesson.ranks()
        return DrafterRecord(
            method=self.job.method,
            target=self.files.digest,
            target_name=self.files.name,
            width=shape_of(self.files.folder).width,
            layers=kind.layers,
            numbers=kind.numbers(shape_of(self.files.folder)),
            lists={"ranks": ranks} if ranks else {},
            data=texts.sources,
            figures=figures,
        )


def _identity(job: DrafterJob, files: ModelFiles, texts: Texts, settings: TrainSettings) -> dict[str, object]:
    """What makes the run what it is, as JSON can hold it."""
    return {
        "model": job.model,
        "method": job.method,
        "target": files.digest,
        "data": texts.fingerprint,
        "own": asdict(job.own),  # type: ignore[call-overload]
        "collected": asdict(job.collected),
        "steps_asked": job.asked.steps,
        "settings": asdict(settings),
    }


def target_engine(files: ModelFiles, context: int, cache: Path) -> KeepingEngine:
    """The target, in eight bits."""
    engine = engines.load(
        files.folder,
        name=files.name,
        source=files.source,
        digest=files.digest,
        options=engines.EngineOptions(kind="cpu-int8", context=context),
        cache=cache,
        progress=lambda _share, _what: None,
        kernels=kernels_folder(),
    )
    assert isinstance(engine, KeepingEngine)
    return engine
