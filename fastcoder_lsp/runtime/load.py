"""Loads a model: engine, tokenizer and step costs once, drafter and prompts for each front.

Loading has a fixed order. First a second process starts to compile kernels. Meanwhile this one compiles the index.
Timing waits until that process has ended. Makes no decisions at a request.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from fastcoder_lsp import model as models
from fastcoder_lsp.config import Settings, cache_folder, kernels_folder
from fastcoder_lsp.core import Engines, Progress
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import NONE, Drafter
from fastcoder_lsp.engine import EngineOptions
from fastcoder_lsp.errors import ModelInvalidError
from fastcoder_lsp.prompt import PLAIN, PromptBuilder, allowed, template_of
from fastcoder_lsp.runtime.compile_ahead import BITS, CompileAhead, needed, shape_of
from fastcoder_lsp.runtime.costs import (
    BESIDE_MS,
    LATER_MS,
    PROMPT_TOKENS,
    context_tokens,
    corrected_costs,
    prompt_options,
    prompt_room,
    step_costs,
)
from fastcoder_lsp.runtime.edit_model import EditModels, load_edit_model, no_edit_model
from fastcoder_lsp.runtime.later_drafts import LaterDrafts, WaitingDrafter
from fastcoder_lsp.runtime.model_choice import bits_by_choice, gpu_for_choice, measure_once
from fastcoder_lsp.runtime.parts import ALONE, GPU_NODES, DecodeLimits, Model, Runtime, WorkspaceView, cpu_nodes
from fastcoder_lsp.runtime.set_engine import load_engines
from fastcoder_lsp.runtime.smaller_models import SmallerModels
from fastcoder_lsp.runtime.start_record import StartRecord
from fastcoder_lsp.tokenizer import Tokenizer

_TIMED = "timed"
LEAST_WINDOW = 64
"""Tokens of a context: fewer hold the marks, and hardly a line of code."""
_DRAFTER_FUNCTIONS = 110
"""Functions that are compiled for the drafter and the search."""


def _leave(model: Model, front: str) -> None:
    """Free the caches of a front in the models beside the code model."""
    for beside in (model.smaller, model.edits):
        if beside is not None:
            beside.leave(front)


def wants_datastore(settings: Settings) -> bool:
    """Whether a drafter reads the workspace's datastore."""
    from fastcoder_lsp.draft.registry import reads_datastore  # noqa: PLC0415 brings a compiler along

    return settings.index_enabled and reads_datastore(settings.drafter)


def load_model(
    settings: Settings,
    progress: Progress,
    *,
    datastore: bool | None = None,
    alone: bool = True,
    recorded: bool = True,
    drafts: bool = True,
    later: bool = False,
) -> Model:
    """Load the parts that fronts share, and compile all that a front with these settings needs.

    Args:
        settings: the host's; the drafter that they name is compiled.
        progress: receives the stages.
        datastore: whether a datastore will be searched; None: as the settings say.
        alone: False while another model of this process works: known times are then not checked.
        recorded: whether this is the last start, which `doctor` reports.
        drafts: False where nothing will be drafted: a first start then compiles and times only what an answer needs.
        later: whether a first start may compile the default drafter and the index after the first text.

    Raises:
        FastcoderError: the model is missing, damaged, or does not fit this machine; its hint says what to do.
    """
    cache = cache_folder()
    with StartRecord.kept(cache, settings.model, written=recorded) as record, CompileAhead() as ahead:
        tell = record.telling(progress)
        record.enter("find model")
        gpu = gpu_for_choice(settings)
        files = models.prepare(settings.model, cache, tell, gpu_bytes=gpu)
        found = _Found(files, gpu, bits_by_choice(settings, files.hub_id, cache, gpu))
        first = needed()
        waits = first and drafts and later and settings.drafter == Settings().drafter and not settings.draft_models
        drafts = drafts and not waits
        if first:
            _begin(ahead, settings, found, drafts=drafts)
        from fastcoder_lsp.kernels import compiling  # noqa: PLC0415 brings a compiler along

        searched = not waits and (wants_datastore(settings) if datastore is None else datastore)
        with compiling(lambda _share, _what: None, "", 1) as compiled:
            try:
                used = replace(settings, drafter=NONE.name) if waits else settings
                model = _load(used, found, record, tell, ahead, datastore=searched, alone=alone, drafts=drafts)
                return replace(model, later=LaterDrafts.in_second_process()) if waits else model
            finally:
                record.start.compiled = compiled.count


def needs_own_weights(drafter: str) -> bool:
    """Whether a drafter may need weights that were trained with one model."""
    return drafter.partition(":")[0] != Settings().drafter or "weights=" in drafter


def corrected(model: Model) -> Model:
    """The model with its costs corrected by some steps; nothing else may run."""
    costs = corrected_costs(model.costs, model.engines.slot(_TIMED))
    model.engines.forget(_TIMED)
    return replace(model, costs=costs)


def make_runtime(model: Model, settings: Settings, around: WorkspaceView = ALONE, front: str = "") -> Runtime:
    """The runtime of one front; takes milliseconds.

    While a model only answers until another one is ready, the default drafter stands in for one of that model's own.

    Raises:
        FastcoderError: there is no such drafter, or the model was not tuned for it.
    """
    from fastcoder_lsp.draft.auto import AUTO  # noqa: PLC0415 as above
    from fastcoder_lsp.draft.registry import require_smaller, require_tuned, warm_up  # noqa: PLC0415

    waits = model.successor is not None and needs_own_weights(settings.drafter)
    name = Settings().drafter if waits else settings.drafter
    require_tuned(name, model.trained)
    require_smaller(name, len(model.smaller) if model.smaller is not None else 0)
    make = partial(_drafter, model, name, around, front)
    waits_for = model.later if name == Settings().drafter else None
    if waits_for is not None and not waits_for.ready:
        drafter: Drafter = WaitingDrafter(AUTO, waits_for, make)
    else:
        drafter = make()
        warm_up(drafter)
    slots = Slots(model.engines, front)
    room = prompt_room(slots.info.context, settings.completion_max_tokens)
    prefill_ms, has_second = model.costs.prefill_ms, model.engines.second_cache(_TIMED) is not None
    within_ms = BESIDE_MS if has_second else LATER_MS
    tokens = context_tokens(settings.context_enabled, prefill_ms, room, within_ms=within_ms)
    fills_rows = slots.info.name.startswith("cpu-") and not drafter.traits.weighs_costs
    return Runtime(
        slots=slots,
        tokenizer=model.tokenizer,
        prompts=PromptBuilder(model.tokenizer, prompt_options(tokens, room, prefill_ms), around.context),
        drafter=drafter,
        allow=lambda remaining: allowed(model.tokenizer, remaining),
        limits=DecodeLimits(settings.completion_max_tokens, cpu_nodes(model.costs) if fills_rows else GPU_NODES),
        costs=model.costs,
        context=around.context,
        edit_model=partial(model.edits.of, settings, front) if model.edits is not None else no_edit_model,
        closing=partial(_leave, model, front),
    )


def load_runtime(
    settings: Settings, progress: Progress, around: WorkspaceView = ALONE, *, drafts: bool = True
) -> Runtime:
    """A model for a single front, which is closed with its runtime; arguments and errors as of the two above."""
    model = load_model(settings, progress, datastore=around.pin is not None, drafts=drafts)
    with _closed_on_failure(model):
        return replace(make_runtime(model, settings, around), closing=model.close)  # closes its smaller models, too


@dataclass(frozen=True, slots=True)
class _Found:
    """The model, memory of the GPU that `auto` may count on, and bits of a weight where the rule takes some."""

    files: models.ModelFiles
    gpu: int
    bits: int | None


def _begin(ahead: CompileAhead, settings: Settings, found: _Found, *, drafts: bool) -> None:
    """Start compiling for the model, in the precision that it will have."""
    files = found.files
    shape = shape_of(files.folder) if settings.engine in BITS else None
    heads = (shape.group, shape.head_dim) if shape is not None else None
    width = found.bits or BITS.get(settings.engine, 8)
    ahead.begin(heads, width, shape.kind if shape is not None else "qwen2", drafts=drafts)


def _load(
    settings: Settings,
    found: _Found,
    record: StartRecord,
    progress: Progress,
    ahead: CompileAhead,
    *,
    datastore: bool,
    alone: bool,
    drafts: bool,
) -> Model:
    from fastcoder_lsp.draft.base import load_trained  # noqa: PLC0415
    from fastcoder_lsp.draft.registry import require_tuned  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.engine.loader import needs_llama  # noqa: PLC0415 as above

    cache, files, gpu = cache_folder(), found.files, found.gpu
    trained = load_trained(files.folder, files.digest)
    require_tuned(settings.drafter, trained)
    record.enter("tokenizer")
    progress(0.0, f"loading {files.name}")
    tokenizer = Tokenizer.load(files.folder, cache / "tokenizers")
    if template_of(tokenizer) is PLAIN and needs_llama(settings.engine, files.folder):
        raise ModelInvalidError(
            f"{files.name} has no marks for infilling, so it cannot complete in the middle of a text",
            "Use a model that was trained for it (docs/models.md has a list).",
        )
    if datastore and ahead.begun:
        record.enter("datastore")
        ahead.help(progress)
    engine = _engine(settings, files, found.bits, record, progress)
    require_same_words(tokenizer, engine.info.vocabulary, files.name)
    record.start.notes.extend(_window_notes(engine.info.context, settings, files.name))
    record.enter("drafter")
    ahead.wait(progress)  # timing needs the machine alone
    record.enter("timing")
    costs = step_costs(engine.slot(_TIMED), files.digest, cache, progress, probes=alone)
    engine.forget(_TIMED)
    if drafts or not ahead.begun:  # a first answer does not wait for times that it does not need
        measure_once(settings, files.hub_id, engine.info.name, cache, gpu, progress)
    smaller = SmallerModels(settings, cache, tokenizer, progress) if settings.draft_models else None
    model = Model(engine, tokenizer, costs, trained, files.digest, smaller, EditModels(load_edit_model))
    with _closed_on_failure(model):
        _compile(model, settings.drafter, record, progress, datastore=datastore)
    progress(1.0, "warming up")
    return model


def require_same_words(tokenizer: Tokenizer, vocabulary: int, name: str) -> None:
    """Check that the weights of the model `name` cover all tokens of a prompt: files of two models may be mixed.

    Control tokens that no prompt holds may be missing: some tokenizers have a few that were never trained.

    Raises:
        ModelInvalidError: a token has no weights.
    """
    template = template_of(tokenizer)
    marks = (*template.marks, template.repository, template.file)
    used = [*tokenizer.start_ids, *(tokenizer.control[mark] for mark in marks if mark)]
    used += [token for token in range(vocabulary, tokenizer.vocabulary) if tokenizer.piece(token)]
    if max(used, default=0) >= vocabulary:
        raise ModelInvalidError(
            f"{name}: the tokenizer's ids go up to {max(used)}, but the weights' only up to {vocabulary - 1}",
            "The files belong to different models. Download the model again, or use another folder.",
        )


def _window_notes(context: int, settings: Settings, name: str) -> list[str]:
    """A notice for a model that reads fewer tokens than an ordinary prompt and a suggestion have.

    Raises:
        ModelInvalidError: they are too few for any prompt.
    """
    if context < LEAST_WINDOW:
        raise ModelInvalidError(
            f"{name} reads at most {context} tokens, too few for a prompt of code",
            "Use a model with a longer context (max_position_embeddings in its config.json).",
        )
    room = prompt_room(context, settings.completion_max_tokens)
    if room >= PROMPT_TOKENS:
        return []
    return [f"prompts have at most {room} tokens instead of {PROMPT_TOKENS:,}: the context is {context:,} tokens long"]


def _engine(
    settings: Settings, files: models.ModelFiles, bits: int | None, record: StartRecord, progress: Progress
) -> Engines:
    from fastcoder_lsp.kernels import trusted_folder  # noqa: PLC0415 brings a compiler along

    options = EngineOptions(
        context=settings.context_tokens,
        kv_mb=settings.memory_kv_mb,
        gpu_memory_percent=settings.gpu_memory_percent,
        strict=settings.gpu_strict,
        llama_strict=settings.llama_strict,
        bits=bits,
    )
    engine = load_engines(settings, files, options, cache_folder(), progress, record.enter)
    record.start.engine = engine.info.name
    note = trusted_folder(kernels_folder()).note
    record.start.notes.extend([*engine.info.notes, *([note] if note else [])])
    return engine


def _compile(model: Model, drafter: str, record: StartRecord, progress: Progress, *, datastore: bool) -> None:
    """Compile the drafter, and the datastore's search if `datastore`."""
    from fastcoder_lsp.decode.loop import ask_states  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.draft.registry import warm_up  # noqa: PLC0415
    from fastcoder_lsp.index.searcher import warm_up as warm_up_index  # noqa: PLC0415
    from fastcoder_lsp.kernels import compiling  # noqa: PLC0415

    with compiling(progress, "compiling the drafter (first start only)", _DRAFTER_FUNCTIONS):
        record.enter("drafter")
        made = _drafter(model, drafter, ALONE)
        warm_up(made)
        ask_states(model.engines.slot(_TIMED), made.traits.layers)
        model.engines.forget(_TIMED)
        while model.prepare():  # the graph engine captures its programs anew for the states
            pass
        if datastore:
            record.enter("datastore")
            warm_up_index()


def _drafter(model: Model, name: str, around: WorkspaceView, front: str = "") -> Drafter:
    from fastcoder_lsp.draft.base import no_models, nothing  # noqa: PLC0415 brings a compiler along
    from fastcoder_lsp.draft.registry import DrafterParts, make  # noqa: PLC0415 as above
    from fastcoder_lsp.engine.int8.linear import packed_linear  # noqa: PLC0415
    from fastcoder_lsp.model import skip_sets  # noqa: PLC0415

    kept = cache_folder() / "learnt" / f"{_name(around.workspace, model.digest)}.npz" if around.workspace else None
    smaller = no_models if model.smaller is None else partial(model.smaller.of, front)
    pin, skipped = around.pin or nothing, skip_sets.kept(cache_folder(), model.digest)
    parts = DrafterParts(
        pin=pin,
        piece=model.tokenizer.piece,
        costs=model.costs,
        kept=kept,
        trained=model.trained,
        smaller=smaller,
        skipped=skipped.skipped,
        linear=partial(packed_linear, kernels=kernels_folder()),
        skipped_speed=skipped.speed,
    )
    return make(name, parts)


@contextmanager
def _closed_on_failure(model: Model) -> Iterator[None]:
    try:
        yield
    except BaseException:
        model.close()
        raise


def _name(workspace: str, digest: str) -> str:
    """The name of a file for a workspace and a model; a hash that reveals neither."""
    return hashlib.sha256(f"{workspace}\n{digest}".encode()).hexdigest()[:32]
