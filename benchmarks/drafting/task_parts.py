"""What benchmarks of drafters decode: tasks, a model, and the datastores of both.

Owns their composition from a benchmark's options.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.common.requests import NODES, decode_request
from benchmarks.common.smaller import SmallerModels, smaller_models
from benchmarks.datasets import repoeval
from benchmarks.datasets.folder import require
from benchmarks.datasets.spread import spread
from benchmarks.drafting.drafters import DrafterParts, require_smaller, require_tuned
from benchmarks.drafting.task_stores import TaskStores
from fastcoder_lsp.bench.model import BenchModel, find_model
from fastcoder_lsp.config import kernels_folder
from fastcoder_lsp.core import Engine
from fastcoder_lsp.decode.loop import DecodeRequest
from fastcoder_lsp.draft import skipped_parts
from fastcoder_lsp.draft.base import MakeLinear, Pinned, Trained, load_trained
from fastcoder_lsp.draft.smaller import DocumentEngines
from fastcoder_lsp.engine.int8.linear import packed_linear
from fastcoder_lsp.tokenizer import Tokenizer

CONTEXT = 2048
LEAKAGE = "the target's body is in no index and no prompt"
"""What reports say of it."""


@dataclass(frozen=True, slots=True)
class TaskParts:
    """Tasks and a model.

    `engine` makes one; `identity` names model and engine; `trained`: what it was tuned for; `smaller` draft for it.
    """

    tasks: repoeval.TaskSet
    chosen: tuple[repoeval.Task, ...]
    model: BenchModel
    stores: TaskStores
    engine: Callable[[], Engine]
    identity: str
    trained: Trained
    smaller: SmallerModels

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self.model.tokenizer

    def in_file_order(self) -> list[repoeval.Task]:
        """The chosen tasks, those of one file one after the other, from its top down."""
        return sorted(self.chosen, key=lambda task: (task.repo, task.path, task.start))

    def drafter_parts(self, task: repoeval.Task) -> DrafterParts:
        """What drafters of one task are made of."""
        return DrafterParts(
            lambda _: self.stores.pin(task),
            self.tokenizer.piece,
            trained=self.trained,
            smaller=self.lend,
            skipped=self.skipped.skipped,
            linear=self.linear,
            skipped_speed=self.skipped.speed,
        )

    @property
    def linear(self) -> MakeLinear:
        """Products with drafters' own weights, as in the server."""
        return partial(packed_linear, kernels=kernels_folder())

    @property
    def skipped(self) -> skipped_parts.Kept:
        """Parts that a search has found for the model."""
        return skipped_parts.kept(self.model.cache, self.model.files.digest)

    def lend(self) -> Sequence[DocumentEngines]:
        """The smaller models, loaded when they are first asked for."""
        return self.smaller.of("")

    def require(self, name: str) -> None:
        """See that the drafter `name` can draft on this model, with these smaller ones.

        Raises:
            UsageError: it cannot.
        """
        require_tuned(name, self.trained)
        require_smaller(name, len(self.smaller))

    def request(
        self,
        task: repoeval.Task,
        max_tokens: int,
        *,
        to_body_end: bool,
        document: str = "",
        nodes: int = NODES,
    ) -> DecodeRequest:
        """A decode of the body of `task`; `to_body_end`: its output ends where the body does."""
        return decode_request(
            self.tokenizer,
            repoeval.prompt(self.tokenizer, self.tasks.before(task)),
            max_tokens,
            cut=repoeval.function_end if to_body_end else None,
            document=document,
            nodes=nodes,
        )


@dataclass(slots=True)
class TaskPin:
    """Pins the datastores of `task`, whichever it is just then (`draft.store.Pin`): drafters outlive a task."""

    stores: TaskStores
    task: repoeval.Task

    def __call__(self, _document: str) -> Pinned:
        """The stores of the task, whatever the document."""
        return self.stores.pin(self.task)


def document_of(task: repoeval.Task, *, warm: bool) -> str:
    """The URI that drafters keep their caches under: warm, of the task's file; cold, of the task alone."""
    return f"file:///{task.repo}/{task.path}" if warm else f"task:{task.id}"


def load_parts(
    *,
    tasks: Path | None = None,
    limit: int | None = None,
    model: str = "auto",
    engine: str,
    strict: bool = False,
    smaller: Sequence[str] = (),
) -> TaskParts:
    """Put the parts together; no engine is loaded yet.

    Args:
        tasks: a folder with tasks.jsonl and repos.tar.gz; None for RepoEval.
        limit: take so many tasks, evenly spread; None for all.
        model: as the setting `model`.
        engine: as the setting `engine`.
        strict: as the setting `gpu.strict`.
        smaller: as the setting `draft.models`.

    Raises:
        FastcoderError: the model or the tasks are not on this machine.
    """
    found = find_model(model)
    read = repoeval.load(tasks or require("repoeval"))
    return TaskParts(
        tasks=read,
        chosen=spread(read.tasks, limit),
        model=found,
        stores=TaskStores(found.tokenizer, read, found.cache),
        engine=lambda: found.engine(engine, CONTEXT, strict=strict),
        identity=f"{found.files.digest} {engine}",
        trained=load_trained(found.files.folder, found.files.digest),
        smaller=smaller_models(smaller, found, engine, CONTEXT),
    )


def parts_of(arguments: argparse.Namespace) -> TaskParts:
    """The parts that the options of `drafting.options.add_tasks` say.

    Raises:
        FastcoderError: the model or the tasks are not on this machine.
    """
    return load_parts(
        tasks=arguments.tasks,
        limit=arguments.limit,
        model=arguments.model,
        engine=arguments.engine,
        strict=arguments.strict,
        smaller=arguments.draft_model,
    )
