"""The parts of a running model, and the one place that puts them together.

Owns the composition: model files → engine, tokenizer, prompts, drafter. It decides nothing at a request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.completion.costs import step_costs
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Drafter, Engine, Progress, ShouldStop, Snapshot, StepCosts
from fastcoder_lsp.prompt import PromptBuilder, PromptOptions, allowed
from fastcoder_lsp.tokenizer import Tokenizer

if TYPE_CHECKING:
    from fastcoder_lsp.draft.store import Pin

PROMPT_TOKENS = 1400
"""Longest prompt: what a CPU reads in a few seconds once, and keeps from then on."""
CPU_NODES = 8
"""Rows of one verification on a CPU: eight cost a quarter more than one, sixteen three quarters."""
GPU_NODES = 64
"""On a GPU, where a step of this width costs hardly more than one row: the published setting."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_tokens` of one completion; `nodes`: rows of one verification."""

    max_tokens: int
    nodes: int = CPU_NODES


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything a completion needs; only the service's worker touches it."""

    engine: Engine
    tokenizer: Tokenizer
    prompts: PromptBuilder
    drafter: Drafter
    allow: Callable[[bytes], npt.NDArray[np.int64]]
    limits: Limits
    costs: StepCosts

    def forget(self, uri: str) -> None:
        """Drop what is kept for a closed document."""
        self.prompts.forget(uri)
        self.drafter.forget(uri)

    def rename(self, old: str, new: str) -> None:
        """Carry over what is kept for a document."""
        self.prompts.rename(old, new)
        self.drafter.rename(old, new)

    def settle(self, snapshot: Snapshot, offset: int, should_stop: ShouldStop) -> None:
        """The user paused: move the prompt's anchor here and bring the KV cache up to date."""
        prompt = self.prompts.settle(snapshot, offset)
        self.engine.prefill(prompt.tokens[:-1], should_stop)


def load_runtime(settings: Settings, progress: Progress, pin: "Pin | None" = None) -> Runtime:
    """Put the parts together as `settings` say; drafters that read the datastore get it by `pin`.

    Raises:
        FastcoderError: the model is missing, damaged, or does not fit this machine; its hint says what to do.
    """
    # Late, because they bring a compiler along.
    from fastcoder_lsp.draft.registry import DrafterParts, make, warm_up  # noqa: PLC0415
    from fastcoder_lsp.draft.store import nothing  # noqa: PLC0415

    cache = cache_folder()
    cpu = settings.engine.startswith("cpu-")
    files = models.prepare(settings.model, cache, progress, gpu_bytes=0 if cpu else None)
    progress(0.0, f"loading {files.name}")
    tokenizer = Tokenizer.load(files.folder)
    drafter = make(settings.drafter, DrafterParts(pin or nothing, tokenizer.piece))
    warm_up(drafter)
    engine = engines.load(
        files.folder,
        name=files.name,
        source=files.source,
        digest=files.digest,
        options=engines.EngineOptions(
            kind=cast("engines.Kind", settings.engine),  # the table of settings allows no other
            context=settings.context_tokens,
            threads=settings.threads or None,
        ),
        cache=cache,
        progress=progress,
    )
    costs = step_costs(engine, files.digest, cache, progress)
    on_cpu = engine.info.name.startswith("cpu-")
    room = engine.info.context - settings.completion_max_tokens
    return Runtime(
        engine=engine,
        tokenizer=tokenizer,
        prompts=PromptBuilder(tokenizer, PromptOptions(limit=min(PROMPT_TOKENS, room))),
        drafter=drafter,
        allow=lambda remaining: allowed(tokenizer, remaining),
        limits=Limits(settings.completion_max_tokens, CPU_NODES if on_cpu else GPU_NODES),
        costs=costs,
    )
