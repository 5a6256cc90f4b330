"""The parts that benchmarks of decoding share: the model's files, its tokenizer, and its engine when one is needed.

Owns their composition for benchmarks; the product's own is `completion.runtime`.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.bench import repoeval
from fastcoder_lsp.bench.data import require
from fastcoder_lsp.bench.stores import BenchStores
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.core import Engine
from fastcoder_lsp.draft.registry import DrafterParts
from fastcoder_lsp.draft.trained import Trained, load_trained
from fastcoder_lsp.tokenizer import Tokenizer

CONTEXT = 2048


@dataclass(frozen=True, slots=True)
class BenchParts:
    """`identity` names model and engine; `engine` makes one (seconds, and the weights' memory)."""

    tasks: repoeval.TaskSet
    chosen: tuple[repoeval.Task, ...]
    tokenizer: Tokenizer
    stores: BenchStores
    engine: Callable[[], Engine]
    identity: str
    model: str
    cache: Path
    trained: Trained

    def drafter_parts(self, task: repoeval.Task) -> DrafterParts:
        """What drafters of one task are made of."""
        return DrafterParts(lambda _: self.stores.pin(task), self.tokenizer.piece, trained=self.trained)


def load_parts(arguments: argparse.Namespace) -> BenchParts:
    """Put together what the options say.

    Raises:
        FastcoderError: the model or the tasks are not on this machine.
    """
    cache = cache_folder()
    files = models.find(arguments.model, cache)
    tokenizer = Tokenizer.load(files.folder)
    tasks = repoeval.load(arguments.tasks or require("repoeval"))

    def engine() -> Engine:
        return engines.load(
            files.folder,
            name=files.name,
            source=files.source,
            digest=files.digest,
            options=engines.EngineOptions(kind=arguments.engine, context=CONTEXT, strict=arguments.strict),
            cache=cache,
            progress=lambda _share, _what: None,
        )

    return BenchParts(
        tasks=tasks,
        chosen=repoeval.spread(tasks.tasks, arguments.limit),
        tokenizer=tokenizer,
        stores=BenchStores(tokenizer, tasks, cache),
        engine=engine,
        identity=f"{files.digest} {arguments.engine}",
        model=files.name,
        cache=cache,
        trained=load_trained(files.folder, files.digest),
    )
