"""Trainings of a drafter's own weights: Medusa's heads (with a model for Medusa-2), EAGLE's layer."""

import shutil
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from typing_extensions import override

from fastcoder_lsp import model as models
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core import NORMED, Engine, KeepingEngine
from fastcoder_lsp.core.controls import counted
from fastcoder_lsp.decode.loop import DecodeRequest, decode
from fastcoder_lsp.draft.base import DrafterParts, NoDrafter
from fastcoder_lsp.draft.registry import make
from fastcoder_lsp.engine.int8.linear import packed_linear
from fastcoder_lsp.errors import UsageError
from fastcoder_lsp.model import ModelFiles
from fastcoder_lsp.model.drafter_files import WEIGHTS, DrafterRecord
from fastcoder_lsp.model.files import TrainingRecord
from fastcoder_lsp.model.store import publish
from fastcoder_lsp.papers.train import eagle
from fastcoder_lsp.papers.train.example import Ids
from fastcoder_lsp.papers.train.loop import Lesson, RunOutcome, with_plan
from fastcoder_lsp.papers.train.medusa import ALONE, JointLesson, MedusaLesson
from fastcoder_lsp.papers.train.options import TrainingDevice, TrainSettings, machine
from fastcoder_lsp.papers.train.samples import (
    HELD_OUT,
    DrafterLesson,
    Sample,
    head_rows,
    make_teacher,
    most_frequent,
    open_target,
    shape_of,
)
from fastcoder_lsp.papers.train.session import Result, TrainingSession
from fastcoder_lsp.papers.train.trainable import load_trainable, write_model
from fastcoder_lsp.tokenizer import Tokenizer

TOKENS, ROWS = 48, 16  # a drafter is evaluated on so many tokens of each held-out text, by passes of so many rows


class DrafterSession(TrainingSession):
    """A drafter's weights are trained from the hidden states of a target, which stays as it is."""

    @property
    @abstractmethod
    def kind(self) -> type[DrafterLesson[Any]]:
        """The lesson of the method."""

    @property
    @override
    def place(self) -> Path:
        return self.folder.drafter

    @override
    def machine(self) -> TrainingDevice:
        return machine("cpu", shape_of(self.files.folder).weight_count, vectors=True)

    @override
    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "collected": asdict(self.job.collected)}

    @override
    def prepare(self) -> Lesson | None:
        collected, settings, shape = self.job.collected, self.settings, shape_of(self.files.folder)
        context = settings.length + collected.said + 256
        self._engine = self.opened.enter_context(closing(open_target(self.files, context, self.cache)))
        found = self.collect(self._engine, self.kind.collected(shape, self.own), collected.said)
        if found is None:
            return None
        samples, held = found
        counts_V = self.sequences.counts(shape.vocabulary)
        teacher = make_teacher(self.files.folder, self._engine, [*samples, *held], collected.vocabulary, counts_V)
        self.listener.note(
            f"{counted(len(samples), 'text')}, {counted(sum(map(len, samples)), 'token')}; "
            f"{counted(len(teacher.ids_D), 'token')} can be drafted"
        )
        half = settings.precision == "bf16"
        self._held = [sample.tokens for sample in held]
        self._lesson = self.kind(teacher, samples, held, self.own, batch=settings.batch, seed=settings.seed, half=half)
        return self._lesson

    @override
    def write(self) -> DrafterRecord:
        return write_evaluated(self, self.files, self._lesson, self._engine, self._held)


class MedusaSession(DrafterSession):
    """`train medusa`."""

    method = "medusa"
    kind = MedusaLesson


class EagleSession(DrafterSession):
    """`train eagle`."""

    method = "eagle"

    @property
    @override
    def kind(self) -> type[DrafterLesson[Any]]:
        return eagle.EagleLesson if self.own.version == 3 else eagle.FeatureLesson


class JointSession(TrainingSession):
    """`train medusa --lora` or `--full` (Medusa-2): a model is tuned together with its heads."""

    method = "medusa-2"
    used = 0.85

    @property
    @override
    def place(self) -> Path:
        return self.folder.drafter

    @override
    def result(self, outcome: RunOutcome, record: TrainingRecord | DrafterRecord | None) -> Result:
        return Result(outcome, record, self.place, str(self.folder.model))  # the heads belong to the tuned model

    @override
    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "method": "medusa, jointly", "vocabulary": self.job.collected.vocabulary}

    @override
    def prepare(self) -> Lesson:
        if self.minutes.most is not None and self.job.asked.steps is None and "steps" not in self.folder.plan():
            # A step of both is timed: one of the heads alone takes a part of it.
            self.fitted(self._lesson(self.settings, to_merge=False, share=0.0))
        return self._lesson(with_plan(self.settings, self.folder), to_merge=False)

    def _lesson(self, settings: TrainSettings, *, to_merge: bool, share: float = ALONE) -> JointLesson:
        shape = shape_of(self.files.folder)
        counts_V = self.sequences.counts(shape.vocabulary)
        ids_D, places_V = most_frequent(counts_V, self.job.collected.vocabulary)
        return JointLesson(
            load_trainable(self.files.folder, settings, (), fresh=False, to_merge=to_merge),
            self.sequences,
            torch.from_numpy(places_V),
            head_rows(self.files.folder, shape, ids_D),
            self.own,
            alone=round(share * settings.steps),
            batch=settings.batch,
        )

    @override
    def write(self) -> DrafterRecord:
        self.listener.note(f"writing {self.folder.model}")
        merged = self._lesson(self.settings, to_merge=True)
        self.folder.restore_values(merged.parameters())
        more = {"vocabulary": self.job.collected.vocabulary, "training": asdict(self.settings)}
        record = TrainingRecord(
            method="medusa",
            base=self.files.name,
            base_digest=self.files.digest,
            weights="",
            data=self.texts.sources,
            data_digest=self.texts.fingerprint,
            arguments={**asdict(self.own), **more},
            figures=self.folder.figures(),
        )
        write_model(merged.trainable, self.files.folder, self.folder.model, record)
        files = models.find(str(self.folder.model), self.cache)
        held = [one.tokens for one in self.sequences.held_out()[:HELD_OUT]]
        with closing(open_target(files, max(map(len, held), default=0) + 256, self.cache)) as engine:
            return self._write_heads(merged, files, engine, held)

    def _write_heads(
        self, merged: JointLesson, files: ModelFiles, engine: KeepingEngine, held: Sequence[Ids]
    ) -> DrafterRecord:
        samples = [_sample(engine, tokens) for tokens in held]
        counts_V = self.sequences.counts(shape_of(files.folder).vocabulary)
        teacher = make_teacher(files.folder, engine, samples, self.job.collected.vocabulary, counts_V)
        heads = MedusaLesson(merged.taught(teacher), [], samples, self.own, batch=1, seed=0)
        with torch.no_grad():
            for name, value in merged.heads().items():
                heads.parameters()[name].copy_(value)
        return write_evaluated(self, files, heads, engine, held)


def write_evaluated(
    session: TrainingSession, files: ModelFiles, lesson: DrafterLesson[Any], engine: Engine, held: Sequence[Ids]
) -> DrafterRecord:
    """Write the drafter that `lesson` trained, for the model in `files`; evaluate it on the held-out texts."""
    shape, ranks, place = shape_of(files.folder), lesson.ranks(), session.place
    record = DrafterRecord(
        method=lesson.method,
        target=files.digest,
        target_name=files.name,
        width=shape.width,
        layers=lesson.layers(shape, session.own),
        numbers=lesson.numbers(shape, session.own),
        lists={"ranks": ranks} if ranks else {},
        data=session.texts.sources,
        figures=session.folder.figures(),
    )
    write_drafter(place, record, lesson.tensors())
    found = _tokens_a_pass(engine, session.tokenizer, f"{record.method}:weights={place}", held)
    record = replace(record, figures={**record.figures, **found})
    record.write(place)
    return record


def require_place(place: Path) -> None:
    """Check that a drafter may be written to `place`. Raises UsageError if it holds other files."""
    if place.is_dir() and any(place.iterdir()) and not (place / WEIGHTS).is_file():
        raise UsageError(f"{place} contains other files", "Name an empty or a new folder.")


def write_drafter(place: Path, record: DrafterRecord, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a drafter's folder, whole or not at all; raises like `require_place`."""
    require_place(place)
    made = place.with_name(f"unfinished-{place.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in tensors.items()}, made / WEIGHTS)
    record.write(made)
    publish(made, place)


def _tokens_a_pass(engine: Engine, tokenizer: Tokenizer, drafter: str, texts: Sequence[Ids]) -> dict[str, float]:
    """The measured "tokens_a_pass" behind each text's first half, and "identical" (1 or 0): all are the plain ones."""
    if not texts:
        return {}
    parts = DrafterParts(piece=tokenizer.piece, linear=partial(packed_linear, kernels=kernels_folder()))
    made, tokens, steps, same = make(drafter, parts), 0, 0, True
    for text in texts:
        request = DecodeRequest(
            tuple(text[: max(1, len(text) // 2)].tolist()),
            TOKENS,
            tokenizer.end_ids,
            tokenizer.piece,
            tokenizer.starting_with,
            lambda _: None,
            nodes=ROWS,
        )
        plain = decode(engine, NoDrafter(), request, lambda: False)
        drafted = decode(engine, made, request, lambda: False)
        same &= plain.tokens == drafted.tokens
        tokens, steps = tokens + len(drafted.tokens), steps + drafted.counts.steps
    return {"tokens_a_pass": tokens / max(steps, 1), "identical": float(same)}


def _sample(engine: KeepingEngine, tokens: Ids) -> Sample:
    engine.keep_states((NORMED,))
    engine.prefill(tokens.tolist(), lambda: False)
    return Sample(tokens, 1, engine.states((NORMED,), 0, len(tokens)).astype(np.float16))
