"""How a model is made ready: model files → engine, tokenizer, prompts, drafter, and what a step costs.

Owns the composition and its order: what can be compiled in another process is begun before the weights are read, and
nothing is timed while that runs. It decides nothing at a request.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fastcoder_lsp import engine as engines
from fastcoder_lsp import model as models
from fastcoder_lsp.config import Settings, cache_folder, kernels_folder
from fastcoder_lsp.core import Drafter, Engine, Progress, StepCosts
from fastcoder_lsp.prompt import PromptBuilder, PromptOptions, allowed
from fastcoder_lsp.runtime.compile_ahead import CompileAhead, heads_of, needed
from fastcoder_lsp.runtime.costs import step_costs
from fastcoder_lsp.runtime.parts import ALONE, GPU_NODES, Limits, Runtime, Surroundings, cpu_nodes
from fastcoder_lsp.runtime.start_record import StartRecord
from fastcoder_lsp.tokenizer import Tokenizer

if TYPE_CHECKING:
    from fastcoder_lsp.draft.trained import Trained

PROMPT_TOKENS = 1400
"""Longest prompt: what a CPU reads in a few seconds once, and keeps from then on."""
CONTEXT_TOKENS = 400
"""For code of other files, where it is wanted; on top of the longest prompt."""
_DRAFTER_FUNCTIONS = 110
"""That what drafts, and searches, is compiled of."""


def _unheard(_share: float, _what: str) -> None:
    pass


def load_runtime(settings: Settings, progress: Progress, around: Surroundings = ALONE) -> Runtime:
    """Put the parts together as `settings` say.

    Args:
        settings: of the session.
        progress: told what is being done.
        around: what it is told of the workspace.

    Raises:
        FastcoderError: the model is missing, damaged, or does not fit this machine; its hint says what to do.
    """
    cache = cache_folder()
    from fastcoder_lsp.kernels import compiling  # noqa: PLC0415 brings a compiler along

    with (
        StartRecord.kept(cache, settings.model) as record,
        compiling(_unheard, "", 1) as compiled,
        CompileAhead() as ahead,
    ):
        try:
            return _load(settings, record, record.telling(progress), around, ahead)
        finally:
            record.start.compiled = compiled.count


def _load(
    settings: Settings, record: StartRecord, progress: Progress, around: Surroundings, ahead: CompileAhead
) -> Runtime:
    from fastcoder_lsp.draft.registry import require_tuned  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.draft.trained import load_trained  # noqa: PLC0415

    cache = cache_folder()
    record.enter("find model")
    cpu = settings.engine.startswith("cpu-")
    files = models.prepare(settings.model, cache, progress, gpu_bytes=0 if cpu else None)
    trained = load_trained(files.folder, files.digest)
    require_tuned(settings.drafter, trained)
    if needed():
        ahead.begin(heads_of(files.folder) if settings.engine in ("auto", "cpu-int8") else None)
    record.enter("tokenizer")
    progress(0.0, f"loading {files.name}")
    tokenizer = Tokenizer.load(files.folder)
    engine = _engine(settings, files, record, progress)
    record.enter("drafter")
    ahead.wait(progress)  # what it makes is loaded later; what is timed now must have the machine alone
    record.enter("timing")
    costs = step_costs(engine, files.digest, cache, progress)
    kept = cache / "learnt" / f"{_name(around.workspace, files.digest)}.npz" if around.workspace else None
    drafter = _drafter(settings.drafter, around, tokenizer, costs, kept, trained, record, progress)
    progress(1.0, "ready")
    return _runtime(settings, around, engine, tokenizer, drafter, costs)


def _engine(settings: Settings, files: models.ModelFiles, record: StartRecord, progress: Progress) -> Engine:
    from fastcoder_lsp.kernels import trusted_folder  # noqa: PLC0415 brings a compiler along

    engine = engines.load(
        files.folder,
        name=files.name,
        source=files.source,
        digest=files.digest,
        options=engines.EngineOptions(
            kind=cast("engines.Kind", settings.engine),  # the table of settings allows no other
            context=settings.context_tokens,
            threads=settings.threads or None,
            gpu_memory_percent=settings.gpu_memory_percent,
            strict=settings.gpu_strict,
        ),
        cache=cache_folder(),
        progress=progress,
        enter=record.enter,
        kernels=kernels_folder(),
    )
    record.start.engine = engine.info.name
    note = trusted_folder(kernels_folder()).note
    record.start.notes.extend([*engine.info.notes, *([note] if note else [])])
    return engine


def _drafter(
    name: str,
    around: Surroundings,
    tokenizer: Tokenizer,
    costs: StepCosts,
    kept: Path | None,
    trained: "Trained",
    record: StartRecord,
    progress: Progress,
) -> Drafter:
    """What guesses, compiled and warm, and the search of the datastore with it."""
    from fastcoder_lsp.draft.registry import DrafterParts, make, warm_up  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.draft.store import nothing  # noqa: PLC0415
    from fastcoder_lsp.index.warm_up import warm_up as warm_up_index  # noqa: PLC0415
    from fastcoder_lsp.kernels import compiling  # noqa: PLC0415

    drafter = make(name, DrafterParts(around.pin or nothing, tokenizer.piece, costs, kept, trained))
    with compiling(progress, "compiling what drafts (first start only)", _DRAFTER_FUNCTIONS):
        record.enter("drafter")
        warm_up(drafter)
        if around.pin is not None:
            record.enter("datastore")
            warm_up_index()
    return drafter


def _runtime(
    settings: Settings, around: Surroundings, engine: Engine, tokenizer: Tokenizer, drafter: Drafter, costs: StepCosts
) -> Runtime:
    room = engine.info.context - settings.completion_max_tokens
    told = CONTEXT_TOKENS if settings.context_enabled else 0
    fills_rows = engine.info.name.startswith("cpu-") and not drafter.traits.weighs_costs
    return Runtime(
        engine=engine,
        tokenizer=tokenizer,
        prompts=PromptBuilder(
            tokenizer, PromptOptions(limit=min(PROMPT_TOKENS + told, room), context_tokens=told), around.context
        ),
        drafter=drafter,
        allow=lambda remaining: allowed(tokenizer, remaining),
        limits=Limits(settings.completion_max_tokens, cpu_nodes(costs) if fills_rows else GPU_NODES),
        costs=costs,
    )


def _name(workspace: str, digest: str) -> str:
    """Of a file for a workspace and a model; it tells neither."""
    return hashlib.sha256(f"{workspace}\n{digest}".encode()).hexdigest()[:32]
