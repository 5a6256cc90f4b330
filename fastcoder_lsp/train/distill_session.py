"""One training of a smaller model by what the target says, from its command: an ordinary model's folder at the end.

The composition root for `train distill`. Owns the order of things; prints nothing: it tells.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fastcoder_lsp import model as models
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.tuned import TrainingRecord
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train.boosting import Earlier
from fastcoder_lsp.train.collecting import collect
from fastcoder_lsp.train.curve import read_points, series
from fastcoder_lsp.train.distill import LAYERS, DistillLesson, DistillSettings
from fastcoder_lsp.train.drafter_session import USED, target_engine
from fastcoder_lsp.train.export import write_model
from fastcoder_lsp.train.loop import Outcome, Trainer
from fastcoder_lsp.train.machine import machine
from fastcoder_lsp.train.minutes import Minutes
from fastcoder_lsp.train.options import Asked, TrainSettings, settle
from fastcoder_lsp.train.planning import fitted
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.samples import Collector, Sample
from fastcoder_lsp.train.sequences import Sequences
from fastcoder_lsp.train.session import Listener, Result
from fastcoder_lsp.train.teacher import shape_of
from fastcoder_lsp.train.texts import Texts, read_texts
from fastcoder_lsp.train.trainable import load_trainable, require_tuning


@dataclass(frozen=True, slots=True)
class DistillJob:
    """What the user asked for; `model`: the target; `samples`: texts that it goes on with, None: by the machine."""

    model: str
    data: tuple[str, ...]
    out: Path
    asked: Asked
    distill: DistillSettings = field(default_factory=DistillSettings)
    samples: int | None = None
    restart: bool = False


def distil(job: DistillJob, cache: Path, should_stop: Callable[[], bool], listener: Listener) -> Result:
    """Run `job`, or go on with it where it was stopped; the student is exported at the end, and when time is up.

    Raises:
        FastcoderError: a model or the data is not there, or the folder holds another run.
        UsageError: the two models cut text into other tokens.
    """
    minutes = Minutes(job.asked.max_minutes)
    target, student = (models.find(name, cache) for name in (job.model, job.distill.student))
    earlier = [models.find(name, cache) for name in job.distill.boost]
    tokenizer = Tokenizer.load(target.folder)
    for files in (student, *earlier):
        if Tokenizer.load(files.folder).identity != tokenizer.identity:
            raise UsageError(
                f"{files.name} and {target.name} have different tokenizers",
                "With --student and --boost, name models of the same family.",
            )
    texts = read_texts(job.data, tokenizer, cache)
    settings, notes = settle("distill", job.asked, machine("cpu", models.count_parameters(student.folder)))
    require_tuning(settings)
    folder = RunFolder(job.out.expanduser().absolute())
    folder.begin(_identity(job, target, student, earlier, texts, settings), restart=job.restart)
    for note in notes:
        listener.note(note)
    for files in (target, student, *earlier):
        models.require_checkpoint(files.folder, lambda _share, _what: None)
    sequences = Sequences(texts.texts, tokenizer, length=settings.length, seed=settings.seed)

    found = _samples(job, target, tokenizer, sequences, folder, settings, minutes, cache, should_stop, listener)
    if found is None:
        return Result(Outcome(0, finished=False, seconds=minutes.seconds), None, folder.export)
    trainable = load_trainable(student.folder, settings, (), fresh=False, to_merge=False)
    with open_weights(target.folder) as weights:
        head_VE = weights.head(shape_of(target.folder))
    before = Earlier([files.folder for files in earlier])
    lesson = DistillLesson(trainable, head_VE, *found, batch=settings.batch, seed=settings.seed, earlier=before)
    left = minutes.left() if job.asked.steps is None else None
    planned = fitted(lesson, settings, folder, left, listener.note, used=USED)
    outcome = Trainer(lesson, planned, folder.path).run(should_stop, listener.status, minutes=minutes.left())
    if outcome.step == 0:
        return Result(outcome, None, folder.export)
    listener.note(f"writing {folder.export}")
    record = _record(job, target, student, texts, settings, folder)
    return Result(outcome, write_model(trainable, student.folder, folder.export, record), folder.export)


def _samples(
    job: DistillJob,
    target: ModelFiles,
    tokenizer: Tokenizer,
    sequences: Sequences,
    folder: RunFolder,
    settings: TrainSettings,
    minutes: Minutes,
    cache: Path,
    should_stop: Callable[[], bool],
    listener: Listener,
) -> tuple[list[Sample], list[Sample]] | None:
    """What the target says, and some of it that is held out; None where the user stopped before."""
    engine = target_engine(target, settings.length + job.distill.said + 256, cache)
    try:
        collector = Collector(engine, tokenizer, LAYERS, job.distill.said)
        return collect(collector, folder, sequences, job.samples, minutes, should_stop, listener.collected)
    finally:
        engine.close()


def _identity(
    job: DistillJob,
    target: ModelFiles,
    student: ModelFiles,
    earlier: Sequence[ModelFiles],
    texts: Texts,
    settings: TrainSettings,
) -> dict[str, object]:
    """What makes the run what it is, as JSON can hold it."""
    return {
        "model": job.model,
        "method": "distill",
        "target": target.digest,
        "student": student.digest,
        "earlier": [files.digest for files in earlier],
        "data": texts.fingerprint,
        "own": asdict(job.distill),
        "samples": job.samples,
        "steps_asked": job.asked.steps,
        "settings": asdict(settings),
    }


def _record(
    job: DistillJob, target: ModelFiles, student: ModelFiles, texts: Texts, settings: TrainSettings, folder: RunFolder
) -> TrainingRecord:
    curve = read_points(folder.path / "losses.jsonl")
    figures = {"steps": float(max((point.step for point in curve), default=0))}
    for term, values in series(curve, held_out=True).items():
        figures |= {f"held_out_{term}_first": values[0][1], f"held_out_{term}_last": values[-1][1]}
    arguments = {**asdict(job.distill), "target": target.name, "target_digest": target.digest}
    record = TrainingRecord(
        method="distill",
        base=student.name,
        base_digest=student.digest,
        weights="",
        data=texts.sources,
        data_digest=texts.fingerprint,
        arguments={**arguments, "training": asdict(settings)},
    )
    return replace(record, figures=figures)
