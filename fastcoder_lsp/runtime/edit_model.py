"""The edit model: a second model in the model's process, loaded when a client first asks for an edit.

A thread of its own loads it, so that completions go on. Its failure is a reason for empty answers to questions for
edits, and harms nothing else. It is unloaded with the code model.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from fastcoder_lsp import model as models
from fastcoder_lsp.completion import reasons
from fastcoder_lsp.completion.status import Status, failure
from fastcoder_lsp.config import Settings, cache_folder
from fastcoder_lsp.core import Engines, Progress, Reason, StepCosts
from fastcoder_lsp.documents import Slots
from fastcoder_lsp.draft.base import Drafter
from fastcoder_lsp.edits.formats import FORMATS, MODEL_NAMES, EditFormat, EditLimits, answer_tokens, format_of_model
from fastcoder_lsp.engine import EngineOptions
from fastcoder_lsp.errors import FastcoderError, ModelInvalidError
from fastcoder_lsp.model.files import ModelFiles, read_record
from fastcoder_lsp.model.machine import usable_gpu_bytes
from fastcoder_lsp.runtime.costs import CHUNK, context_tokens, keep_costs, known_costs, measure_stepwise, step_costs
from fastcoder_lsp.runtime.set_engine import load_engines
from fastcoder_lsp.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

CONTEXT_TOKENS: Final = 8192  # size of the context, at most: every published format's prompt and answer fit into it
MOST_PROMPT_TOKENS: Final = 4096  # of a prompt; Zed's bound
LEAST_PROMPT_TOKENS: Final = 1024  # of a prompt, on slow machines too: a window, and a few changes
READ_MS: Final = 4000.0  # bound on reading a whole prompt: a later suggestion is too late
MOST_ROWS: Final = 64
"""Of a step: an answer repeats most of the old text, so that many drafts are accepted; prices decide how many."""
FILES_MS: Final = 600.0
"""Bound on reading code of other files, with `auto`: the first edit in a document waits for it, later ones do not."""
KV_MB: Final = 128  # megabytes for the KV caches of its prompts
RETRY_S: Final = 30.0  # time before a failed load is tried again: the user has to fix its cause first
_TIMED = "timed"
CHUNK_MS: Final = 150.0  # of a prefill that is timed: a key that comes meanwhile waits for it
_LEAST_CHUNK: Final = 32  # tokens of it, on slow machines too
_BESIDE = ", beside other work"  # suffix of the identity of costs that were measured so


@dataclass(frozen=True, slots=True)
class EditModel:
    """A loaded edit model, shared by all fronts."""

    engines: Engines  # the weights, with a KV cache for each document
    tokenizer: Tokenizer  # its own, which may differ from the code model's
    costs: StepCosts
    format: EditFormat  # of its prompts and answers
    make_drafter: Callable[[], Drafter]  # makes a front's drafter
    shows_files: bool = True  # whether its prompts hold code of other files; `train edits` trains without
    timing: "Callable[[EditModel], Generator[None, None, EditModel]] | None" = None
    """Times its steps anew, where that was done beside other work; None where the costs hold."""

    def limits(self) -> EditLimits:
        """Sizes of its prompts on this machine."""
        room = min(MOST_PROMPT_TOKENS, self.engines.info.context // 2)
        return EditLimits(max(min(room, int(READ_MS / self.costs.prefill_ms)), min(room, LEAST_PROMPT_TOKENS)))


@dataclass(frozen=True, slots=True)
class EditRuntime:
    """An edit model as one front has it: only the scheduler's thread touches it."""

    model: EditModel
    slots: Slots  # a KV cache for each of the front's documents
    drafter: Drafter
    files_tokens: int = 0  # room for code of other files in its prompts


EditModelOf: TypeAlias = Callable[[], EditRuntime | Reason | Status]
"""A front's edit model; why there is none; the progress while it is loaded."""
LoadEditModel: TypeAlias = Callable[[Settings, threading.Event, Progress], EditModel]
"""Loads the model that settings name; ends early once the event is set."""


def no_edit_model() -> Reason:
    """The edit model of a front without one."""
    return reasons.no_edit_model()


@dataclass(slots=True)
class _EditModelLoad:
    """A model that is being loaded, was loaded, or could not be loaded."""

    loading: Status
    model: EditModel | None = None
    failed: Reason | None = None
    failed_s: float = 0.0
    timing: Generator[None, None, EditModel] | None = None
    fronts: dict[str, EditRuntime] = field(default_factory=dict)


class EditModels:
    """The edit models of a process by name; `of`, `leave` and `close` are called in the scheduler's thread.

    `load` loads the model that settings name, in a thread of its own.
    """

    def __init__(self, load: LoadEditModel) -> None:
        self._load, self._lock, self._closed = load, threading.Lock(), threading.Event()
        self._loads: dict[str, _EditModelLoad] = {}

    def of(self, settings: Settings, front: str) -> EditRuntime | Reason | Status:
        """The front's part of the model that its settings name, which it begins to load; why none; or progress."""
        name = settings.edits_model
        if not name:
            return reasons.no_edit_model()
        load = self._loads.get(name)
        if load is None or (load.failed is not None and time.monotonic() - load.failed_s > RETRY_S):
            load = self._loads[name] = _EditModelLoad(Status("loading", 0, f"loading {name}"))
            self._start(settings, load)
        if load.model is None:
            return load.failed or load.loading
        model, runtime = load.model, load.fronts.get(front)
        if runtime is None or runtime.model is not model:
            slots = Slots(model.engines, front) if runtime is None else runtime.slots
            runtime = EditRuntime(model, slots, model.make_drafter(), _files_tokens(model, settings))
            load.fronts[front] = runtime
        return runtime

    def measure(self) -> bool:
        """Time a step of a model that was timed beside other work, when nothing else runs; False where none is left."""
        for load in self._loads.values():
            if load.model is None or load.model.timing is None:
                continue
            load.timing = load.timing or load.model.timing(load.model)
            try:
                next(load.timing)
            except StopIteration as ended:
                load.model, load.timing = ended.value, None
            except Exception:
                logger.exception("an edit model cannot be timed")
                load.model, load.timing = replace(load.model, timing=None), None
            return True
        return False

    def leave(self, front: str) -> None:
        """Free the caches of a front that has left."""
        for load in self._loads.values():
            if (runtime := load.fronts.pop(front, None)) is not None:
                runtime.slots.close()

    def close(self) -> None:
        """Free all memory; a model that is still being loaded is freed once it is."""
        with self._lock:
            self._closed.set()
            loaded = [load.model for load in self._loads.values() if load.model is not None]
            self._loads = {}
        for model in loaded:
            model.engines.close()

    def _start(self, settings: Settings, load: _EditModelLoad) -> None:
        arguments = settings, load
        threading.Thread(target=self._run, args=arguments, name="fastcoder-edit-model", daemon=True).start()

    def _run(self, settings: Settings, load: _EditModelLoad) -> None:
        def progress(share: float, what: str) -> None:
            load.loading = Status("loading", int(share * 100), what)

        try:
            model = self._load(settings, self._closed, progress)
        except BaseException as error:  # noqa: BLE001 Rust extensions raise BaseExceptions
            status = failure(f"The edit model {settings.edits_model} could not be loaded", error)
            load.failed_s, load.failed = time.monotonic(), reasons.edit_model_failed(status)
            logger.warning("%s", load.failed.text)
            return
        with self._lock:
            if not self._closed.is_set():
                load.model = model
        if load.model is None:
            model.engines.close()


def load_edit_model(
    settings: Settings, stopped: threading.Event, progress: Progress = lambda _share, _what: None
) -> EditModel:
    """Load the edit model that settings name, with the engine that they name.

    A second process, which ends once `stopped` is set, does what the first start has to do, so that completions go on.
    A GPU holds no two copies of a model, so nothing is prepared for one. Raises FastcoderError, with a hint what to do.
    """
    from fastcoder_lsp.runtime.second_process import prepare  # noqa: PLC0415 brings a compiler along

    on_gpu = settings.engine.startswith("cuda-") or (settings.engine == "auto" and usable_gpu_bytes() > 0)
    if not on_gpu and not _is_prepared(settings):
        prepare(__name__, settings, progress, stopped, "edits.model")
    return _load(settings, progress)


def _is_prepared(settings: Settings) -> bool:
    from fastcoder_lsp.runtime.second_process import is_prepared  # noqa: PLC0415 as above

    try:
        files = models.find(settings.edits_model, gpu_bytes=0)
    except FastcoderError:
        return False  # loading reports it, or makes it ready
    return is_prepared(files, settings, cache_folder())


def _load(settings: Settings, progress: Progress) -> EditModel:
    cache = cache_folder()
    files = models.prepare(settings.edits_model, cache, progress, gpu_bytes=0)
    form = format_of(settings.edits_model, files)
    tokenizer = Tokenizer.load(files.folder, cache / "tokenizers")
    options = EngineOptions(
        context=CONTEXT_TOKENS,
        kv_mb=KV_MB,
        gpu_memory_percent=settings.gpu_memory_percent,
        strict=settings.gpu_strict,
        llama_strict=settings.llama_strict,
    )
    engine = load_engines(settings, files, options, cache, progress)
    try:
        slot, trained = engine.slot(_TIMED), read_record(files.folder)
        costs = quiet = known_costs(slot, files.digest, cache)
        if costs is None:  # other work goes on beside this thread, or this process has a low priority
            costs = step_costs(slot, f"{files.digest}{_BESIDE}", cache, progress, probes=False)
        engine.forget(_TIMED)
        shows_files = trained is None or not trained.edit_format
        model = EditModel(engine, tokenizer, costs, form, partial(_drafter, tokenizer, costs), shows_files)
        return model if quiet is not None else replace(model, timing=partial(_timed, digest=files.digest, cache=cache))
    except BaseException:
        engine.close()
        raise


def _files_tokens(model: EditModel, settings: Settings) -> int:
    room, prefill_ms = model.limits().prompt_tokens, model.costs.prefill_ms
    wanted = settings.context_enabled if model.shows_files else False
    return context_tokens(wanted, prefill_ms, room, within_ms=FILES_MS)


def _timed(model: EditModel, digest: str, cache: Path) -> Generator[None, None, EditModel]:
    """The model with costs that were measured while nothing else ran, which later starts read."""
    slot = model.engines.slot(_TIMED)
    chunk = max(_LEAST_CHUNK, min(CHUNK, int(CHUNK_MS / model.costs.prefill_ms)))
    costs = yield from measure_stepwise(slot, chunk=chunk)
    keep_costs(costs, slot, digest, cache)
    model.engines.forget(_TIMED)
    return replace(model, costs=costs, make_drafter=partial(_drafter, model.tokenizer, costs), timing=None)


def _drafter(tokenizer: Tokenizer, costs: StepCosts) -> Drafter:
    from fastcoder_lsp.draft.rewrite import RewriteDrafter  # noqa: PLC0415 brings a compiler along

    return RewriteDrafter(answer_tokens(tokenizer)[0], costs=costs)


def format_of(name: str, files: ModelFiles) -> EditFormat:
    """The format of a model by its training record, its name or its files' name; ModelInvalidError if unknown."""
    record = read_record(files.folder)
    if record is not None and record.edit_format:
        if (trained := {form.name: form for form in FORMATS}.get(record.edit_format)) is None:
            raise ModelInvalidError(
                f"{files.name} was trained for the prompt format {record.edit_format!r}, which this program lacks",
                "Update fastcoder-lsp, or train it again.",
            )
        return trained
    for known in (name, files.hub_id, files.name, str(files.folder)):
        if known and (found := format_of_model(known)) is not None:
            return found
    raise ModelInvalidError(
        f"{files.name} is not a known edit model",
        "Name one in `edits.model` that `fastcoder-lsp train edits` made, or whose name says its format: "
        f"{', '.join(MODEL_NAMES)}.",
    )


def main() -> NoReturn:
    """Load the edit model once; runs in the second process."""
    from fastcoder_lsp.runtime.second_process import serve_parent  # noqa: PLC0415 as above

    serve_parent(lambda settings, progress: _load(settings, progress).engines.close())


if __name__ == "__main__":
    main()
