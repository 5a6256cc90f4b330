"""One training of a model together with Medusa's heads, from its command: the model's folder, and the heads' beside it.

The composition root for `train medusa --lora`. Owns the order of things; prints nothing: it tells.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from fastcoder_lsp import model as models
from fastcoder_lsp.core import NORMED, KeepingEngine
from fastcoder_lsp.engine.weights import open_weights
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.drafter_files import DrafterRecord
from fastcoder_lsp.model.tuned import TrainingRecord
from fastcoder_lsp.tokenizer import Tokenizer
from fastcoder_lsp.train import checkpoint as checkpoints
from fastcoder_lsp.train.collecting import HELD_OUT
from fastcoder_lsp.train.curve import read_points, series
from fastcoder_lsp.train.drafter_session import DrafterResult, target_engine, write_drafter
from fastcoder_lsp.train.export import write_model
from fastcoder_lsp.train.loop import Outcome, Trainer
from fastcoder_lsp.train.machine import machine
from fastcoder_lsp.train.measure import tokens_a_pass
from fastcoder_lsp.train.medusa import LAYERS, MedusaLesson, MedusaSettings
from fastcoder_lsp.train.medusa_joint import ALONE, JointLesson
from fastcoder_lsp.train.minutes import Minutes
from fastcoder_lsp.train.options import Asked, TrainSettings, settle
from fastcoder_lsp.train.planning import fitted, with_plan
from fastcoder_lsp.train.run_folder import RunFolder
from fastcoder_lsp.train.samples import Sample
from fastcoder_lsp.train.sequences import Sequences
from fastcoder_lsp.train.session import Listener
from fastcoder_lsp.train.teacher import make_teacher, shape_of
from fastcoder_lsp.train.texts import Texts, read_texts
from fastcoder_lsp.train.trainable import load_trainable, require_tuning

USED = 0.85
"""Of the time that is left, for steps: writing a model and trying the heads on it take the rest."""


@dataclass(frozen=True, slots=True)
class JointJob:
    """What the user asked for; `vocabulary`: most tokens that the heads can say."""

    model: str
    data: tuple[str, ...]
    out: Path
    asked: Asked
    heads: MedusaSettings = field(default_factory=MedusaSettings)
    vocabulary: int = 16_384
    restart: bool = False


def train_joint(job: JointJob, cache: Path, should_stop: Callable[[], bool], listener: Listener) -> DrafterResult:
    """Run `job`, or go on with it; model and heads are written at the end, and when time is up.

    Raises:
        FastcoderError: the model or the data is not there, or the folder holds another run.
    """
    minutes = Minutes(job.asked.max_minutes)
    files = models.find(job.model, cache)
    shape, tokenizer = shape_of(files.folder), Tokenizer.load(files.folder)
    texts = read_texts(job.data, tokenizer, cache)
    settings, notes = settle("medusa", job.asked, machine("cpu", models.count_parameters(files.folder)))
    require_tuning(settings)
    folder = RunFolder(job.out.expanduser().absolute())
    folder.begin(_identity(job, files, texts, settings), restart=job.restart)
    for note in notes:
        listener.note(note)
    models.require_checkpoint(files.folder, lambda _share, _what: None)
    sequences = Sequences(texts.texts, tokenizer, length=settings.length, seed=settings.seed)
    counts_V = sequences.counts(shape.vocabulary)
    ids_D = np.sort(np.argsort(-counts_V, kind="stable")[: min(job.vocabulary, shape.vocabulary)])
    places_V = np.full(shape.vocabulary, -1, np.int64)
    places_V[ids_D] = np.arange(len(ids_D))
    with open_weights(files.folder) as weights:
        head_DE = weights.head(shape)[torch.from_numpy(ids_D)].float().contiguous()

    def lesson(*, planned: TrainSettings, to_merge: bool, share: float = ALONE) -> JointLesson:
        trainable = load_trainable(files.folder, planned, (), fresh=False, to_merge=to_merge)
        alone, batch = round(share * planned.steps), planned.batch
        places, head = torch.from_numpy(places_V), head_DE
        return JointLesson(trainable, sequences, places, head, job.heads, alone=alone, batch=batch)

    left, planned = minutes.left() if job.asked.steps is None else None, with_plan(settings, folder)
    if left is not None and "steps" not in folder.plan():  # a step for both is timed: heads alone take a part of it
        timed = lesson(planned=settings, to_merge=False, share=0.0)
        planned = fitted(timed, settings, folder, left, listener.note, used=USED)
    trainer = Trainer(lesson(planned=planned, to_merge=False), planned, folder.path)
    if trainer.step:
        listener.note(f"resuming after step {trainer.step} of {planned.steps}")
    outcome = trainer.run(should_stop, listener.status, minutes=minutes.left())
    place = folder.path / "drafter"
    if outcome.step == 0:
        return DrafterResult(Outcome(0, finished=False, seconds=minutes.seconds), None, place)
    listener.note(f"writing {folder.export}")
    merged = lesson(planned=planned, to_merge=True)
    found = checkpoints.newest(folder.path)
    assert found is not None
    checkpoints.unpack_values(found, merged.parameters())
    write_model(merged.trainable, files.folder, folder.export, _record(job, files, texts, planned, folder))
    return DrafterResult(outcome, _write_heads(job, merged, folder, tokenizer, texts, sequences, cache), place)


def _write_heads(
    job: JointJob,
    lesson: JointLesson,
    folder: RunFolder,
    tokenizer: Tokenizer,
    texts: Texts,
    sequences: Sequences,
    cache: Path,
) -> DrafterRecord:
    """Write the heads for the tuned model, with what they are worth on it."""
    files = models.find(str(folder.export), cache)
    shape, place = shape_of(files.folder), folder.path / "drafter"
    held = [one.tokens for one in sequences.held_out()[:HELD_OUT]]
    engine = target_engine(files, max(map(len, held), default=0) + 256, cache)
    try:
        samples = [_sample(engine, tokens) for tokens in held]
        teacher = make_teacher(files.folder, engine, samples, job.vocabulary, sequences.counts(shape.vocabulary))
        heads = MedusaLesson(lesson.taught(teacher), [], samples, job.heads, batch=1, seed=0)
        with torch.no_grad():
            for parameter, value in zip((heads.weight_KBEE, heads.bias_KBE), lesson.heads(), strict=True):
                parameter.copy_(value)
        ranks = heads.ranks() if samples else ()  # of what nobody saw nothing is known
        record = DrafterRecord(
            method="medusa",
            target=files.digest,
            target_name=files.name,
            width=shape.width,
            layers=LAYERS,
            numbers={"heads": job.heads.heads, "blocks": job.heads.blocks},
            lists={"ranks": ranks} if ranks else {},
            data=texts.sources,
            figures=_figures(folder),
        )
        write_drafter(place, record, heads.tensors())
        found = tokens_a_pass(engine, tokenizer, f"medusa:weights={place}", held)
        record = replace(record, figures={**record.figures, **found})
        record.write(place)
        return record
    finally:
        engine.close()


def _sample(engine: KeepingEngine, tokens: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Sample:
    engine.keep_states((NORMED,))
    engine.prefill(tokens.tolist(), lambda: False)
    return Sample(tokens, 1, engine.states((NORMED,), 0, len(tokens)).astype(np.float16))


def _figures(folder: RunFolder) -> dict[str, float]:
    curve = read_points(folder.path / "losses.jsonl")
    figures = {"steps": float(max((point.step for point in curve), default=0))}
    for term, values in series(curve, held_out=True).items():
        figures |= {f"held_out_{term}_first": values[0][1], f"held_out_{term}_last": values[-1][1]}
    return figures


def _identity(job: JointJob, files: ModelFiles, texts: Texts, settings: TrainSettings) -> dict[str, object]:
    """What makes the run what it is, as JSON can hold it."""
    return {
        "model": job.model,
        "method": "medusa, jointly",
        "target": files.digest,
        "data": texts.fingerprint,
        "own": asdict(job.heads),
        "vocabulary": job.vocabulary,
        "steps_asked": job.asked.steps,
        "settings": asdict(settings),
    }


def _record(
    job: JointJob, files: ModelFiles, texts: Texts, settings: TrainSettings, folder: RunFolder
) -> TrainingRecord:
    return TrainingRecord(
        method="medusa",
        base=files.name,
        base_digest=files.digest,
        weights="",
        data=texts.sources,
        data_digest=texts.fingerprint,
        arguments={**asdict(job.heads), "vocabulary": job.vocabulary, "training": asdict(settings)},
        figures=_figures(folder),
    )
